// SPDX-License-Identifier: BSD-3-Clause
// Allocation, mapping and export of memory, with the driver's refusals.
#include "card.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softgaudi {
namespace {

constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

Allocation *find_allocation(Context &context, uint64_t handle) {
    if (handle == 0 || handle > UINT32_MAX)
        return nullptr;
    const auto found = std::find_if(context.allocations.begin(), context.allocations.end(),
                                    [&](const Allocation &entry) { return entry.handle == handle; });
    return found == context.allocations.end() ? nullptr : &*found;
}

std::span<Mapping> live(Context &context) { return std::span(context.mappings).first(context.mapping_count); }

} // namespace

int Card::allocate(uint64_t size, uint64_t page, bool contiguous, uint64_t &handle) {
    Context &context = this->context();
    if (size == 0)
        return -EINVAL;
    uint64_t unit = model().dram_page;
    if (page != 0 && model().page_sizes != 0) {
        if ((page & (page - 1)) != 0 || (page & model().page_sizes) == 0)
            return -EINVAL;
        unit = page;
    }
    if (size > model().dram_user())
        return -ENOMEM;
    const uint64_t bytes = round_up(size, unit);
    const uint64_t pages = bytes / model().dram_page;
    const auto total = static_cast<uint32_t>(model().pages());
    if (bytes > model().dram_user() - context.dram_used)
        return -ENOMEM;

    const auto free_entry = std::find_if(context.allocations.begin(), context.allocations.end(),
                                         [](const Allocation &entry) { return entry.handle == 0; });
    if (free_entry == context.allocations.end())
        return -ENOMEM;
    uint32_t first = 0;
    if (contiguous) {
        uint64_t run = 0;
        for (uint32_t i = 0; i < total && run < pages; ++i) {
            run = context.page_owner.at(i) == 0 ? run + 1 : 0;
            first = i + 1;
        }
        if (run < pages)
            return -ENOMEM;
        first -= static_cast<uint32_t>(pages);
    }
    const uint32_t id = context.next_handle;
    if (!m_blocks.create(context.id, id, bytes)) {
        const int error = errno;
        m_blocks.remove(context.id, id);
        return -error;
    }
    ++context.next_handle;
    uint64_t remaining = pages;
    for (uint32_t i = first; remaining > 0; ++i) {
        if (context.page_owner.at(i) != 0)
            continue;
        context.page_owner.at(i) = id;
        --remaining;
    }
    *free_entry = {id, 0, bytes, unit};
    context.dram_used += bytes;
    handle = id;
    return 0;
}

int Card::free(uint64_t handle) {
    Allocation *allocation = find_allocation(context(), handle);
    if (!allocation || allocation->mappings != 0)
        return -EINVAL;
    context().dram_used -= allocation->size;
    std::replace(context().page_owner.begin(), context().page_owner.end(), allocation->handle, 0u);
    m_blocks.remove(context().id, allocation->handle);
    *allocation = {};
    return 0;
}

