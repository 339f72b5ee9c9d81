// SPDX-License-Identifier: BSD-3-Clause
// The domain gaudi_copy and its transport as a program sees them through UCT's own API.
#pragma once

#include "uct_open.h"
#include "uct_v2.h"

#include "e2e/printed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace uct_side {

using Bytes = std::vector<unsigned char>;

inline constexpr std::size_t kKiB = 1u << 10;
inline constexpr std::size_t kMiB = 1u << 20;
inline constexpr std::size_t kPage = 768 * kMiB; // of a Gaudi2

using uct_open::check;
using uct_open::Failure;
Bytes pattern(std::size_t size, std::uint64_t seed);

/// Values of UCX_GAUDI_COPY_* by name, without the prefix.
using Settings = uct_open::Settings;
/// Settings of a domain that allocates on this card.
Settings settings_for_card(unsigned index);

class Domain : public uct_open::Domain {
public:
    /// Null when UCX does not offer the domain.
    static std::unique_ptr<Domain> find(const Settings &settings = {});
    /// Throws when UCX does not offer the domain.
    explicit Domain(const Settings &settings = {});

    uct_md_attr_t attributes() const;
    /// Attributes of memory at `address`; `mask` as in uct_v2.h.
    std::optional<MemoryAttributes> query(const void *address, std::size_t length = 1, std::uint64_t mask = 0x4f) const;
    std::vector<unsigned char> pack_key(uct_mem_h memh) const;
    uct_mem_h reg(void *address, std::size_t length, std::optional<RegisterParams> params = {}) const;
    ucs_status_t dereg(uct_mem_h memh, unsigned flags = 0) const;

private:
    struct Unopened {
        explicit Unopened() = default;
    };
    explicit Domain(Unopened) {}
};

/// Gaudi memory that the domain allocated.
class Buffer {
public:
    struct Placement {
        unsigned flags = 0;
        void *address = nullptr;
        ucs_sys_device_t device = UCS_SYS_DEVICE_ID_UNKNOWN;
    };
    static ucs_status_t allocate(const Domain &domain, std::size_t size, const Placement &placement,
                                 uct_allocated_memory_t &memory);

    Buffer(const Domain &domain, std::size_t size) : Buffer(domain, size, Placement{}) {}
    Buffer(const Domain &domain, std::size_t size, const Placement &placement);
    Buffer(Buffer &&other) noexcept : m_memory(std::exchange(other.m_memory, {})) {}
    Buffer &operator=(Buffer &&) = delete;
    ~Buffer();

    unsigned char *data() const { return static_cast<unsigned char *>(m_memory.address); }
    std::uint64_t address(std::size_t offset = 0) const { return reinterpret_cast<std::uint64_t>(data() + offset); }
    uct_mem_h memh() const { return m_memory.memh; }
    std::size_t size() const { return m_memory.length; }
    ucs_sys_device_t device() const { return m_memory.sys_device; }

private:
    uct_allocated_memory_t m_memory{};
};

class Transport : public uct_open::Interface {
public:
    explicit Transport(Domain &domain, const char *name = "gaudi_cpy") : Interface(domain, name, "gaudi") {}

    uct_ep_h ep() const { return m_ep.get(); }
    unsigned progress() const { return uct_worker_progress(worker()); }

    /// Posts a copy that decrements `comp` when it is complete.
    ucs_status_t post_put(const void *from, std::uint64_t to, std::size_t length, uct_mem_h memh,
                          uct_completion_t &comp) const;
    ucs_status_t post_get(void *to, std::uint64_t from, std::size_t length, uct_mem_h memh,
                          uct_completion_t &comp) const;
    /// Posts a copy and waits until it is complete.
    ucs_status_t put(const void *from, std::uint64_t to, std::size_t length, uct_mem_h memh = nullptr) const;
    ucs_status_t get(void *to, std::uint64_t from, std::size_t length, uct_mem_h memh = nullptr) const;
    ucs_status_t flush() const;

    void write(const Buffer &buffer, const Bytes &bytes, std::size_t offset = 0) const;
    Bytes read(const Buffer &buffer, std::size_t length, std::size_t offset = 0) const;

private:
    ucs_status_t finish(ucs_status_t status, uct_completion_t &comp) const;

    uct_open::Endpoint m_ep = endpoint_to_itself();
};

/// A completion without a callback.
uct_completion_t make_completion(int count = 1);

/// A counter of softgaudi, summed over all cards.
std::uint64_t read_counter(const char *name);
/// Calls of one libhl-thunk function, summed over all cards.
std::uint64_t count_calls(const char *function);

} // namespace uct_side
