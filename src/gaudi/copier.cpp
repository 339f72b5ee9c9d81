// SPDX-License-Identifier: BSD-3-Clause
#include "copier.h"

#include "card.h"
#include "packets.h"
#include "settings.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <vector>

namespace gaudi {
namespace {

constexpr std::size_t kWordStride = 64; // one cache line each
constexpr std::size_t kWordBytes = 4096;
constexpr std::uint64_t kRefusalNs = 5'000'000'000; // that a driver may be short of something before the card is lost
constexpr std::uint64_t kSilenceNs = 1'000'000'000; // a word that does not come: ask the driver once in a while

std::uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// From here on a copy takes longer than its submission, and those after it should not have to wait.
constexpr std::uint64_t kBulk = 128 << 10;
// Large copies go out in groups of at least this much: their ends are told group by group, and what is staged through
// host memory waits for them.
constexpr std::uint64_t kGroup = 512 << 10;
// The most that one batch copies, and one engine's least share of a copy within a card: none may run long.
constexpr std::uint64_t kStretch = 16 << 20;
constexpr std::uint64_t kShare = 4 << 20;
// Batches that a stream of large copies has under way: one at work, the others ready.
constexpr unsigned kBulkDepth = 4;

constexpr unsigned kLooksPerClock = 256; // the time is asked at every so many looks only

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
    if (auto unmapped = m_ring_map.release(); unmapped && m_ring)
        munmap(m_ring, kWordBytes + kBatches * kBufferBytes);
}

Result<std::unique_ptr<Copier>> Copier::start(Card &card, const thunk::Device &device) {
    std::unique_ptr<Copier> copier(new Copier(card, device));
    if (auto ready = copier->set_up(); !ready)
        return tl::unexpected(ready.error());
    return copier;
}

Result<void> Copier::set_up() {
    const std::size_t size = kWordBytes + kBatches * kBufferBytes;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tl::unexpected(thunk::make_error(errno, "mmap", "", "no memory for the command ring"));
    m_ring = memory;
    madvise(m_ring, size, MADV_DONTFORK); // a child's copy-on-write would part the card from its parent's pages
    auto mapping = thunk::map_host(m_device, m_ring, size);
    if (!mapping)
        return tl::unexpected(mapping.error());
    m_ring_map = std::move(*mapping);
    if (settings().completion_by_driver.load(std::memory_order_relaxed))
        return {};
    return test_words();
}

std::atomic<std::uint32_t> &Copier::word(const Stream &stream) {
    return *reinterpret_cast<std::atomic<std::uint32_t> *>(static_cast<char *>(m_ring) + stream.word * kWordStride);
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
        next[-1].destination + next[-1].size == destination) {
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
    if (m_refused_ns == 0)
        m_refused_ns = now;
    return now - m_refused_ns < kRefusalNs;
}

/// False when the driver's window has no room: the batch stays open.
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
    if (batch.flush && m_device.library().has_flush()) {
        if (auto flushed = m_device.flush_pci_writes(); !flushed) {
            if (!will_pass(flushed.error().code))
                refuse(flushed.error());
            return false;
        }
    }
    const auto sequence = m_device.submit(std::span(&chunk, 1));
    if (!sequence) {
        if (!will_pass(sequence.error().code))
            refuse(sequence.error());
        return false;
    }
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

// ---- completion ---------------------------------------------------------------------------------------------------

bool Copier::ended(Stream &stream, const Batch &batch) {
    if (m_words_hold) {
        const std::uint32_t shown = word(stream).load(std::memory_order_acquire);
        if (static_cast<std::int32_t>(shown - batch.value) >= 0)
            return true;
        if (!failed() && (++stream.looks % kLooksPerClock != 0 || now_ns() - batch.sent_ns < kSilenceNs))
            return false;
    }
    const auto waited = m_device.wait(batch.sequence, std::chrono::microseconds(0));
    if (waited)
        return *waited == thunk::Wait::Done;
    lose(waited.error());
    return false;
}

void Copier::collect(Lane &lane) {
    for (unsigned i = 0; i < lane.count; ++i)
        collect(lane, lane.streams[i]);
}

void Copier::collect(Lane &lane, Stream &stream) {
    while (stream.oldest && ended(stream, *stream.oldest)) // which may lose them all
        complete(take_oldest(lane, stream), 0);
}

Copier::Batch &Copier::take_oldest(Lane &lane, Stream &stream) {
    Batch &batch = *stream.oldest;
    stream.oldest = batch.next;
    if (!stream.oldest)
        stream.newest = nullptr;
    --stream.depth;
    --lane.sent;
    return batch;
}

/// Those of one channel are handed to it together.
void Copier::complete(Batch &batch, int error) {
    Transfer *newest = nullptr, *oldest = nullptr;
    std::uint64_t over = 0;
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (error != 0 && transfer.error == 0)
            transfer.error = error;
        if (--transfer.batches != 0 || transfer.emitted != transfer.length)
            continue;
        ++over;
        if (newest && newest->channel != transfer.channel) {
            newest->channel->finish(*newest, *oldest);
            newest = nullptr;
        }
        if (!newest)
            oldest = &transfer;
        transfer.next = newest;
        newest = &transfer;
    }
    batch.next = m_free;
    m_free = &batch;
    if (newest)
        newest->channel->finish(*newest, *oldest);
    // Last: who sees that nothing is under way any more may take host memory away that it used.
    m_posted.store(m_posted.load(std::memory_order_relaxed) - over, std::memory_order_release);
}

