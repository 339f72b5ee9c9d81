// SPDX-License-Identifier: BSD-3-Clause
#include "arena.h"

#include "foreign_mappings.h"
#include "live_mappings.h"
#include "lost_memory.h"
#include "os/format.h"
#include "region_pool.h"

#include <algorithm>
#include <cerrno>

namespace gaudi {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

tl::unexpected<Error> refuse(int code, const Card &card, const std::string &reason) {
    return tl::unexpected(thunk::make_error(code, "allocate", card.bus_id(), reason));
}

} // namespace

Arena::Arena(Session &session) : m_session(session), m_card(session.card()) {}

// ---- allocations ----------------------------------------------------------------------------------------------------

Result<std::uint64_t> Arena::allocate(const AllocationRequest &request) {
    if (auto possible = check(m_card, request); !possible)
        return tl::unexpected(possible.error());
    if (m_session.inherited()) // before the lock, which a thread of the parent may have held
        return tl::unexpected(m_session.why_unusable());
    const os::MutexLock lock(m_mutex);
    auto allocated = try_allocate(request);
    if (!allocated && !request.tentative)
        count_up(m_session.counters().failed_allocations); // the framework's memory counts there too
    return allocated;
}

Result<std::uint64_t> Arena::try_allocate(const AllocationRequest &request) {
    if (!m_session.usable() || m_vacated)
        return tl::unexpected(m_session.why_unusable());
    retry_deferred_unmaps();
    if (request.fixed != 0)
        return allocate_fixed(request);
    for (Region *block : m_blocks)
        if (const auto address = allocate_in(*block, request))
            return *address;
    // A block starts at a multiple of a page that need not be a power of two: leave room to align inside.
    const std::uint64_t room = request.alignment > Heap::kGranule ? request.alignment : 0;
    const std::uint64_t length = round_up(request.length, Heap::kGranule) + room;
    auto block = add_block(length, 0, request.limit);
    if (!block && block.error().code == ENOMEM && retry_deferred_unmaps(RetryPace::Need::memory))
        block = add_block(length, 0, request.limit);
    if (!block)
        return tl::unexpected(block.error());
    return *allocate_in(**block, request);
}

Result<std::uint64_t> Arena::allocate_fixed(const AllocationRequest &request) {
    for (Region *block : m_blocks)
        if (block->contains(request.fixed, request.length)) {
            Heap &heap = block->block()->heap;
            const std::uint64_t used = heap.used();
            if (heap.allocate_at(request.fixed - block->base(), request.length)) {
                count_used(used, heap.used());
                return request.fixed;
            }
            return refuse(EEXIST, m_card,
                          os::format("the requested address {:#x} is allocated already", request.fixed));
        }
    // Blocks lie at multiples of the page from the start of the card's address range.
    const std::uint64_t page = m_card.page_size();
    const std::uint64_t first = m_card.info().dram_base_address;
    if (request.fixed < first || request.fixed % Heap::kGranule != 0)
        return refuse(EINVAL, m_card,
                      os::format("no device memory can be at {:#x}: it starts at {:#x}, in units of {} bytes",
                                 request.fixed, first, Heap::kGranule));
    const std::uint64_t hint = first + (request.fixed - first) / page * page;
    auto block = add_block(request.fixed - hint + request.length, hint, request.limit);
    if (!block)
        return tl::unexpected(block.error());
    Heap &heap = (*block)->block()->heap;
    if ((*block)->base() == hint && heap.allocate_at(request.fixed - hint, request.length)) {
        count_used(0, heap.used());
        return request.fixed;
    }
    give_back(m_blocks.size() - 1);
    return refuse(EEXIST, m_card, os::format("the driver maps nothing at {:#x}, the requested address", request.fixed));
}

std::optional<std::uint64_t> Arena::allocate_in(Region &block, const AllocationRequest &request) {
    Region::Block &owned = *block.block();
    const std::uint64_t used = owned.heap.used();
    const bool first = owned.heap.empty();
    const auto offset = owned.heap.allocate(request.length, request.alignment, block.base());
    if (!offset)
        return {};
    count_used(used, owned.heap.used());
    if (block.export_deferred())
        retry_export(block);
    if (first) // the next allocations are assumed to be of the same size
        owned.remainder = left_over(block.size(), round_up(request.length, Heap::kGranule));
    return block.base() + *offset;
}

