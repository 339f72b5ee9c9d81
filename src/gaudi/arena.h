// SPDX-License-Identifier: BSD-3-Clause
// The device memory of one card that belongs to us: driver blocks, each divided among allocations.
#pragma once

#include "block_plan.h"
#include "region.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace gaudi {

class Arena {
public:
    explicit Arena(Card &card) : m_card(card) {}
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    struct Request {
        std::uint64_t length = 0;
        std::uint64_t alignment = 0;      // 0 or 1 is none
        std::uint64_t fixed = 0;          // exactly there, or nowhere
        std::uint64_t limit = UINT64_MAX; // bytes of driver blocks that this card may hold
    };
    /// The address. Steady use costs no driver call: the last empty block is kept.
    Result<std::uint64_t> allocate(const Request &request);
    /// False when no allocation starts at `address`.
    bool free(std::uint64_t address);

    /// The allocation at `address` is touched by a submission that may never end: when its owner frees it, it stays as it
    /// is. From any thread.
    void abandon(std::uint64_t address);

    /// Gives the empty block back: somebody else needs that memory.
    void give_back_spare();
    /// Gives everything back: the card is about to be closed.
    void leave();

    struct Usage {
        std::uint64_t blocks = 0;
        std::uint64_t block_bytes = 0;
        std::uint64_t used_bytes = 0;
        std::uint64_t changes = 0;   // blocks taken and given back, ever
        std::uint64_t lingering = 0; // given back, but still imported by somebody: the driver keeps them
        std::uint64_t abandoned = 0; // allocations that a submission may still touch
    };
    Usage usage() const;

private:
    Result<Region *> add_block(std::uint64_t length, std::uint64_t hint, std::uint64_t limit);
    BlockSpace space(const thunk::Device &device, std::uint64_t limit) const;
    std::uint64_t held() const; // bytes, with what the driver still keeps
    Error exceeds(std::uint64_t limit) const;
    Result<thunk::Mapping> map_apart(const thunk::Allocation &allocation, std::uint64_t size);
    /// `size` bytes from the driver, if need be in place of empty blocks.
    Result<thunk::Allocation> take_block(const thunk::Device &device, std::uint64_t size, std::uint64_t limit);
    std::optional<std::uint64_t> allocate_in(Region &block, const Request &request);
    void retry_export(Region &block);
    void give_back(std::size_t index);
    bool is_abandoned(Range range) const; // whether any allocation in it is
    bool give_back_empty();               // whether there was any
    void retry_lingering();
    Region *recycled(std::uint64_t size);

    struct Lingering {
        std::uint64_t size;
        thunk::Allocation allocation;
        thunk::Mapping mapping;
    };

    Card &m_card;
    mutable std::mutex m_mutex;
    std::vector<Region *> m_blocks;
    std::uint64_t m_changes = 0;
    std::vector<Region *> m_idle; // without a mapping, to be used again
    std::vector<Lingering> m_lingering;
    std::uint64_t m_next_address = 0;
    mutable std::mutex m_abandoned_mutex; // no other lock is taken while it is held
    std::set<std::uint64_t> m_abandoned;  // allocations, by address
};

} // namespace gaudi