/// The card takes no more: what it has not got yet fails, and so does everything that comes. What it has got may still be
/// running, and ends as it does.
void Copier::refuse(const Error &error) {
    if (!m_failed.exchange(true, std::memory_order_acq_rel)) {
        const std::lock_guard guard(m_failure_mutex);
        m_failure = error.text;
    }
    end_waiting();
}

/// The card is gone, and everything on its way with it.
void Copier::lose(const Error &error) {
    refuse(error);
    for (Lane &lane : m_lanes)
        for (unsigned i = 0; i < lane.count; ++i)
            while (lane.streams[i].oldest)
                complete(take_oldest(lane, lane.streams[i]), EIO);
}

void Copier::end_waiting() {
    for (Lane &lane : m_lanes) {
        for (Transfer *waiting = lane.first; waiting;) {
            Transfer *next = waiting->next;
            waiting->error = EIO;
            waiting->emitted = waiting->length;
            if (waiting->batches == 0) {
                waiting->channel->finish(*waiting);
                m_posted.store(m_posted.load(std::memory_order_relaxed) - 1, std::memory_order_release);
            }
            waiting = next;
        }
        lane.first = lane.last = nullptr;
        for (unsigned i = 0; i < lane.count; ++i)
            if (Batch *open = lane.streams[i].open) {
                lane.streams[i].open = nullptr;
                complete(*open, EIO);
            }
    }
}

std::string Copier::failure() const {
    const std::lock_guard guard(m_failure_mutex);
    return m_failure;
}

void Copier::progress() {
    if (!busy())
        return;
    const std::unique_lock guard(m_mutex, std::try_to_lock);
    if (!guard)
        return; // somebody else is at it
    for (Lane &lane : m_lanes)
        if (lane.sent != 0)
            collect(lane);
    // They take turns at being the first to find room in the window: one that is always full must not starve the others.
    m_first_lane = (m_first_lane + 1) % m_lanes.size();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        Lane &lane = m_lanes[(m_first_lane + i) % m_lanes.size()];
        if (!lane.first && !lane.streams[lane.turn].open)
            continue;
        pump(lane);
        // Only the stream whose turn it is has an open batch.
        Stream &stream = lane.streams[lane.turn];
        if (stream.open && !m_failed.load(std::memory_order_relaxed) && (!lane.bulk || stream.depth < kBulkDepth))
            send(lane, stream);
    }
}

