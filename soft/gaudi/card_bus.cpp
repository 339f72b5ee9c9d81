// SPDX-License-Identifier: BSD-3-Clause
#include "card_bus.h"

#include "host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace softgaudi {
namespace {

constexpr uint64_t kPiece = 16 * kMiB; // bytes between two checks for cancellation
constexpr size_t kBounce = 256 * kKiB; // small enough for the cache
constexpr uint64_t kLong = 32 * kKiB;  // from here on a copy of pinned memory past the bounce buffer is faster

void swap_elements(unsigned char *data, size_t size, unsigned element) {
    for (size_t i = 0; i + element <= size; i += element)
        std::reverse(data + i, data + i + element);
}

} // namespace

CardBus::CardBus(Card &card, const Job &job)
    : m_card(card), m_job(job), m_sync(card), m_queue(queue(job.queue)), m_time(job.start) {}

CardBus::Stretch CardBus::locate(uint64_t address) {
    const CardLock lock(m_card);
    if (!m_card.running(m_job))
        return {};
    Stretch stretch;
    stretch.place = m_card.translate(address);
    if (stretch.place.kind == Place::Kind::block) {
        stretch.view = m_card.blocks().view(m_job.context, stretch.place.handle);
        if (!stretch.view)
            return {};
    }
    return stretch;
}

size_t CardBus::fetch(uint64_t address, std::span<unsigned char> out) {
    const Stretch from = locate(address);
    if (from.place.kind == Place::Kind::nowhere || from.place.kind == Place::Kind::registers)
        return 0;
    const size_t size = std::min<uint64_t>(out.size(), from.place.length);
    return read(from, 0, out.data(), size) ? size : 0;
}

bool CardBus::read(const Stretch &from, uint64_t offset, unsigned char *out, size_t size) {
    const uint64_t position = from.place.position + offset;
    switch (from.place.kind) {
    case Place::Kind::host:
        return m_card.read_host(from.place, position, out, size);
    case Place::Kind::block:
        return from.view->engine->read(position, out, size);
    case Place::Kind::sram:
        return read_file(m_card.sram_file(), out, size, position);
    case Place::Kind::buffer:
        return read_file(m_card.node_file(), out, size, position);
    default:
        return false;
    }
}

bool CardBus::write(const Stretch &to, uint64_t offset, const unsigned char *data, size_t size) {
    const uint64_t position = to.place.position + offset;
    switch (to.place.kind) {
    case Place::Kind::host:
        return m_card.write_host(to.place, position, data, size);
    case Place::Kind::block: {
        if (!to.view->outer)
            return to.view->engine->write(position, data, size);
        const gaudi::os::MutexLock lock(m_card.blocks().sides());
        return to.view->engine->write(position, data, size) && to.view->outer->write(position, data, size);
    }
    case Place::Kind::sram:
        return write_file(m_card.sram_file(), data, size, position);
    case Place::Kind::buffer:
        return write_file(m_card.node_file(), data, size, position);
    default:
        return false;
    }
}

/// Copies pinned memory to a block.
bool CardBus::copy_down(PinRing &ring, const Place &from, const Stretch &to, uint64_t size) {
    const auto copy_to = [&](const BlockMemory &side) {
        const bool done = ring.write_to_file(from.pin.slot, from.position, size, side.file(), to.place.position);
        if (!done)
            report_full_tmpfs(errno);
        return done;
    };
    if (!to.view->outer)
        return copy_to(*to.view->engine);
    const gaudi::os::MutexLock lock(m_card.blocks().sides());
    return copy_to(*to.view->engine) && copy_to(*to.view->outer);
}

bool CardBus::copy(const Stretch &from, const Stretch &to, uint64_t size, unsigned swap) {
    const auto is_block = [](const Stretch &stretch) { return stretch.place.kind == Place::Kind::block; };
    const auto is_host = [](const Stretch &stretch) { return stretch.place.kind == Place::Kind::host; };
    const auto is_own_unpinned = [&](const Stretch &stretch) {
        return is_host(stretch) && stretch.place.pid == getpid() && !stretch.place.pin.is_pinned();
    };
    if (swap == 1) {
        if (size >= kLong && is_host(from) && is_block(to))
            if (const auto ring = m_card.pinned(from.place))
                return copy_down(*ring, from.place, to, size);
        if (size >= kLong && is_block(from) && is_host(to))
            if (const auto ring = m_card.pinned(to.place))
                return ring->read_from_file(to.place.pin.slot, to.place.position, size, from.view->engine->file(),
                                            from.place.position);
        if (is_own_unpinned(from) && is_block(to))
            return write(to, 0, reinterpret_cast<const unsigned char *>(from.place.position), size);
        if (is_block(from) && is_own_unpinned(to))
            return read(from, 0, reinterpret_cast<unsigned char *>(to.place.position), size);
        if (is_block(from) && is_block(to)) {
            if (!to.view->outer)
                return to.view->engine->copy(to.place.position, *from.view->engine, from.place.position, size);
            const gaudi::os::MutexLock lock(m_card.blocks().sides());
            for (BlockMemory *side : {to.view->engine.get(), to.view->outer.get()})
                if (!side->copy(to.place.position, *from.view->engine, from.place.position, size))
                    return false;
            return true;
        }
    }
    m_buffer.resize(kBounce);
    for (uint64_t done = 0; done < size;) {
        const size_t piece = std::min<uint64_t>(kBounce, size - done);
        if (!read(from, done, m_buffer.data(), piece))
            return false;
        if (swap > 1)
            swap_elements(m_buffer.data(), piece, swap);
        if (!write(to, done, m_buffer.data(), piece))
            return false;
        done += piece;
    }
    return true;
}

