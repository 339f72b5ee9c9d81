// SPDX-License-Identifier: BSD-3-Clause
// Submission. The rest: cs_engine_completion.cpp, cs_engine_test.cpp.
#include "cs_engine.h"

#include "gaudi/card/card.h"
#include "gaudi/card/settings.h"
#include "gaudi/card/verification_record.h"
#include "packets.h"
#include "queues.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gaudi {
namespace {

// From this length on a copy takes longer than its submission, and small copies should not wait behind it.
constexpr std::uint64_t kBulk = 128 << 10;
// Large copies are sent in groups of at least this much: they end group by group, and staged copies wait for them.
constexpr std::uint64_t kGroup = 512 << 10;
// The most that one batch copies, and the least share of one DMA engine of a copy within a card: none may run long.
constexpr std::uint64_t kMostPerBatch = 16 << 20;
constexpr std::uint64_t kLeastShare = 4 << 20;

} // namespace

CsEngine::CsEngine(Session &session) : Engine(session), m_device(session.device()) {
    const os::MutexLock lock(m_mutex);
    for (unsigned i = kBatches; i-- > 0;) {
        m_batches[i].slot = i;
        m_batches[i].next = m_free;
        m_free = &m_batches[i];
    }
    set_up_lanes();
}

void CsEngine::set_up_lanes() {
    for (unsigned bulk = 0; bulk < 2; ++bulk) {
        m_lanes[bulk].streams[0].queue = kDownQueues[bulk];
        m_lanes[2 + bulk].streams[0].queue = kUpQueues[bulk];
    }
    // Cards differ in which of the DMA engines within them are enabled.
    Lane &small = m_lanes[4], &large = m_lanes[5];
    large.count = 0;
    for (unsigned i = 0; i < kCardQueues.size(); ++i)
        if ((m_session.card().info().edma_enabled_mask >> i & 1) != 0)
            large.streams[large.count++].queue = kCardQueues[i];
    if (large.count == 0) { // the engine for the direction down can copy within the card too
        large.count = 1;
        large.streams[0].queue = kDownQueues[1];
        small.streams[0].queue = kDownQueues[0];
    } else {
        small.streams[0].queue = large.streams[0].queue + 1; // another stream of the same engine
    }
    unsigned flag = 0;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        m_lanes[i].bulk = i % 2 == 1;
        for (unsigned j = 0; j < m_lanes[i].count; ++j)
            m_lanes[i].streams[j].flag = flag++;
    }
}

/// Whether the completion flag may be used on this card, if the self-test passes.
bool CsEngine::trusts_completion_flags(const Card &card) {
    const CompletionMode mode = settings().completion;
    if (mode != CompletionMode::automatic)
        return mode == CompletionMode::flag;
    const CardVersions versions = card.versions();
    return choose_completion(find_records(card.library(), versions), versions).by_flag;
}

CsEngine::~CsEngine() {
    if (abandoned() != 0 || m_fork != fork_count()) { // the card may still read the ring and write to it
        m_ring_map.detach();
        return;
    }
    if (auto unmapped = m_ring_map.release(); unmapped && m_ring)
        munmap(m_ring, kRingBytes);
}

Result<std::shared_ptr<Engine>> CsEngine::start(Session &session) {
    if (!session.card().takes_submissions())
        return tl::unexpected(
            thunk::make_error(ENOTSUP, "copy", session.card().bus_id(),
                              "this generation of cards takes no command submissions, and no framework in this process "
                              "copies on it"));
    const std::shared_ptr<CsEngine> engine(new CsEngine(session));
    if (auto ready = engine->set_up(); !ready)
        return tl::unexpected(ready.error());
    return engine;
}

Result<void> CsEngine::set_up() {
    void *memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tl::unexpected(thunk::make_error(errno, "mmap", "", "no host memory for the command ring"));
    m_ring = memory;
    madvise(m_ring, kRingBytes, MADV_DONTFORK); // a child's copy-on-write would part the card from its parent's pages
    auto mapping = thunk::map_host(m_device, m_ring, kRingBytes);
    if (!mapping)
        return tl::unexpected(mapping.error());
    m_ring_map = std::move(*mapping);
    return test_card(trusts_completion_flags(m_session.card()));
}

char *CsEngine::buffer(const Batch &batch) const {
    return static_cast<char *>(m_ring) + kFlagBytes + batch.slot * kBufferBytes;
}

// ---- posting ------------------------------------------------------------------------------------------------------

CsEngine::Lane &CsEngine::lane_of(Direction direction, std::uint64_t length) {
    return m_lanes[2 * static_cast<unsigned>(direction) + (length >= kBulk ? 1 : 0)];
}

