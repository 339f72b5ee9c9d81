// SPDX-License-Identifier: BSD-3-Clause
// What others in the process do with cards, call by call. The size is known when memory is allocated, its address when it
// is mapped, and the address alone when it is unmapped: this joins them, so that everybody who must know of a mapping does
// before it is used and before it goes.
#pragma once

#include "gaudi/cards.h"

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gaudi::ucm {

/// The library's functions as it has them.
struct RealCalls {
    decltype(&hlthunk_open) open = nullptr;
    decltype(&hlthunk_open_by_module_id) open_by_module_id = nullptr;
    decltype(&hlthunk_close) close = nullptr;
    decltype(&hlthunk_device_memory_alloc) device_memory_alloc = nullptr;
    decltype(&hlthunk_device_memory_free) device_memory_free = nullptr;
    decltype(&hlthunk_device_memory_map) device_memory_map = nullptr;
    decltype(&hlthunk_memory_unmap) memory_unmap = nullptr;
};

class Bookkeeping {
public:
    Bookkeeping(Cards &cards, const RealCalls &real) : m_cards(cards), m_real(real) {}
    Bookkeeping(const Bookkeeping &) = delete;
    Bookkeeping &operator=(const Bookkeeping &) = delete;

    // As the library's functions, errno included.
    int open(hlthunk_device_name name, const char *bus_id) noexcept;
    int open_by_module_id(std::uint32_t module_id) noexcept;
    int close(int fd) noexcept;
    std::uint64_t alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous, bool shared) noexcept;
    int free(int fd, std::uint64_t handle) noexcept;
    std::uint64_t map(int fd, std::uint64_t handle, std::uint64_t hint) noexcept;
    int unmap(int fd, std::uint64_t address) noexcept;

    /// Mappings that their owner has given back but a NIC still has registered: the driver refuses to unmap those.
    std::size_t lingering() const { return m_lingering_count.load(std::memory_order_acquire); }

private:
    /// The file behind a descriptor, so that a number that was closed unseen and given out again is noticed when it is
    /// closed: then its card is let go of.
    struct File {
        Card *card = nullptr;
        dev_t device = 0;
        ino_t inode = 0;
        dev_t node = 0;
    };
    struct Mapped {
        std::uint64_t handle = 0;
        std::uint64_t size = 0;
    };
    struct Lingering {
        Card *card;
        std::uint64_t address;
        std::uint64_t handle; // 0: not seen
        bool freed = false;
    };
    using Key = std::pair<const Card *, std::uint64_t>;
    struct Hash {
        /// Handles count up and addresses are of whole pages: multiplied, they differ in their upper bits.
        std::size_t operator()(const Key &key) const {
            return (key.second + reinterpret_cast<std::uintptr_t>(key.first)) * 0x9e3779b97f4a7c15 >> 32;
        }
    };

    Card *card_of(int fd);
    Card *card_now(int fd);
    bool was_left(Card &card);
    void opened(int fd);
    int lend(Card &card);
    void clean_up(const Card &card, int fd);
    template <class Open, class Meant>
    int open_or_lend(const Open &open, const Meant &meant) noexcept;
    bool let_linger(Card *card, std::uint64_t life, std::uint64_t address, std::uint64_t handle);
    bool freed_later(const Card *card, std::uint64_t handle, bool seen); // the mutex is held
    void retry();
    void retry_all();
    void forget(const Card *card);

    Cards &m_cards;
    const RealCalls m_real;
    std::mutex m_retrying;
    std::mutex m_mutex; // never held while the library or UCX is called
    std::map<int, File> m_files;
    // Frameworks have thousands.
    std::unordered_map<Key, std::uint64_t, Hash> m_sizes; // by handle
    std::unordered_map<Key, Mapped, Hash> m_mapped;       // by address
    std::vector<Lingering> m_lingering;
    std::atomic<std::size_t> m_lingering_count{0};
};

} // namespace gaudi::ucm