/// Places `mapping` at the hint if that is aligned and free, else at the first free address of the range.
int Card::map(Mapping mapping, const Range &range, const Range &firmware, uint64_t alignment, uint64_t hint, bool force,
              uint64_t &address) {
    Context &context = this->context();
    if (context.mapping_count == kMaxMappings)
        return -ENOMEM;
    const auto mappings = live(context);
    const auto taken = [&](uint64_t begin) {
        const auto next = std::lower_bound(mappings.begin(), mappings.end(), begin,
                                           [](const Mapping &entry, uint64_t at) { return entry.address < at; });
        if (next != mappings.end() && next->address < begin + mapping.size)
            return true;
        return next != mappings.begin() && std::prev(next)->address + std::prev(next)->size > begin;
    };

    const bool device = mapping.kind == MappingKind::device;
    const bool usable = hint != 0 && range.contains(hint, mapping.size) && (hint - range.begin) % alignment == 0;
    const bool free = usable && !taken(hint);
    if (device && usable)
        if (const int refused = free ? behaviour().hint : behaviour().taken_hint)
            return -refused;
    uint64_t place = 0;
    if (free && !(device && behaviour().hints_ignored)) {
        place = hint;
    } else if (force) {
        return -ENOMEM;
    } else {
        place = range.begin + (device ? behaviour().first_offset : 0);
        const auto skip_firmware = [&] {
            if (firmware.overlaps(place, mapping.size))
                place = range.begin + round_up(firmware.end - range.begin, alignment);
        };
        skip_firmware();
        for (const Mapping &entry : mappings) {
            if (entry.address + entry.size <= place)
                continue;
            if (entry.address >= place + mapping.size || entry.address >= range.end)
                break;
            place = range.begin + round_up(entry.address + entry.size - range.begin, alignment);
            skip_firmware();
        }
        if (!range.contains(place, mapping.size))
            return -ENOMEM;
    }
    mapping.address = place;
    mapping.id = context.next_mapping++;
    const auto at = std::lower_bound(mappings.begin(), mappings.end(), place,
                                     [](const Mapping &entry, uint64_t value) { return entry.address < value; });
    const auto position = at - mappings.begin();
    ++context.mapping_count;
    const auto grown = live(context);
    std::move_backward(grown.begin() + position, grown.end() - 1, grown.end());
    grown[static_cast<size_t>(position)] = mapping;
    address = place + mapping.shift;
    m_state->traffic.maps.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

int Card::map_device(uint64_t handle, uint64_t hint, bool force, uint64_t &address) {
    Allocation *allocation = find_allocation(context(), handle);
    if (!allocation)
        return -EINVAL;
    Mapping mapping{};
    mapping.kind = MappingKind::device;
    mapping.pin = kUnpinned;
    mapping.size = allocation->size;
    mapping.handle = allocation->handle;
    const int result = map(mapping, model().dram, model().dram_fw, allocation->page, hint, force, address);
    if (result == 0)
        ++allocation->mappings;
    return result;
}

int Card::map_host(uint64_t pointer, uint64_t size, const Pin &pin, uint64_t hint, bool force, uint64_t &address) {
    Mapping mapping{};
    mapping.kind = MappingKind::host;
    mapping.source = pointer & ~(kHostPage - 1);
    mapping.shift = static_cast<uint16_t>(pointer & (kHostPage - 1));
    mapping.size = round_up(pointer + size, kHostPage) - mapping.source;
    mapping.pid = getpid();
    mapping.pin = pin;
    if (force && hint != 0 && mapping.shift != 0)
        return -EINVAL;
    // A hint into the range of small pages selects that range.
    const bool huge =
        mapping.source % kHugePage == 0 && mapping.size % kHugePage == 0 && !model().host.contains(hint, mapping.size);
    if (huge)
        return map(mapping, model().host_huge, model().host_huge_fw, kHugePage, hint, force, address);
    // Memory that starts at a huge page gets an address aligned to one, whatever its pages are.
    const uint64_t alignment = pointer % kHugePage == 0 ? kHugePage : kHostPage;
    return map(mapping, model().host, model().host_fw, alignment, hint, force, address);
}

const Mapping *Card::find_mapping(uint64_t address) const {
    const auto mappings = live(context());
    const auto next = std::upper_bound(mappings.begin(), mappings.end(), address,
                                       [](uint64_t at, const Mapping &entry) { return at < entry.address; });
    if (next == mappings.begin())
        return nullptr;
    const Mapping &entry = *std::prev(next);
    return address - entry.address < entry.size ? &entry : nullptr;
}

int Card::unmap(uint64_t address) {
    const Mapping *mapping = find_mapping(address);
    if (!mapping || mapping->kind == MappingKind::buffer || mapping->address + mapping->shift != address)
        return -EINVAL;
    if (mapping->kind == MappingKind::device) {
        if (behaviour().unmap_exported != 0 && m_blocks.is_exported(context().id, mapping->handle, mapping->id))
            return -behaviour().unmap_exported;
        if (Allocation *allocation = find_allocation(context(), mapping->handle))
            --allocation->mappings;
    } else {
        m_pins.release(mapping->pid, mapping->pin, mapping->size);
    }
    const auto mappings = live(context());
    const auto position = mapping - mappings.data();
    std::move(mappings.begin() + position + 1, mappings.end(), mappings.begin() + position);
    --context().mapping_count;
    return 0;
}

int Card::export_dmabuf(uint64_t address, uint64_t size, uint64_t offset) {
    const Mapping *mapping = find_mapping(address);
    if (!mapping || mapping->kind != MappingKind::device)
        return -EINVAL;
    const uint64_t inside = address - mapping->address;
    if (inside != 0 && behaviour().export_inside != 0)
        return -behaviour().export_inside;
    if (size < kHostPage || size % kHostPage != 0 || offset % kHostPage != 0 || inside % kHostPage != 0)
        return -EINVAL;
    const uint64_t rest = mapping->size - inside;
    if (offset >= rest)
        return -EINVAL;
    if (size > rest - offset) {
        if (behaviour().export_too_long != 0)
            return -behaviour().export_too_long;
        size = rest - offset;
    }
    if (size > behaviour().bar_bytes)
        return -EINVAL;
    if (behaviour().export_any != 0)
        return -behaviour().export_any;
    if (offset != 0 && behaviour().export_offset != 0)
        return -behaviour().export_offset;
    if (offset == 0 && size < rest && behaviour().export_part != 0)
        return -behaviour().export_part;
    m_state->traffic.exports.fetch_add(1, std::memory_order_relaxed);
    // The mainline driver builds the pages of an export from the start of the allocation, whatever the offset.
    return m_blocks.export_block(context().id, mapping->handle, mapping->id,
                                 inside + (m_config.quirks.mainline ? 0 : offset), size);
}

std::vector<uint32_t> Card::device_handles() {
    std::vector<uint32_t> handles;
    for (const Allocation &allocation : context().allocations)
        if (allocation.handle != 0)
            handles.push_back(allocation.handle);
    return handles;
}

Place Card::translate(uint64_t address) const {
    if (const Mapping *mapping = find_mapping(address)) {
        const uint64_t inside = address - mapping->address;
        const uint64_t length = mapping->size - inside;
        switch (mapping->kind) {
        case MappingKind::device:
            return {Place::Kind::block, length, inside, mapping->handle};
        case MappingKind::host: {
            Pin pin = mapping->pin;
            pin.slot += static_cast<uint32_t>(inside / Pin::kSlotBytes);
            return {Place::Kind::host,
                    std::min(length, Pin::kSlotBytes - inside % Pin::kSlotBytes),
                    mapping->source + inside,
                    0,
                    mapping->pid,
                    pin};
        }
        case MappingKind::buffer:
            return {Place::Kind::buffer, length, mapping->source + inside};
        }
    }
    if (model().sram_bytes && address - model().sram_base < model().sram_bytes)
        return {Place::Kind::sram, model().sram_bytes - (address - model().sram_base), address - model().sram_base};
    if (address - model().cfg_base < model().cfg_bytes)
        return {Place::Kind::registers, model().cfg_bytes - (address - model().cfg_base), address - model().cfg_base};
    return {};
}

} // namespace softgaudi
