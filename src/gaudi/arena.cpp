// SPDX-License-Identifier: BSD-3-Clause
#include "arena.h"

#include "card.h"
#include "cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace gaudi {

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

Result<Region *> Arena::add_block(std::uint64_t length, std::uint64_t hint, std::uint64_t limit) {
    const std::uint64_t unit = m_card.block_size();
    const std::uint64_t size = (length + unit - 1) / unit * unit;
    std::uint64_t held = 0;
    for (const Region *block : m_blocks)
        held += block->size();
    for (const Lingering &leftover : m_lingering)
        held += leftover.size;
    if (size > limit || held > limit - size)
        return tl::unexpected(
            thunk::make_error(ENOMEM, "allocate", "",
                              fmt::format("card {} may hold {} MiB (UCX_GAUDI_COPY_MAX_MEMORY) and holds {} MiB",
                                          m_card.bus_id(), limit >> 20, held >> 20)));
    const std::uint64_t life = m_card.life();
    auto device = m_card.open();
    if (!device)
        return tl::unexpected(device.error());
    auto allocation = thunk::allocate(*device, size);
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
    // UCX must know from the start whether it can be registered: a refusal later fails the whole registration.
    if (m_card.exports() == Card::Exports::unknown)
        if (const auto probed = region->probe_export())
            m_card.set_exports(*probed, life);
    if (m_card.exports() == Card::Exports::no)
        region->forbid_export();
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
        if (const auto offset = block->m_heap->allocate(request.length, request.alignment, block->base()))
            return block->base() + *offset;
    // A block starts at a multiple of a page that need not be a power of two: leave room to align inside.
    const std::uint64_t room = request.alignment > Heap::kGranule ? request.alignment : 0;
    auto block = add_block(request.length + room, 0, request.limit);
    if (!block)
        return tl::unexpected(block.error());
    const auto offset = (*block)->m_heap->allocate(request.length, request.alignment, (*block)->base());
    return (*block)->base() + *offset;
}

bool Arena::free(std::uint64_t address) {
    if (m_card.inherited())
        return true; // a copy of what the parent has
    const std::lock_guard guard(m_mutex);
    const auto holder = std::find_if(m_blocks.begin(), m_blocks.end(),
                                     [&](const Region *block) { return block->contains(address, 1); });
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

void Arena::give_back_spare() {
    const std::lock_guard guard(m_mutex);
    for (std::size_t index = m_blocks.size(); index-- > 0;)
        if (m_blocks[index]->m_heap->empty())
            give_back(index);
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
}

void Arena::give_back(std::size_t index) {
    Region *region = m_blocks[index];
    ++m_changes;
    m_blocks.erase(m_blocks.begin() + static_cast<std::ptrdiff_t>(index));
    m_card.cards().unmapping(*region); // everybody lets go before the driver does
    region->end();
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
    return usage;
}

} // namespace gaudi