void Copier::sleep() {
    std::uint64_t oldest = UINT64_MAX;
    {
        const std::lock_guard guard(m_mutex);
        oldest = oldest_sequence();
    }
    if (oldest != UINT64_MAX)
        (void)m_device.wait(oldest, std::chrono::milliseconds(100)); // an error shows in progress, soon
}

bool Copier::drain(unsigned limit_ms) {
    const std::uint64_t limit = now_ns() + std::uint64_t{limit_ms} * 1'000'000;
    while (busy() && now_ns() < limit)
        progress();
    return !busy();
}

// ---- waiting without polling ------------------------------------------------------------------------------------

void Copier::watch() {
    const std::lock_guard guard(m_watch_mutex);
    m_watch_wanted.fetch_add(1, std::memory_order_release);
    m_watch_wanted.notify_all();
    if (m_watching)
        return;
    std::thread waiter([this] { watch_loop(); });
    m_watching = true;
    pthread_setname_np(waiter.native_handle(), "gaudi-wait");
    waiter.detach(); // copiers live as long as the process
}

void Copier::watch_loop() {
    std::uint32_t seen = 0;
    while (true) {
        const std::uint32_t wanted = m_watch_wanted.load(std::memory_order_acquire);
        if (wanted == seen) {
            m_watch_wanted.wait(seen, std::memory_order_acquire);
            continue;
        }
        seen = wanted;
        while (busy()) {
            progress();
            sleep();
        }
    }
}

// ---- is the completion word to be trusted -----------------------------------------------------------------------

/// Nothing public promises that the word is written after the data has arrived: see whether this card does it.
Result<void> Copier::test_words() {
    constexpr std::size_t kBytes = 256 * 1024;
    constexpr unsigned kRounds = 8;
    // Where there is no memory to try it with, the driver is asked.
    auto device_memory =
        m_card.arena().allocate({.length = kBytes, .limit = settings().max_memory.load(std::memory_order_relaxed)});
    if (!device_memory)
        return {};
    struct Release {
        Card &card;
        std::uint64_t address;
        ~Release() { card.arena().free(address); }
    } const release{m_card, *device_memory};

    std::vector<std::uint32_t> out(kBytes / 4), back(kBytes / 4);
    const std::uint64_t begin = now_ns();
    auto out_map = thunk::map_host(m_device, out.data(), kBytes);
    const std::uint64_t mapped = now_ns();
    std::copy(out.begin(), out.end(), back.begin());
    const std::uint64_t copied = now_ns();
    m_worth_mapping =
        std::clamp((mapped - begin) * kBytes / std::max<std::uint64_t>(1, copied - mapped), kLeastMapped, kMostStaged);
    auto back_map = thunk::map_host(m_device, back.data(), kBytes);
    if (!out_map || !back_map)
        return {};
    m_words_hold = true;

    Channel channel;
    const auto copy = [&](Direction direction, std::uint64_t source, std::uint64_t destination, std::size_t bytes) {
        Transfer *transfer = channel.take();
        int error = 0;
        transfer->source = source;
        transfer->destination = destination;
        transfer->length = bytes;
        transfer->user = &error;
        transfer->done = [](Transfer &ended) { *static_cast<int *>(ended.user) = ended.error; };
        post(direction, *transfer);
        while (channel.outstanding() != 0) {
            progress();
            channel.dispatch();
        }
        return error == 0;
    };
    bool in_order = true;
    for (unsigned round = 0; round < kRounds && in_order && !failed(); ++round) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<std::uint32_t>(i * 2654435761u) ^ (round * 0x9E3779B9u + 1);
        std::fill(back.begin(), back.end(), 0);
        const std::size_t bytes = round % 2 == 0 ? kBytes : kBytes / 4; // the streams for large copies, those for small
        in_order = copy(Direction::down, out_map->get(), *device_memory, bytes) &&
                   copy(Direction::up, *device_memory, back_map->get(), bytes) &&
                   std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes / 4), back.begin());
    }
    if (failed())
        return tl::unexpected(thunk::make_error(EIO, "self-test", m_card.bus_id(), failure()));
    m_words_hold = in_order;
    return {};
}

} // namespace gaudi