void CardBus::count(const Place &from, const Place &to, uint64_t bytes, bool made) {
    const bool reads_host = from.kind == Place::Kind::host;
    const bool writes_host = to.kind == Place::Kind::host;
    Traffic &traffic = m_card.state().traffic;
    auto &counter = !made                       ? traffic.not_made_bytes
                    : reads_host && writes_host ? traffic.host_bytes
                    : reads_host                ? traffic.down_bytes
                    : writes_host               ? traffic.up_bytes
                                                : traffic.card_bytes;
    counter.fetch_add(bytes, std::memory_order_relaxed);
}

/// Occupies the link for the next `bytes` of a transfer after `before` bytes; the time is rounded for the whole
/// transfer.
void CardBus::take_link(bool reads_host, bool writes_host, uint64_t before, uint64_t bytes) {
    const Pace &pace = m_card.config().pace;
    if (!pace.is_timed())
        return;
    const double rate = reads_host ? pace.down_ns_per_byte : writes_host ? pace.up_ns_per_byte : pace.card_ns_per_byte;
    const auto time = [&](uint64_t size) { return std::llround(rate * static_cast<double>(size)); };
    const auto duration = static_cast<uint64_t>(time(before + bytes) - time(before));
    const CardLock lock(m_card);
    Links &links = m_card.context().links;
    uint64_t &link = reads_host ? links.down : writes_host ? links.up : links.card;
    m_time = std::max(m_time, link) + duration;
    link = m_time;
}

MaybeTrap CardBus::move(const Transfer &transfer) {
    const bool made =
        !m_job.skip && (m_card.config().pace.mode != Pace::Mode::null || m_card.charge_copy(transfer.size));
    const Bytes bytes = made ? Bytes::moved : Bytes::not_made;
    if (!m_card.clock().is_virtual())
        return walk(transfer, true, bytes);
    catch_up(); // links are occupied in time order,
    const MaybeTrap trap = walk(transfer, true, Bytes::later);
    catch_up(); // and bytes are visible only when they have arrived
    if (trap)
        return trap;
    const MaybeTrap moved = walk(transfer, false, bytes);
    m_card.clock().notify_host(getpid()); // a host may poll the memory
    return moved;
}

MaybeTrap CardBus::walk(const Transfer &transfer, bool takes_links, Bytes bytes) {
    const bool moves = bytes == Bytes::moved;
    for (uint64_t done = 0; done < transfer.size;) {
        if (cancelled())
            return Trap{Trap::Kind::cancelled};
        const Stretch from = locate(transfer.source + done);
        const Stretch to = locate(transfer.destination + done);
        for (const bool write : {false, true}) {
            const Place::Kind kind = (write ? to : from).place.kind;
            const uint64_t address = (write ? transfer.destination : transfer.source) + done;
            if (kind == Place::Kind::nowhere)
                return cancelled() ? Trap{Trap::Kind::cancelled} : Trap{Trap::Kind::page_fault, address, write};
            if (kind == Place::Kind::registers)
                return Trap{Trap::Kind::illegal_register, address, write};
        }
        const uint64_t left = transfer.size - done;
        uint64_t piece = std::min({left, from.place.length, to.place.length});
        if (moves)
            piece = std::min(piece, kPiece);
        if (piece < left && piece >= transfer.swap)
            piece -= piece % transfer.swap;
        if (moves && !copy(from, to, piece, transfer.swap)) {
            const bool write = to.place.kind == Place::Kind::host || from.place.kind != Place::Kind::host;
            return Trap{Trap::Kind::page_fault, (write ? transfer.destination : transfer.source) + done, write};
        }
        if (bytes != Bytes::later)
            count(from.place, to.place, piece, moves);
        if (takes_links)
            take_link(from.place.kind == Place::Kind::host, to.place.kind == Place::Kind::host, done, piece);
        done += piece;
    }
    return {};
}

