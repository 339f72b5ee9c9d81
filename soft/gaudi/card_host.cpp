// SPDX-License-Identifier: BSD-3-Clause
// Host memory as the driver maps it, pinned, and the card's accesses to it.
#include "card.h"
#include "host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace softgaudi {
namespace {

/// The pages of a range.
struct Pages {
    Pages(uint64_t pointer, uint64_t bytes)
        : begin(pointer & ~(kHostPage - 1)), size(((pointer + bytes + kHostPage - 1) & ~(kHostPage - 1)) - begin) {}
    uint64_t begin, size;
};

void report_once(const std::string &why, bool required) {
    static std::atomic<bool> reported{false};
    if (reported.exchange(true))
        return;
    std::fprintf(stderr,
                 "softgaudi: cannot pin host memory (%s), so %s: allow io_uring (Linux 5.19 or later, sysctl "
                 "kernel.io_uring_disabled, the seccomp profile of a container) and enough locked memory (ulimit -l, "
                 "or CAP_IPC_LOCK)\n",
                 why.c_str(),
                 required ? "it is not mapped (SOFTGAUDI_PIN=require)"
                          : "a card accesses what is at an address when it copies, not the pages that were mapped");
}

} // namespace

tl::expected<Pin, int> Card::pin_host(uint64_t pointer, uint64_t size) {
    if (size == 0 || pointer + size < pointer || pointer + size + kHostPage < pointer)
        return tl::unexpected(EINVAL);
    if (!can_pin(pointer, size))
        return tl::unexpected(EFAULT);
    if (pointer % kHostPage != 0 && behaviour().odd_start != 0)
        return tl::unexpected(behaviour().odd_start);
    if (size % kHostPage != 0 && behaviour().odd_length != 0)
        return tl::unexpected(behaviour().odd_length);
    if (!behaviour().pages_kept)
        return kUnpinned;
    const Pages pages(pointer, size);
    if (!is_room_for_pages(pages.begin, pages.size))
        return tl::unexpected(ENOMEM);
    std::string why;
    const auto pin = m_pins.pin(pages.begin, pages.size, why);
    if (pin || why.empty())
        return pin;
    report_once(why, m_config.pin_required);
    if (m_config.pin_required)
        return tl::unexpected(ENOMEM);
    return kUnpinned;
}

void Card::unpin_host(const Pin &pin, uint64_t pointer, uint64_t size) {
    m_pins.release(getpid(), pin, Pages(pointer, size).size);
}

void Card::unpin_all() {
    for (const Mapping &mapping : std::span(context().mappings).first(context().mapping_count))
        if (mapping.kind == MappingKind::host)
            m_pins.release(mapping.pid, mapping.pin, mapping.size);
}

std::shared_ptr<PinRing> Card::pinned(const Place &place) {
    auto ring = m_pins.find(place.pid, place.pin);
    if (!ring)
        m_state->traffic.unpinned_accesses.fetch_add(1, std::memory_order_relaxed);
    return ring;
}

bool Card::read_host(const Place &place, uint64_t position, void *out, size_t size) {
    const auto ring = pinned(place);
    return ring ? ring->read(place.pin.slot, position, out, size) : read_process_memory(place.pid, position, out, size);
}

bool Card::write_host(const Place &place, uint64_t position, const void *data, size_t size) {
    const auto ring = pinned(place);
    return ring ? ring->write(place.pin.slot, position, data, size)
                : write_process_memory(place.pid, position, data, size);
}

bool Card::store_host(const Place &place, uint64_t value, size_t size) {
    const auto ring = pinned(place);
    return ring ? ring->write(place.pin.slot, place.position, &value, size)
                : store_process_memory(place.pid, place.position, value, size);
}

} // namespace softgaudi
