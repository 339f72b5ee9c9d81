// SPDX-License-Identifier: BSD-3-Clause
// What the steps work with: an open card, device memory and host memory of their own, and copies by bare submissions. A
// submission that does not end keeps all of it mapped until the process ends, because the card may still access it.
#pragma once

#include "gaudi/card/card_identity.h"
#include "gaudi/copy/packets.h"
#include "thunk/owners.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gaudi::cli::verify {

/// The card under test, with device memory of this program on it.
struct Target {
    const CardIdentity &card;
    thunk::Device device;
    std::uint64_t memory = 0;   // kMemoryBytes of it
    bool shared = false;        // SynapseAI has opened the card, in this process
    std::string no_copies = {}; // why no copy can be made; empty where copies arrive

    static constexpr std::uint64_t kMemoryBytes = 64 << 20;
};

/// Whether a submission was given up. Nothing is unmapped then.
bool is_abandoned();
void abandon();

/// Pages of host memory that are mapped into the card.
class HostBlock {
public:
    static Result<std::unique_ptr<HostBlock>> make(const thunk::Device &device, std::size_t length);
    ~HostBlock();
    HostBlock(const HostBlock &) = delete;
    HostBlock &operator=(const HostBlock &) = delete;

    std::byte *data() const { return m_data; }
    std::uint64_t address() const { return m_mapping.get(); } // for the card
    std::size_t size() const { return m_size; }

private:
    HostBlock(std::byte *data, std::size_t size) : m_data(data), m_size(size) {}
    std::byte *m_data;
    std::size_t m_size;
    thunk::Mapping m_mapping;
};

/// Bytes that depend on their place and on `seed`.
void fill(std::byte *data, std::size_t length, std::uint32_t seed);
bool is_filled(const std::byte *data, std::size_t length, std::uint32_t seed);

/// A number that no earlier run has left in the card's memory.
std::uint32_t fresh_seed();

/// A device allocation and its mapping.
struct DeviceBlock {
    thunk::Allocation allocation;
    thunk::Mapping mapping;

    static Result<DeviceBlock> make(const thunk::Device &device, std::uint64_t length, std::uint64_t hint = 0);
    std::uint64_t address() const { return mapping.get(); }
    DeviceBlock() = default;
    DeviceBlock(DeviceBlock &&) = default;
    DeviceBlock &operator=(DeviceBlock &&) = default;
    ~DeviceBlock();
};

/// Exports from an offset, which the product never does.
Result<thunk::Fd> export_from(const thunk::Device &device, std::uint64_t address, std::uint64_t size,
                              std::uint64_t offset);

/// Command buffers and completion flags, one of each per slot.
class TestRing {
public:
    static Result<std::unique_ptr<TestRing>> make(const Target &target, unsigned slots);

    struct Copy {
        std::uint64_t source, destination;
        std::uint32_t length;
    };
    /// Copies, then the slot's flag becomes `flag`. Returns the sequence number.
    Result<std::uint64_t> submit(unsigned slot, std::uint32_t queue, const Copy &copy, std::uint32_t flag);
    std::uint32_t flag(unsigned slot) const;

    /// A copy in slot 0 that has ended, by the driver's word.
    Result<void> copy(std::uint32_t queue, std::uint64_t source, std::uint64_t destination, std::uint32_t length);
    /// Until the driver says that the submission has ended; an error after 10 s.
    Result<void> wait(std::uint64_t sequence);

private:
    TestRing(const Target &target, std::unique_ptr<HostBlock> block) : m_target(target), m_block(std::move(block)) {}
    const Target &m_target;
    std::unique_ptr<HostBlock> m_block;
};

/// The queues that the product copies within this card by.
std::vector<std::uint32_t> card_queues(const CardIdentity &card);

} // namespace gaudi::cli::verify
