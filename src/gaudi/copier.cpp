// SPDX-License-Identifier: BSD-3-Clause
#include "copier.h"

#include "card.h"
#include "framework_stream.h"
#include "packets.h"
#include "settings.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kRefusalNs = 5'000'000'000; // that a driver may be short of something before copies fail

// From here on a copy takes longer than its submission, and those after it should not have to wait.
constexpr std::uint64_t kBulk = 128 << 10;
// Large copies go out in groups of at least this much: their ends are told group by group, and what is staged through
// host memory waits for them.
constexpr std::uint64_t kGroup = 512 << 10;
// The most that one batch copies, and one engine's least share of a copy within a card: none may run long.
constexpr std::uint64_t kStretch = 16 << 20;
constexpr std::uint64_t kShare = 4 << 20;

// Queues of a Gaudi2: two streams of the engine for each direction, and the first one of each engine within the card.
constexpr std::array<std::uint32_t, 2> kDownQueues = {0, 1};
constexpr std::array<std::uint32_t, 2> kUpQueues = {4, 5};
constexpr std::array<std::uint32_t, 8> kCardQueues = {8, 12, 48, 52, 84, 88, 120, 124};

} // namespace

Copier::Copier(Card &card, const thunk::Device &device) : m_card(card), m_device(device) {
    for (unsigned i = kBatches; i-- > 0;) {
        m_batches[i].slot = i;
        m_batches[i].next = m_free;
        m_free = &m_batches[i];
    }
    set_up_lanes();
}

void Copier::set_up_lanes() {
    for (unsigned bulk = 0; bulk < 2; ++bulk) {
        m_lanes[bulk].streams[0].queue = kDownQueues[bulk];
        m_lanes[2 + bulk].streams[0].queue = kUpQueues[bulk];
    }
    // Which of the engines within the card are there differs from card to card.
    Lane &small = m_lanes[4], &large = m_lanes[5];
    large.count = 0;
    for (unsigned i = 0; i < kCardQueues.size(); ++i)
        if ((m_card.info().edma_enabled_mask >> i & 1) != 0)
            large.streams[large.count++].queue = kCardQueues[i];
    if (large.count == 0) { // the engine for the way down can copy within the card too
        large.count = 1;
        large.streams[0].queue = kDownQueues[1];
        small.streams[0].queue = kDownQueues[0];
    } else {
        small.streams[0].queue = large.streams[0].queue + 1; // another stream of the same engine
    }
    unsigned word = 0;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        m_lanes[i].bulk = i % 2 == 1;
        for (unsigned j = 0; j < m_lanes[i].count; ++j)
            m_lanes[i].streams[j].word = word++;
    }
}

Copier::~Copier() {
    if (abandoned() != 0) { // the card may still read the ring, and write to it
        m_ring_map.detach();
        return;
    }
    if (auto unmapped = m_ring_map.release(); unmapped && m_ring)
        munmap(m_ring, kWordBytes + kBatches * kBufferBytes);
}

Result<std::unique_ptr<Copier>> Copier::start(Card &card, const thunk::Device &device) {
    std::unique_ptr<Copier> copier(new Copier(card, device));
    if (auto ready = copier->set_up(); !ready)
        return tl::unexpected(ready.error());
    return copier;
}

Result<void> Copier::make_ring() {
    const std::size_t size = kWordBytes + kBatches * kBufferBytes;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tl::unexpected(thunk::make_error(errno, "mmap", "", "no memory for the command ring"));
    m_ring = memory;
    madvise(m_ring, size, MADV_DONTFORK); // a child's copy-on-write would part the card from its parent's pages
    return {};
}

Result<void> Copier::set_up() {
    if (auto made = make_ring(); !made)
        return made;
    auto mapping = thunk::map_host(m_device, m_ring, kWordBytes + kBatches * kBufferBytes);
    if (!mapping)
        return tl::unexpected(mapping.error());
    m_ring_map = std::move(*mapping);
    return try_out(!settings().completion_by_driver.load(std::memory_order_relaxed));
}