bool Arena::free(std::uint64_t address) {
    if (m_session.inherited())
        return true; // the allocation is the parent's
    const os::MutexLock lock(m_mutex);
    const auto holder = std::find_if(m_blocks.begin(), m_blocks.end(),
                                     [&](const Region *block) { return block->contains(address, 1); });
    if (holder == m_blocks.end())
        return false;
    if (is_abandoned({address, 1}))
        return true;
    Heap &heap = (*holder)->block()->heap;
    const std::uint64_t used = heap.used();
    if (!heap.free(address - (*holder)->base()))
        return false;
    count_used(used, heap.used());
    if (heap.empty()) {
        // One empty block of the ordinary size stays: programs that allocate and free in turn pay nothing. A framework
        // that shares the card needs the memory more.
        const std::uint64_t usual = m_card.block_size();
        const auto is_spare = [&](const Region *block) {
            return block->block()->heap.empty() && block->size() == usual;
        };
        const auto spares = std::count_if(m_blocks.begin(), m_blocks.end(), is_spare);
        if ((*holder)->size() != usual || spares > 1 || m_session.adopted())
            give_back(static_cast<std::size_t>(holder - m_blocks.begin()));
    }
    retry_deferred_unmaps();
    return true;
}

void Arena::abandon(std::uint64_t address) {
    const os::MutexLock lock(m_abandoned_mutex);
    m_abandoned.insert(address);
}