void CsEngine::post(Direction direction, Transfer &transfer) {
    const os::MutexLock lock(m_mutex);
    if (failed()) [[unlikely]] {
        transfer.failure = copy_failure();
        Tally(*this).add(transfer);
        transfer.channel->finish(transfer);
        return;
    }
    count_posted();
    Lane &lane = lane_of(direction, transfer.length);
    // Mostly an open batch waits for more small copies.
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
inline void CsEngine::add(Batch &batch, Transfer &transfer, std::uint64_t piece) {
    const std::uint64_t source = transfer.source + transfer.emitted;
    const std::uint64_t destination = transfer.destination + transfer.emitted;
    auto *next = reinterpret_cast<packet::LinearDma *>(buffer(batch)) + batch.packets;
    if (batch.packets > 0 && next[-1].source + next[-1].size == source &&
        next[-1].destination + next[-1].size == destination) {
        next[-1].size += static_cast<std::uint32_t>(piece); // the next piece of the same copy, or of its neighbour
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

/// Fills batches from the waiting copies and sends those that are full, or the first where its stream is idle.
void CsEngine::pump(Lane &lane) {
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
            return; // all waiting copies are in it now
        if (!send(lane, stream))
            return;
    }
}

/// Moves waiting copies into the open batch until it is full or none waits.
void CsEngine::emit(Lane &lane, Stream &stream) {
    Batch &batch = *stream.open;
    while (lane.first && !batch.full()) {
        Transfer &transfer = *lane.first;
        std::uint64_t piece = transfer.length - transfer.emitted;
        if (lane.bulk) {
            if (batch.bytes >= kGroup)
                return;
            // The rest of one copy is divided among the streams; a batch holds one such part.
            piece = std::min(piece, std::clamp(piece / lane.count, kLeastShare, kMostPerBatch));
        }
        add(batch, transfer, piece);
        if (transfer.emitted == transfer.length) {
            lane.first = transfer.next;
            if (!lane.first)
                lane.last = nullptr;
        }
    }
}

std::uint64_t CsEngine::oldest_sequence() const {
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

/// The driver refused one submission. The copies in it fail, a copy with parts in other batches when those have ended; the
/// engine goes on if the card is well. Returns whether it goes on.
bool CsEngine::refuse_batch(Lane &lane, Stream &stream, const Error &error) {
    if (!is_operational()) {
        refuse(error);
        return false;
    }
    Batch &batch = *std::exchange(stream.open, nullptr);
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (transfer.emitted == transfer.length)
            continue;
        transfer.emitted = transfer.length; // the rest of the first waiting copy is not sent
        lane.first = transfer.next;
        if (!lane.first)
            lane.last = nullptr;
    }
    complete(batch, make_copy_failure(error));
    return true;
}

Result<std::uint64_t> CsEngine::submit(Stream &stream, Batch &batch) {
    const std::uint64_t base = m_ring_map.get();
    const std::size_t size = batch.packets * sizeof(packet::LinearDma);
    batch.value = stream.next_value;
    *reinterpret_cast<packet::Message *>(buffer(batch) + size) = {
        .value = batch.value,
        .address = base + stream.flag * kFlagStride,
    };
    hl_cs_chunk chunk{};
    chunk.cb_handle = base + kFlagBytes + batch.slot * kBufferBytes;
    chunk.queue_index = stream.queue;
    chunk.cb_size = static_cast<std::uint32_t>(size + sizeof(packet::Message));
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    return m_device.submit(std::span(&chunk, 1), m_submit_flags);
}

/// False when nothing more can be sent now: the driver has no room and the batch stays open, or the card is lost.
bool CsEngine::send(Lane &lane, Stream &stream) {
    // A submission beyond the driver's limit would not fail but spin inside the library. A framework may submit on this
    // card too, so sequence numbers count and not batches.
    const std::uint64_t oldest = oldest_sequence();
    if (oldest != UINT64_MAX && m_last_sequence + 1 - oldest >= kSubmissions)
        return false;
    Batch &batch = *stream.open;
    if (batch.packets == 0) { // only empty copies
        stream.open = nullptr;
        complete(batch, nullptr);
        return true;
    }
    const auto fail = [&](const Error &error) GAUDI_REQUIRES(m_mutex) {
        return !m_shortage.may_end(error.code) && refuse_batch(lane, stream, error);
    };
    if (batch.flush)
        if (const auto flushed = m_device.flush_pci_writes(); !flushed)
            return fail(flushed.error());
    const auto sequence = submit(stream, batch);
    if (!sequence)
        return fail(sequence.error());
    m_shortage.end();
    ++stream.next_value;
    batch.sequence = *sequence;
    batch.sent_ns = now_ns();
    m_last_sequence = *sequence;
    count_submission();
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