char *Copier::buffer(const Batch &batch) const {
    return static_cast<char *>(m_ring) + kWordBytes + batch.slot * kBufferBytes;
}

// ---- posting ------------------------------------------------------------------------------------------------------

Copier::Lane &Copier::lane_of(Direction direction, std::uint64_t length) {
    return m_lanes[2 * static_cast<unsigned>(direction) + (length >= kBulk ? 1 : 0)];
}

void Copier::post(Direction direction, Transfer &transfer) {
    const std::lock_guard guard(m_mutex);
    if (m_failed.load(std::memory_order_relaxed)) {
        transfer.error = EIO;
        transfer.channel->finish(transfer);
        return;
    }
    m_posted.store(m_posted.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Lane &lane = lane_of(direction, transfer.length);
    // Mostly there is a batch that waits for more like it.
    Stream &stream = lane.streams[lane.turn];
    if (!lane.bulk && !lane.first && stream.open && stream.depth > 0 && !stream.open->full()) {
        add(*stream.open, transfer, transfer.length);
        if (stream.open->full())
            send(lane, stream);
        return;
    }
    transfer.next = nullptr;
    (lane.last ? lane.last->next : lane.first) = &transfer;
    lane.last = &transfer;
    pump(lane);
}

/// The next `piece` bytes of a copy.
inline void Copier::add(Batch &batch, Transfer &transfer, std::uint64_t piece) {
    const std::uint64_t source = transfer.source + transfer.emitted;
    const std::uint64_t destination = transfer.destination + transfer.emitted;
    auto *next = reinterpret_cast<packet::LinearDma *>(buffer(batch)) + batch.packets;
    if (batch.packets > 0 && next[-1].source + next[-1].size == source &&
        next[-1].destination + next[-1].size == destination && !m_framework) { // to which they may be two mappings
        next[-1].size += static_cast<std::uint32_t>(piece); // the next stretch of the same copy, or of its neighbour
    } else if (piece > 0) {
        *next = {.size = static_cast<std::uint32_t>(piece), .source = source, .destination = destination};
        ++batch.packets;
    }
    batch.bytes += piece;
    batch.flush = batch.flush || transfer.flush;
    transfer.emitted += piece;
    ++transfer.batches;
    batch.transfers[batch.parts++] = &transfer;
}

/// Fills batches from what waits and sends those that are full, or the first when its stream has nothing else to do.
void Copier::pump(Lane &lane) {
    while (lane.first) {
        Stream &stream = lane.streams[lane.turn];
        if (!stream.open) {
            if (!m_free || (lane.bulk && stream.depth >= kBulkDepth))
                return;
            stream.open = m_free;
            m_free = m_free->next;
            Batch &batch = *stream.open;
            batch.packets = batch.parts = 0;
            batch.bytes = 0;
            batch.flush = false;
        }
        emit(lane, stream);
        const bool full = stream.open->full() || (lane.bulk && stream.open->bytes >= kGroup);
        if (!full && stream.depth > 0)
            return; // everything that waits is in it now
        if (!send(lane, stream))
            return;
    }
}

/// Moves copies from the line into the open batch until one of them is empty or full.
void Copier::emit(Lane &lane, Stream &stream) {
    Batch &batch = *stream.open;
    while (lane.first && !batch.full()) {
        Transfer &transfer = *lane.first;
        std::uint64_t piece = transfer.length - transfer.emitted;
        if (lane.bulk) {
            if (batch.bytes >= kGroup)
                return;
            // What is left of one copy is divided among the streams; a batch holds one such part.
            piece = std::min(piece, std::clamp(piece / lane.count, kShare, kStretch));
        }
        add(batch, transfer, piece);
        if (transfer.emitted == transfer.length) {
            lane.first = transfer.next;
            if (!lane.first)
                lane.last = nullptr;
        }
    }
}

std::uint64_t Copier::oldest_sequence() const {
    std::uint64_t oldest = UINT64_MAX;
    for (const Lane &lane : m_lanes) {
        if (lane.sent == 0)
            continue;
        for (unsigned i = 0; i < lane.count; ++i)
            if (lane.streams[i].oldest)
                oldest = std::min(oldest, lane.streams[i].oldest->sequence);
    }
    return oldest;
}

/// Whether a refused submission is worth another try at the next progress: the driver is short of something, and has not
/// been for long.
bool Copier::will_pass(int code) {
    if (code != EAGAIN && code != EINTR && code != ENOMEM)
        return false;
    const std::uint64_t now = now_ns();
    if (m_refused_ns == 0 || now - m_last_refusal_ns > kRefusalNs) // an earlier shortage says nothing about this one
        m_refused_ns = now;
    m_last_refusal_ns = now;
    return now - m_refused_ns < kRefusalNs;
}

/// A driver that is too short of something to say so has said nothing against the card.
bool Copier::operational() const {
    const auto status = m_device.status();
    return status ? *status == thunk::Status::operational : thunk::is_transient(status.error().code);
}

/// The driver, or the framework that copies, refused one submission. The copies in it fail, a copy with parts in other
/// batches when those have ended; the engine goes on if the card does. Returns whether it goes on.
bool Copier::refuse_batch(Lane &lane, Stream &stream, const Error &error) {
    const bool given_back = m_framework && error.code == ENODEV;
    if (given_back || !operational()) {
        refuse(error);
        return false;
    }
    {
        const std::lock_guard guard(m_failure_mutex);
        m_problem.set(error.text);
    }
    Batch &batch = *std::exchange(stream.open, nullptr);
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (transfer.emitted == transfer.length)
            continue;
        transfer.emitted = transfer.length; // only the first in line can be here with a part: the rest is not sent
        lane.first = transfer.next;
        if (!lane.first)
            lane.last = nullptr;
    }
    complete(batch, EIO);
    return true;
}

