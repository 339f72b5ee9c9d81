// SPDX-License-Identifier: BSD-3-Clause
#include "arena.h"

#include "card.h"
#include "cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace gaudi {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

} // namespace

/// A region object whose bookkeeping fits `size`. Only as many exist as were ever in use at once.
Region *Arena::recycled(std::uint64_t size) {
    const auto fits = std::find_if(m_idle.begin(), m_idle.end(),
                                   [&](const Region *region) { return region->m_heap->size() == size; });
    if (fits != m_idle.end()) {
        Region *region = *fits;
        m_idle.erase(fits);
        return region;
    }
    auto *region = new Region;
    region->m_heap = std::make_unique<Heap>(size);
    return region;
}

/// Maps at an address that no other card of the process uses. Left alone, the driver would start at the same address on
/// every card, and an address would no longer tell whose memory it is.
Result<thunk::Mapping> Arena::map_apart(const thunk::Allocation &allocation, std::uint64_t size) {
    // The first window is left to those who let the driver choose; nine of them fit below what the firmware keeps for
    // itself.
    constexpr std::uint64_t kWindow = 8ull << 40;
    const std::uint64_t page = m_card.page_size();
    const std::uint64_t window = kWindow / page * page;
    const std::uint64_t begin = m_card.info().dram_base_address + (m_card.index() + 1) * window;
    if (m_next_address < begin || m_next_address + size > begin + window)
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
        // Taken, or the driver takes no hints here: what it chose will do if it is nobody else's.
        if (!m_card.cards().taken(m_card, mapping->get(), size))
            return mapping;
        last = thunk::make_error(EEXIST, "hlthunk_device_memory_map", m_card.bus_id(),
                                 "the driver maps every card's memory at the same address");
        m_next_address += page;
    }
    return tl::unexpected(last);
}

std::uint64_t Arena::held() const {
    std::uint64_t bytes = 0;
    for (const Region *block : m_blocks)
        bytes += block->size();
    for (const Lingering &leftover : m_lingering)
        bytes += leftover.size;
    return bytes;
}

/// The card as a plan for further blocks sees it. Empty blocks are given back where they are in the way.
BlockSpace Arena::space(const thunk::Device &device, std::uint64_t limit) const {
    BlockSpace space;
    space.unit = m_card.block_size();
    const std::uint64_t allowed = std::min(limit, m_card.info().dram_size);
    space.left = allowed - std::min(allowed, held());
    if (const auto usage = device.dram_usage()) // a framework may have its part of the card
        space.left = std::min<std::uint64_t>(space.left, usage->dram_free_mem);
    for (const Region *block : m_blocks) {
        if (block->m_heap->empty()) {
            space.left += block->size();
            continue;
        }
        space.held += block->size();
        // What frees have left over will be allocated again.
        space.wasted += std::min(block->m_left_over, block->size() - block->m_heap->used());
    }
    return space;
}

Error Arena::exceeds(std::uint64_t limit) const {
    return thunk::make_error(ENOMEM, "allocate", "",
                             fmt::format("card {} may hold {} MiB (UCX_GAUDI_COPY_MAX_MEMORY) and holds {} MiB",
                                         m_card.bus_id(), limit >> 20, held() >> 20));
}

Result<thunk::Allocation> Arena::take_block(const thunk::Device &device, std::uint64_t size, std::uint64_t limit) {
    const auto exceeds_limit = [&] { return size > limit || held() > limit - size; };
    if (exceeds_limit())
        give_back_empty();
    if (exceeds_limit())
        return tl::unexpected(exceeds(limit));
    auto allocation = thunk::allocate(device, size);
    if (!allocation && allocation.error().code == ENOMEM && give_back_empty())
        allocation = thunk::allocate(device, size);
    return allocation;
}