MaybeTrap CardBus::fill(uint64_t destination, uint64_t size, uint64_t value) {
    if (m_card.config().pace.is_timed()) {
        if (m_card.clock().is_virtual())
            catch_up();
        take_link(false, locate(destination).place.kind == Place::Kind::host, 0, size);
        if (m_card.clock().is_virtual())
            catch_up();
    }
    const bool made = m_card.config().pace.mode != Pace::Mode::null;
    auto &counter = made ? m_card.state().traffic.fill_bytes : m_card.state().traffic.not_made_bytes;
    // The engine repeats the 64-bit value from the start of the range.
    m_buffer.resize(kBounce);
    for (size_t i = 0; i < m_buffer.size(); i += sizeof value)
        std::memcpy(m_buffer.data() + i, &value, sizeof value);
    for (uint64_t done = 0; done < size;) {
        if (cancelled())
            return Trap{Trap::Kind::cancelled};
        const Stretch to = locate(destination + done);
        if (to.place.kind == Place::Kind::nowhere)
            return cancelled() ? Trap{Trap::Kind::cancelled} : Trap{Trap::Kind::page_fault, destination + done, true};
        if (to.place.kind == Place::Kind::registers)
            return Trap{Trap::Kind::illegal_register, destination + done, true};
        const size_t shift = done % sizeof value;
        const uint64_t piece = std::min<uint64_t>({size - done, to.place.length, kBounce - sizeof value});
        if (made && !write(to, 0, m_buffer.data() + shift, piece))
            return Trap{Trap::Kind::page_fault, destination + done, true};
        counter.fetch_add(piece, std::memory_order_relaxed);
        done += piece;
    }
    return {};
}

void CardBus::begin() {
    if (!m_card.config().pace.is_timed())
        return;
    if (m_card.clock().is_virtual())
        catch_up();
    // Earlier jobs of this queue may have ended after this one was submitted.
    m_time = std::max(m_time, m_card.clock().now());
}

void CardBus::catch_up() {
    if (!m_card.config().pace.is_timed())
        return;
    static_assert(kQueues < 512 && kMaxCards <= 8);
    const uint64_t order = m_job.seq << 12 | uint64_t{m_card.index()} << 9 | m_job.queue;
    m_card.clock().sleep_until(m_time, order, m_card.context().parked, [this] { return cancelled(); });
}

MaybeTrap CardBus::store(uint64_t address, uint64_t value, unsigned size) {
    catch_up();
    const CardLock lock(m_card);
    if (!m_card.running(m_job))
        return Trap{Trap::Kind::cancelled};
    const MaybeTrap trap = m_sync.store(address, value, size);
    m_card.clock().notify_host(getpid());
    return trap;
}

MaybeTrap CardBus::store_own_register(uint32_t offset, uint32_t value) {
    const uint64_t address = m_card.model().cfg_base + m_queue.qman + offset;
    if (offset >= kQueueManagerBytes)
        return Trap{Trap::Kind::illegal_register, address, true};
    return store(address, value, 4);
}

uint64_t CardBus::message_base(unsigned base) {
    constexpr uint64_t kMonitorAddresses = 0x4108000, kSyncObjectBase = 0x4100000;
    switch (base) {
    case 0:
        return m_card.model().cfg_base + kMonitorAddresses;
    case 1:
        return m_card.model().cfg_base + kSyncObjectBase;
    default:
        return 0; // the driver never sets the other bases
    }
}

MaybeTrap CardBus::fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) {
    catch_up();
    CardLock lock(m_card);
    auto &processors = m_card.context().fences.at(m_job.queue / kStreams);
    uint32_t &counter = processors.at(lower ? kStreams : m_queue.stream).at(id);
    const bool passes = m_card.config().pace.mode == Pace::Mode::null; // a card without time never waits
    while (m_card.running(m_job)) {
        if (counter >= target || passes) {
            counter -= std::min(counter, decrement);
            m_time = std::max(m_time, m_card.clock().now());
            return {};
        }
        const uint64_t deadline = m_card.expire();
        const uint32_t seen = m_card.context().parked.seen();
        if (!m_card.running(m_job))
            break;
        const uint32_t generation = m_card.clock().park(m_card.index());
        lock.unlock();
        m_card.context().parked.wait(seen, deadline);
        m_card.clock().resume(m_card.index(), generation);
        lock.lock();
    }
    return Trap{Trap::Kind::cancelled};
}

uint64_t CardBus::timestamp() { return m_card.clock().now(); }

} // namespace softgaudi