Result<std::uint64_t> Copier::send_by_driver(Stream &stream, Batch &batch) {
    const std::uint64_t base = m_ring_map.get();
    const std::size_t size = batch.packets * sizeof(packet::LinearDma);
    batch.value = stream.next_value;
    *reinterpret_cast<packet::Message *>(buffer(batch) + size) = {
        .value = batch.value,
        .address = base + stream.word * kWordStride,
    };
    hl_cs_chunk chunk{};
    chunk.cb_handle = base + kWordBytes + batch.slot * kBufferBytes;
    chunk.queue_index = stream.queue;
    chunk.cb_size = static_cast<std::uint32_t>(size + sizeof(packet::Message));
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    return m_device.submit(std::span(&chunk, 1), m_flags);
}

/// False when nothing more can be sent now: the driver's window has no room and the batch stays open, or the card is lost.
bool Copier::send(Lane &lane, Stream &stream) {
    // A submission beyond the window would not fail but spin inside the library. Others may submit on this card too.
    const std::uint64_t oldest = oldest_sequence();
    if (oldest != UINT64_MAX && m_last_sequence + 1 - oldest >= kWindow)
        return false;
    Batch &batch = *stream.open;
    if (batch.packets == 0) { // nothing but empty copies
        stream.open = nullptr;
        complete(batch, 0);
        return true;
    }
    if (batch.flush && m_device.library().has_flush()) {
        // Where a framework copies because the card takes no submissions, it takes none of these either.
        if (auto flushed = m_device.flush_pci_writes(); !flushed && !m_framework)
            return !will_pass(flushed.error().code) && refuse_batch(lane, stream, flushed.error());
    }
    const auto sequence = m_framework ? send_by_framework(lane, batch) : send_by_driver(stream, batch);
    if (!sequence)
        return !will_pass(sequence.error().code) && refuse_batch(lane, stream, sequence.error());
    m_refused_ns = 0;
    ++stream.next_value;
    batch.sequence = *sequence;
    batch.sent_ns = now_ns();
    m_last_sequence = *sequence;
    m_submissions.store(m_submissions.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    batch.next = nullptr;
    (stream.newest ? stream.newest->next : stream.oldest) = &batch;
    stream.newest = &batch;
    stream.open = nullptr;
    ++stream.depth;
    ++lane.sent;
    if (++lane.turn == lane.count)
        lane.turn = 0;
    return true;
}

} // namespace gaudi
