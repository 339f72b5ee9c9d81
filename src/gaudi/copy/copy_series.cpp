// SPDX-License-Identifier: BSD-3-Clause
#include "copy_series.h"

#include <utility>

namespace gaudi {

Result<Mover::Posted> CopySeries::add_elsewhere(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                                HostRange *range) {
    close();
    if (!open(destination, source, length, range))
        return m_mover.post({destination, source, length, range, m_done, m_user});
    append(destination, source, length);
    return Mover::Posted::started;
}

/// False where the copies must go the way of single ones, which also find out why a copy is refused.
bool CopySeries::open(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range) {
    Mover::Ends ends;
    if (length == 0 || !m_mover.locate_ends(destination, source, length, ends))
        return false;
    const Place &card = ends.source.session ? ends.source : ends.destination;
    // A probed mapping is confirmed at each copy.
    const auto find_mapping = [&](std::uint64_t address, End &end) {
        const Resolved found = resolve(m_mover.m_cards, address, length);
        if (!found || found.region().origin() == Region::Origin::probed)
            return false;
        end = {found.region().base(), found.region().size(), 0};
        return found.is_current() && &found.session() == card.session;
    };
    const auto find_range = [&](std::uint64_t address, End &end) {
        if (!range || !range->contains(address, length))
            return false;
        range->hold();
        const std::uint64_t mapped = range->find(*card.session, range->address());
        if (mapped == 0) {
            range->release();
            return false;
        }
        end = {range->address(), range->length(), mapped - range->address()};
        return true;
    };
    const bool up = ends.source.session != nullptr, within = up && ends.destination.session != nullptr;
    if (within && range)
        return false;
    if (up && !find_mapping(source, m_source))
        return false;
    if ((!up || within) && !find_mapping(destination, m_destination))
        return false;
    if (!within && !find_range(up ? destination : source, up ? m_destination : m_source))
        return false;
    m_engine = card.engine;
    m_range = range;
    m_copies = range ? &range->copies() : nullptr;
    m_direction = within ? Direction::on_card : up ? Direction::up : Direction::down;
    m_path = within ? Path::within_card : up ? Path::up : Path::down;
    m_flush = up && ends.source.flush;
    return true;
}

void CopySeries::append(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
    Transfer *transfer = m_mover.m_channel.take();
    transfer->path = m_path;
    transfer->source = source + m_source.shift;
    transfer->destination = destination + m_destination.shift;
    transfer->length = length;
    transfer->flush = m_flush;
    transfer->copies = m_copies;
    transfer->user = m_user;
    transfer->callback = m_done;
    transfer->done = [](Transfer &ended) { ended.callback(ended.user, ended.failure.get()); };
    transfer->next = nullptr;
    (m_last ? m_last->next : m_first) = transfer;
    m_last = transfer;
    if (++m_count == kTogether)
        flush();
}

void CopySeries::flush() {
    if (m_count == 0)
        return;
    if (m_copies) // the range is held already, so no thread is about to unmap it
        m_copies->fetch_add(m_count, std::memory_order_relaxed);
    m_last = nullptr;
    m_count = 0;
    m_engine->post_all(m_direction, *std::exchange(m_first, nullptr));
}

void CopySeries::close() {
    if (!m_engine)
        return;
    flush();
    if (m_range)
        m_range->release();
    m_engine = nullptr;
}

} // namespace gaudi
