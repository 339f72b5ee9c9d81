// SPDX-License-Identifier: BSD-3-Clause
// The device memory that this library has allocated in one session: driver blocks, each divided among allocations.
#pragma once

#include "allocation_request.h"
#include "block_plan.h"
#include "gaudi/card/card.h"
#include "region.h"
#include "retry_pace.h"

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace gaudi {

class Arena : public SessionPart {
public:
    static constexpr PartKind kKind = PartKind::arena;

    explicit Arena(Session &session);

    /// The address. Steady use costs no driver call, because the last empty block is kept.
    Result<std::uint64_t> allocate(const AllocationRequest &request);
    /// False when no allocation starts at `address`.
    bool free(std::uint64_t address);

    /// A submission that may never end uses the allocation at `address`: its memory is not used again after it is freed.
    /// From any thread.
    void abandon(std::uint64_t address);

    /// For the hand-over of the card: gives back all memory and takes no more requests. Refuses while an allocation is
    /// live, or while an importer keeps a block.
    Result<void> vacate();
    /// Gives back all blocks: the card is about to be closed.
    void release() override;

    struct Usage {
        std::uint64_t blocks = 0;
        std::uint64_t block_bytes = 0;
        std::uint64_t used_bytes = 0;
        std::uint64_t changes = 0;         // blocks taken and given back, ever
        std::uint64_t deferred_unmaps = 0; // blocks given back that an importer still has: the driver keeps them
        std::uint64_t abandoned = 0;       // allocations that a submission may still access
    };
    Usage usage() const;

private:
    struct DeferredUnmap {
        std::uint64_t size;
        thunk::Allocation allocation;
        thunk::Mapping mapping;
        RetryPace pace{};
    };

    Result<std::uint64_t> try_allocate(const AllocationRequest &request) GAUDI_REQUIRES(m_mutex);
    Result<std::uint64_t> allocate_fixed(const AllocationRequest &request) GAUDI_REQUIRES(m_mutex);
    std::optional<std::uint64_t> allocate_in(Region &block, const AllocationRequest &request) GAUDI_REQUIRES(m_mutex);
    Result<Region *> add_block(std::uint64_t length, std::uint64_t hint, std::uint64_t limit) GAUDI_REQUIRES(m_mutex);
    BlockSpace measure_space(std::uint64_t limit) const GAUDI_REQUIRES(m_mutex);
    std::uint64_t held() const GAUDI_REQUIRES(m_mutex); // bytes, deferred unmaps included
    Error error_limit(std::uint64_t limit) const GAUDI_REQUIRES(m_mutex);
    Result<thunk::Mapping> map_apart(const thunk::Allocation &allocation, std::uint64_t size) GAUDI_REQUIRES(m_mutex);
    Result<thunk::Allocation> take_block(std::uint64_t size, std::uint64_t limit) GAUDI_REQUIRES(m_mutex);
    void retry_export(Region &block) GAUDI_REQUIRES(m_mutex);
    void give_back(std::size_t index) GAUDI_REQUIRES(m_mutex);
    bool give_back_empty() GAUDI_REQUIRES(m_mutex); // whether there was any
    void give_back_all() GAUDI_REQUIRES(m_mutex);
    /// At an allocation or a free; `need` says what for. Whether any succeeded.
    bool retry_deferred_unmaps(RetryPace::Need need = RetryPace::Need::none) GAUDI_REQUIRES(m_mutex);
    bool is_abandoned(Range range) const; // whether any allocation in it is
    void count_used(std::uint64_t before, std::uint64_t after) GAUDI_REQUIRES(m_mutex);
    void count_held() GAUDI_REQUIRES(m_mutex);

    Session &m_session;
    Card &m_card;
    mutable os::Mutex m_mutex{rank::kArena};
    std::vector<Region *> m_blocks GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_changes GAUDI_GUARDED_BY(m_mutex) = 0;
    std::vector<DeferredUnmap> m_deferred GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_next_address GAUDI_GUARDED_BY(m_mutex) = 0;
    bool m_vacated GAUDI_GUARDED_BY(m_mutex) = false;
    mutable os::Mutex m_abandoned_mutex{rank::kAbandoned};
    std::set<std::uint64_t> m_abandoned GAUDI_GUARDED_BY(m_abandoned_mutex); // by address
};

/// The usage of a card's current session; all zero where there is none.
Arena::Usage usage_of(const Card &card);
/// Hands the card over to a framework that opens it: Card::hand_over() with the arena's consent.
Result<int> hand_over(Card &card);

} // namespace gaudi