Result<Region *> Arena::add_block(std::uint64_t length, std::uint64_t hint, std::uint64_t limit) {
    const std::uint64_t least = round_up(length, m_card.page_size());
    if (least > limit) // no card is opened for nothing
        return tl::unexpected(exceeds(limit));
    const std::uint64_t life = m_card.life();
    auto device = m_card.open();
    if (!device)
        return tl::unexpected(device.error());
    const BlockSpace room = space(*device, limit);
    const std::uint64_t usual = round_up(length, room.unit);
    // A framework that shares the card needs its memory more than the next allocation does.
    const bool alone = hint == 0 && !m_card.shared();
    std::uint64_t size = std::max(least, alone ? plan_block(length, room) : usual <= room.left ? usual : 0);
    auto allocation = take_block(*device, size, limit);
    if (!allocation && allocation.error().code == ENOMEM && size > least)
        allocation = take_block(*device, size = least, limit);
    if (!allocation)
        return tl::unexpected(allocation.error());
    auto mapping = hint != 0 ? thunk::map_device(*allocation, hint) : map_apart(*allocation, size);
    if (!mapping)
        return tl::unexpected(mapping.error());
    if (m_card.cards().taken(m_card, mapping->get(), size))
        return tl::unexpected(thunk::make_error(EEXIST, "allocate", "", "that address is another card's memory"));

    m_card.cards().foreign().replaced(m_card, {mapping->get(), size});
    Region *region = recycled(size);
    region->begin(m_card, mapping->get(), size);
    region->m_mapping = std::move(*mapping);
    region->m_allocation = std::move(*allocation);
    region->m_left_over = 0;
    // UCX must know from the start whether it can be registered: a refusal later fails the whole registration.
    if (m_card.exports() == Card::Exports::no)
        region->forbid_export(m_card.why_no_exports());
    else if (const auto probed = region->probe_export())
        m_card.set_exports(*probed, life);
    else
        region->defer_export();
    m_blocks.push_back(region);
    ++m_changes;
    m_card.cards().mapped(*region);
    return region;
}

Result<std::uint64_t> Arena::allocate(const Request &request) {
    if (m_card.inherited())
        return tl::unexpected(m_card.of_the_parent());
    const std::lock_guard guard(m_mutex);
    if (request.length == 0 || (request.alignment & (request.alignment - 1)) != 0)
        return tl::unexpected(thunk::make_error(EINVAL, "allocate", "", "the length or the alignment is no good"));
    // More than there is, before sums of it overflow.
    const std::uint64_t all = m_card.info().dram_size;
    if (request.length > all || request.alignment > all)
        return tl::unexpected(thunk::make_error(ENOMEM, "allocate", m_card.bus_id(),
                                                fmt::format("the card has {} MiB in all", all >> 20)));
    retry_lingering();
    if (request.fixed != 0) {
        for (Region *block : m_blocks)
            if (block->contains(request.fixed, request.length)) {
                if (block->m_heap->allocate_at(request.fixed - block->base(), request.length))
                    return request.fixed;
                return tl::unexpected(thunk::make_error(EEXIST, "allocate", "", "that address is taken"));
            }
        // Blocks lie at multiples of the page from the start of the card's address range.
        const std::uint64_t page = m_card.page_size();
        const std::uint64_t first = m_card.info().dram_base_address;
        if (request.fixed < first || request.fixed % Heap::kGranule != 0)
            return tl::unexpected(thunk::make_error(EINVAL, "allocate", "", "no device memory can be at that address"));
        const std::uint64_t hint = first + (request.fixed - first) / page * page;
        auto block = add_block(request.fixed - hint + request.length, hint, request.limit);
        if (!block)
            return tl::unexpected(block.error());
        if ((*block)->base() == hint && (*block)->m_heap->allocate_at(request.fixed - hint, request.length))
            return request.fixed;
        give_back(m_blocks.size() - 1);
        return tl::unexpected(thunk::make_error(EEXIST, "allocate", "", "the driver maps nothing at that address"));
    }
    for (Region *block : m_blocks)
        if (const auto address = allocate_in(*block, request))
            return *address;
    // A block starts at a multiple of a page that need not be a power of two: leave room to align inside.
    const std::uint64_t room = request.alignment > Heap::kGranule ? request.alignment : 0;
    auto block = add_block(round_up(request.length, Heap::kGranule) + room, 0, request.limit);
    if (!block)
        return tl::unexpected(block.error());
    return *allocate_in(**block, request);
}

std::optional<std::uint64_t> Arena::allocate_in(Region &block, const Request &request) {
    const bool first = block.m_heap->empty();
    const auto offset = block.m_heap->allocate(request.length, request.alignment, block.base());
    if (!offset)
        return {};
    if (block.export_deferred())
        retry_export(block);
    if (first) // the next allocations are assumed to be of the same size
        block.m_left_over = left_over(block.size(), round_up(request.length, Heap::kGranule));
    return block.base() + *offset;
}

