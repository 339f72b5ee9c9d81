// SPDX-License-Identifier: BSD-3-Clause
// Command buffers and timestamp buffers that the driver owns. The bytes are in the node's file at the offset that is
// the handle, so mmap(2) on the card's descriptor reaches them as with the real driver.
#include "card.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace softgaudi {
namespace {

// Handles as the driver encodes them: a type in the high bits, an id in units of pages. The spacing keeps buffers apart
// in the file.
constexpr uint64_t kBufferType = uint64_t{1} << 60;
constexpr uint64_t kSpacing = 16 * kMiB;
constexpr uint32_t kRotation = 64; // buffers created before the entry of a destroyed one is reused
constexpr uint32_t kMaxTimestampElements = 1u << 20;

uint64_t handle_of(size_t slot) { return kBufferType | (slot + 1) * kSpacing; }

} // namespace

Buffer *Card::find_buffer(uint64_t handle, uint64_t *offset) {
    const uint64_t position = handle ^ kBufferType;
    if ((handle & kBufferType) == 0 || position % kSpacing != 0 || position / kSpacing == 0 ||
        position / kSpacing > kMaxBuffers)
        return nullptr;
    Buffer &buffer = context().buffers.at(position / kSpacing - 1);
    if (offset)
        *offset = handle;
    return buffer.used ? &buffer : nullptr;
}

int Card::create_buffer(uint32_t size, bool mapped, bool timestamps, uint64_t &handle) {
    if (timestamps) {
        if (size == 0 || size > kMaxTimestampElements * sizeof(uint64_t))
            return -EINVAL;
    } else if (size > HL_MAX_CB_SIZE) {
        return -EINVAL;
    }
    const auto rounded = static_cast<uint32_t>((std::max<uint64_t>(size, 1) + kHostPage - 1) & ~(kHostPage - 1));
    auto &buffers = context().buffers;
    // The search starts behind the entry used last: a program may still have a destroyed buffer mapped.
    const auto is_free = [](const Buffer &buffer) { return !buffer.used; };
    const auto next = buffers.begin() + context().next_buffer;
    auto entry = std::find_if(next, buffers.end(), is_free);
    if (entry == buffers.end())
        entry = std::find_if(buffers.begin(), next, is_free);
    if (entry == buffers.end() || entry->used)
        return -ENOMEM;
    const auto slot = static_cast<size_t>(entry - buffers.begin());
    handle = handle_of(slot);
    // A buffer starts as zeroes, although its part of the file was used before.
    fallocate(m_node.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle),
              static_cast<off_t>(rounded));
    uint64_t address = 0;
    if (mapped) {
        Mapping mapping{};
        mapping.kind = MappingKind::buffer;
        mapping.size = rounded;
        mapping.source = handle;
        mapping.handle = static_cast<uint32_t>(slot);
        if (const int error = map(mapping, model().cb_pool, {}, kHostPage, 0, false, address))
            return error;
    }
    *entry = {true, timestamps, timestamps ? size : rounded, address}; // timestamp buffers keep their exact size
    context().next_buffer = static_cast<uint32_t>(slot + 1) % kRotation;
    return 0;
}

int Card::destroy_buffer(uint64_t handle) {
    Buffer *buffer = find_buffer(handle);
    if (!buffer || buffer->timestamps)
        return -EINVAL;
    if (buffer->address != 0) {
        const Mapping *mapping = find_mapping(buffer->address);
        auto mappings = std::span(context().mappings).first(context().mapping_count);
        const auto position = mapping - mappings.data();
        std::move(mappings.begin() + position + 1, mappings.end(), mappings.begin() + position);
        --context().mapping_count;
    }
    *buffer = {};
    return 0;
}

} // namespace softgaudi