bool Arena::is_abandoned(Range range) const {
    const os::MutexLock lock(m_abandoned_mutex);
    const auto first = m_abandoned.lower_bound(range.base);
    return first != m_abandoned.end() && *first - range.base < range.length;
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

void Arena::count_used(std::uint64_t before, std::uint64_t after) {
    count_up_exclusive(m_session.counters().memory_used_bytes, after - before); // modulo 2^64, so it may go down
}

void Arena::count_held() {
    CardCounters &counters = m_session.counters();
    counters.memory_held_bytes.store(held(), std::memory_order_relaxed);
    counters.deferred_unmaps_pending.store(m_deferred.size(), std::memory_order_relaxed);
}

std::uint64_t Arena::held() const {
    std::uint64_t bytes = 0;
    for (const Region *block : m_blocks)
        bytes += block->size();
    for (const DeferredUnmap &deferred : m_deferred)
        bytes += deferred.size;
    return bytes;
}

Error Arena::error_limit(std::uint64_t limit) const { return error_exceeds(m_card, limit, held()); }

/// The card as a plan for further blocks sees it. Empty blocks count as free: they are given back where need be.
BlockSpace Arena::measure_space(std::uint64_t limit) const {
    BlockSpace space;
    space.unit = m_card.block_size();
    const std::uint64_t allowed = std::min(limit, m_card.info().dram_size);
    space.left = allowed - std::min(allowed, held());
    if (const auto usage = m_session.device().dram_usage()) // a framework may have its part of the card
        space.left = std::min<std::uint64_t>(space.left, usage->dram_free_mem);
    for (const Region *block : m_blocks) {
        const Region::Block &owned = *block->block();
        if (owned.heap.empty()) {
            space.left += block->size();
            continue;
        }
        space.held += block->size();
        // The room that frees have left will be allocated again.
        space.wasted += std::min(owned.remainder, block->size() - owned.heap.used());
    }
    return space;
}

/// Maps at an address that no other card of the process uses. The driver's own choice would start at the same address on
/// every card, and an address would no longer tell the card.
Result<thunk::Mapping> Arena::map_apart(const thunk::Allocation &allocation, std::uint64_t size) {
    // The first slot is left to mappings whose address the driver chooses; nine slots fit below the firmware's range.
    constexpr std::uint64_t kSlot = 8ull << 40;
    const std::uint64_t page = m_card.page_size();
    const std::uint64_t slot = kSlot / page * page;
    const std::uint64_t begin = m_card.info().dram_base_address + (m_card.slot() + 1) * slot;
    if (m_next_address < begin || m_next_address + size > begin + slot)
        m_next_address = begin;
    m_next_address = LostMemory::get().skip({m_next_address, size}); // a stale pointer must not reach new memory
    if (m_next_address + size > begin + slot)
        m_next_address = begin;
    Error last;
    for (unsigned tries = 0; tries < 64; ++tries) {
        auto mapping = thunk::map_device(allocation, m_next_address);
        if (!mapping)
            return mapping;
        if (mapping->get() == m_next_address) {
            m_next_address += size;
            return mapping;
        }
        // The address is taken, or this driver takes no hints: its own choice will do if no other mapping is there.
        if (!LiveMappings::get().overlaps(m_session, {mapping->get(), size}))
            return mapping;
        last = thunk::make_error(
            EEXIST, "hlthunk_device_memory_map", m_card.bus_id(),
            "the driver maps the memory of several cards at the same address; use one card per process");
        m_next_address += page;
    }
    return tl::unexpected(last);
}

/// `size` bytes from the driver, if need be in place of empty blocks.
Result<thunk::Allocation> Arena::take_block(std::uint64_t size, std::uint64_t limit) {
    if (size > limit || held() > limit - size)
        give_back_empty();
    if (size > limit || held() > limit - size)
        return tl::unexpected(error_limit(limit));
    auto allocation = thunk::allocate(m_session.device(), size);
    if (!allocation && allocation.error().code == ENOMEM && give_back_empty())
        allocation = thunk::allocate(m_session.device(), size);
    return allocation;
}

Result<Region *> Arena::add_block(std::uint64_t length, std::uint64_t hint, std::uint64_t limit) {
    const std::uint64_t least = round_up(length, m_card.page_size());
    if (least > limit)
        return tl::unexpected(error_limit(limit));
    const BlockSpace room = measure_space(limit);
    const std::uint64_t usual = round_up(length, room.unit);
    // A framework that shares the card needs its memory more than the next allocation does.
    const bool may_grow = hint == 0 && !m_session.adopted();
    std::uint64_t size = std::max(least, may_grow ? plan_block(length, room) : usual <= room.left ? usual : 0);
    if (size >= m_session.shortest_refusal()) // the driver would not export it
        size = least;
    auto allocation = take_block(size, limit);
    if (!allocation && allocation.error().code == ENOMEM && size > least)
        allocation = take_block(size = least, limit);
    if (!allocation)
        return tl::unexpected(allocation.error());
    auto mapping = hint != 0 ? thunk::map_device(*allocation, hint) : map_apart(*allocation, size);
    if (!mapping)
        return tl::unexpected(mapping.error());
    const Range range{mapping->get(), size};
    if (LiveMappings::get().overlaps(m_session, range))
        return refuse(
            EEXIST, m_card,
            os::format("the driver has mapped it at {:#x}, which is another card's memory; use one card per process",
                       range.base));
    if (ForeignMappings *foreign = m_session.find<ForeignMappings>())
        foreign->withdraw_overlapping(range); // the driver has just given these addresses away

    LostMemory::get().remove(range);
    Region *region = RegionPool::get().take_block(size);
    region->begin(m_session, range, Region::Origin::own);
    region->block()->mapping = std::move(*mapping);
    region->block()->allocation = std::move(*allocation);
    region->block()->remainder = 0;
    // UCX must know from the start whether the block can be registered: a refusal later fails the whole registration.
    if (m_session.exports() == Session::Exports::no)
        region->forbid_export(m_session.why_no_exports());
    else if (const auto probed = region->probe_export())
        m_session.set_exports(*probed, size);
    else
        region->defer_export();
    m_blocks.push_back(region);
    ++m_changes;
    count_held();
    LiveMappings::get().publish(*region);
    return region;
}

/// One try with each allocation in the block, so that a shortage does not stage its memory for ever.
void Arena::retry_export(Region &block) {
    const auto probed = block.probe_export(1);
    if (!probed)
        return;
    m_session.set_exports(*probed, block.size());
    if (*probed)
        LiveMappings::get().republish(block);
}

void Arena::give_back(std::size_t index) {
    Region *region = m_blocks[index];
    ++m_changes;
    m_blocks.erase(m_blocks.begin() + static_cast<std::ptrdiff_t>(index));
    const bool abandoned = is_abandoned({region->base(), region->size()});
    count_used(region->block()->heap.used(), 0);
    if (m_session.card_lost())
        LostMemory::get().add(m_card, {region->base(), region->size()});
    LiveMappings::get().withdraw(*region); // registrations end before the mapping does
    region->end();
    Region::Block &owned = *region->block();
    DeferredUnmap unmap{region->size(), std::move(owned.allocation), std::move(owned.mapping)};
    RegionPool::get().give_back(*region);
    if (abandoned || m_session.card_lost()) { // the driver unmaps it with the descriptor, after it has ended what runs
        unmap.mapping.detach();
        unmap.allocation.detach();
    } else if (!unmap.mapping.release() || !unmap.allocation.release()) {
        m_deferred.push_back(std::move(unmap));
        count_up_exclusive(m_session.counters().deferred_unmaps, 1);
    }
    count_held();
}

bool Arena::give_back_empty() {
    bool any = false;
    for (std::size_t index = m_blocks.size(); index-- > 0;)
        if (m_blocks[index]->block()->heap.empty()) {
            give_back(index);
            any = true;
        }
    return any;
}

bool Arena::retry_deferred_unmaps(RetryPace::Need need) {
    if (m_deferred.empty())
        return false;
    const bool any = std::erase_if(m_deferred, [&](DeferredUnmap &deferred) {
                         if (!deferred.pace.is_due(need))
                             return false;
                         const bool ended = deferred.mapping.release() && deferred.allocation.release();
                         if (!ended)
                             deferred.pace.note_refusal();
                         return ended;
                     }) != 0;
    if (any)
        count_held();
    return any;
}

void Arena::give_back_all() {
    while (!m_blocks.empty())
        give_back(m_blocks.size() - 1);
    retry_deferred_unmaps(RetryPace::Need::card);
}

Result<void> Arena::vacate() {
    const os::MutexLock lock(m_mutex);
    std::uint64_t used = 0, count = 0;
    for (const Region *block : m_blocks) {
        used += block->block()->heap.used();
        count += block->block()->heap.allocations();
    }
    if (count != 0)
        return tl::unexpected(thunk::make_error(
            EBUSY, "hlthunk_open", m_card.bus_id(),
            os::format("UCX has {} allocations with {} bytes on card {}; free them before the framework opens it, or "
                       "let the framework open the card first",
                       count, used, m_card.number())));
    give_back_all();
    if (!m_deferred.empty())
        return tl::unexpected(thunk::make_error(
            EBUSY, "hlthunk_open", m_card.bus_id(),
            os::format("an RDMA device still has {} blocks of card {} registered; deregister them, and try again after "
                       "UCX's next registration, with which it gives back those of freed memory",
                       m_deferred.size(), m_card.number())));
    m_vacated = true;
    return {};
}

void Arena::release() {
    const os::MutexLock lock(m_mutex);
    give_back_all();
    for (DeferredUnmap &deferred : m_deferred) { // the driver keeps them for the importer, and ends them after it
        deferred.mapping.detach();
        deferred.allocation.detach();
    }
    m_deferred.clear();
    count_held();
    const os::MutexLock abandoned_lock(m_abandoned_mutex);
    m_abandoned.clear();
}

Arena::Usage Arena::usage() const {
    const os::MutexLock lock(m_mutex);
    Usage usage;
    for (const Region *block : m_blocks) {
        ++usage.blocks;
        usage.block_bytes += block->size();
        usage.used_bytes += block->block()->heap.used();
    }
    usage.changes = m_changes;
    usage.deferred_unmaps = m_deferred.size();
    const os::MutexLock abandoned_lock(m_abandoned_mutex);
    usage.abandoned = m_abandoned.size();
    return usage;
}

// ---- by card --------------------------------------------------------------------------------------------------------

Arena::Usage usage_of(const Card &card) {
    const Session *session = card.session();
    const Arena *arena = session ? session->find<Arena>() : nullptr;
    return arena ? arena->usage() : Arena::Usage{};
}

Result<int> hand_over(Card &card) {
    return card.hand_over([](Session &session) { return session.get<Arena>().vacate(); });
}

} // namespace gaudi