/// One try with each allocation in the block, so that a shortage does not stage its memory for ever.
void Arena::retry_export(Region &block) {
    const std::uint64_t life = m_card.life();
    const auto probed = block.probe_export(1);
    if (!probed)
        return;
    m_card.set_exports(*probed, life);
    if (*probed)
        m_card.cards().became_exportable(block);
}

bool Arena::free(std::uint64_t address) {
    if (m_card.inherited())
        return true; // a copy of what the parent has
    const std::lock_guard guard(m_mutex);
    const auto holder = std::find_if(m_blocks.begin(), m_blocks.end(),
                                     [&](const Region *block) { return block->contains(address, 1); });
    if (holder != m_blocks.end() && is_abandoned({address, 1}))
        return true;
    if (holder == m_blocks.end() || !(*holder)->m_heap->free(address - (*holder)->base()))
        return false;
    if ((*holder)->m_heap->empty()) {
        // One empty block of the ordinary size stays: programs that allocate and free in turn pay nothing.
        const std::uint64_t usual = m_card.block_size();
        const auto spare = [&](const Region *block) { return block->m_heap->empty() && block->size() == usual; };
        const auto empty = std::count_if(m_blocks.begin(), m_blocks.end(), spare);
        if ((*holder)->size() != usual || empty > 1 || m_card.shared()) // somebody else needs that memory
            give_back(static_cast<std::size_t>(holder - m_blocks.begin()));
    }
    retry_lingering();
    return true;
}

void Arena::abandon(std::uint64_t address) {
    const std::lock_guard guard(m_abandoned_mutex);
    m_abandoned.insert(address);
}

bool Arena::is_abandoned(Range range) const {
    const std::lock_guard guard(m_abandoned_mutex);
    const auto first = m_abandoned.lower_bound(range.base);
    return first != m_abandoned.end() && *first - range.base < range.length;
}

void Arena::give_back_spare() {
    const std::lock_guard guard(m_mutex);
    give_back_empty();
}

bool Arena::give_back_empty() {
    bool any = false;
    for (std::size_t index = m_blocks.size(); index-- > 0;)
        if (m_blocks[index]->m_heap->empty()) {
            give_back(index);
            any = true;
        }
    return any;
}

void Arena::leave() {
    const std::lock_guard guard(m_mutex);
    while (!m_blocks.empty())
        give_back(m_blocks.size() - 1);
    retry_lingering();
    for (Lingering &leftover : m_lingering) { // the driver keeps them for who imports them, and forgets us
        leftover.mapping.detach();
        leftover.allocation.detach();
    }
    m_lingering.clear();
    const std::lock_guard abandoned_guard(m_abandoned_mutex);
    m_abandoned.clear();
}

void Arena::give_back(std::size_t index) {
    Region *region = m_blocks[index];
    ++m_changes;
    m_blocks.erase(m_blocks.begin() + static_cast<std::ptrdiff_t>(index));
    const bool abandoned = is_abandoned({region->base(), region->size()});
    m_card.cards().unmapping(*region); // everybody lets go before the driver does
    region->end();
    if (abandoned) { // the driver unmaps it with the descriptor, after it has ended what runs
        region->m_mapping.detach();
        region->m_allocation.detach();
        m_idle.push_back(region);
        return;
    }
    Lingering leftover{region->size(), std::move(region->m_allocation), std::move(region->m_mapping)};
    m_idle.push_back(region);
    if (leftover.mapping.release() && leftover.allocation.release())
        return;
    m_lingering.push_back(std::move(leftover));
}

void Arena::retry_lingering() {
    std::erase_if(m_lingering, [](Lingering &leftover) {
        return leftover.mapping.release().has_value() && leftover.allocation.release().has_value();
    });
}

Arena::Usage Arena::usage() const {
    const std::lock_guard guard(m_mutex);
    Usage usage;
    for (const Region *block : m_blocks) {
        ++usage.blocks;
        usage.block_bytes += block->size();
        usage.used_bytes += block->m_heap->used();
    }
    usage.changes = m_changes;
    usage.lingering = m_lingering.size();
    const std::lock_guard abandoned_guard(m_abandoned_mutex);
    usage.abandoned = m_abandoned.size();
    return usage;
}

} // namespace gaudi
