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

/// Queues of a Gaudi2. On-card copies take the first engine that this very card has.
std::uint32_t queue_of(Direction direction, std::uint32_t edma_mask) {
    constexpr std::array<std::uint32_t, 8> edma = {8, 12, 48, 52, 84, 88, 120, 124};
    switch (direction) {
    case Direction::down:
        return 0;
    case Direction::up:
        return 4;
    case Direction::on_card:
        break;
    }
    for (unsigned i = 0; i < edma.size(); ++i)
        if ((edma_mask >> i & 1) != 0)
            return edma[i];
    return 0;
}

} // namespace

Copier::Copier(Card &card, const thunk::Device &device) : m_card(card), m_device(device) {
    for (unsigned i = 0; i < kBatches; ++i) {
        m_batches[i].slot = i;
        m_free.push_back(&m_batches[i]);
    }
    for (unsigned i = 0; i < kDirections; ++i)
        m_lanes[i].queue = queue_of(static_cast<Direction>(i), card.info().edma_enabled_mask);
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

std::atomic<std::uint32_t> &Copier::word(const Lane &lane) {
    const auto index = static_cast<std::size_t>(&lane - m_lanes.data());
    return *reinterpret_cast<std::atomic<std::uint32_t> *>(static_cast<char *>(m_ring) + index * kWordStride);
}

// ---- posting ------------------------------------------------------------------------------------------------------

void Copier::post(Direction direction, Transfer &transfer) {
    const std::lock_guard guard(m_mutex);
    if (m_failed.load(std::memory_order_relaxed)) {
        transfer.error = EIO;
        transfer.channel->finish(transfer);
        return;
    }
    m_posted.fetch_add(1, std::memory_order_relaxed);
    Lane &lane = m_lanes[static_cast<unsigned>(direction)];
    transfer.next = nullptr;
    (lane.last ? lane.last->next : lane.first) = &transfer;
    lane.last = &transfer;
    pump(lane);
}

/// Fills batches from what waits and sends those that are full, or the first when the queue has nothing else to do.
void Copier::pump(Lane &lane) {
    while (lane.first) {
        if (!lane.open) {
            if (m_free.empty())
                return;
            lane.open = m_free.back();
            m_free.pop_back();
            const unsigned slot = lane.open->slot;
            *lane.open = Batch{};
            lane.open->slot = slot;
        }
        emit(lane);
        const bool full = lane.open->full();
        if ((full || lane.sent.empty()) && !send(lane))
            return;
        if (!full && !lane.first)
            return;
    }
}

/// Moves copies from the line into the open batch until one of them is empty or full.
void Copier::emit(Lane &lane) {
    Batch &batch = *lane.open;
    auto *buffer = static_cast<char *>(m_ring) + kWordBytes + batch.slot * kBufferBytes;
    while (lane.first && !batch.full()) {
        Transfer &transfer = *lane.first;
        const std::uint64_t piece = std::min(transfer.length - transfer.emitted, kBatchBytes - batch.bytes);
        const std::uint64_t source = transfer.source + transfer.emitted;
        const std::uint64_t destination = transfer.destination + transfer.emitted;
        packet::LinearDma last{};
        if (batch.packets > 0)
            std::memcpy(&last, buffer + (batch.packets - 1) * sizeof last, sizeof last);
        if (batch.packets > 0 && last.source + last.size == source && last.destination + last.size == destination) {
            last.size += static_cast<std::uint32_t>(piece); // the next stretch of the same copy, or of its neighbour
            std::memcpy(buffer + (batch.packets - 1) * sizeof last, &last, sizeof last);
        } else if (piece > 0) {
            packet::LinearDma copy{
                .size = static_cast<std::uint32_t>(piece), .source = source, .destination = destination};
            std::memcpy(buffer + batch.packets * sizeof copy, &copy, sizeof copy);
            ++batch.packets;
        }
        batch.bytes += piece;
        batch.flush = batch.flush || transfer.flush;
        transfer.emitted += piece;
        ++transfer.batches;
        batch.transfers[batch.parts++] = &transfer;
        if (transfer.emitted == transfer.length) {
            lane.first = transfer.next;
            if (!lane.first)
                lane.last = nullptr;
        }
    }
}

std::uint64_t Copier::oldest_sequence() const {
    std::uint64_t oldest = UINT64_MAX;
    for (const Lane &lane : m_lanes)
        if (!lane.sent.empty())
            oldest = std::min(oldest, lane.sent.front()->sequence);
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
bool Copier::send(Lane &lane) {
    // A submission beyond the window would not fail but spin inside the library. Others may submit on this card too.
    const std::uint64_t oldest = oldest_sequence();
    if (oldest != UINT64_MAX && m_last_sequence + 1 - oldest >= kWindow)
        return false;
    Batch &batch = *lane.open;
    if (batch.packets == 0) { // nothing but empty copies
        lane.open = nullptr;
        complete(batch, 0);
        return true;
    }
    const std::uint64_t base = m_ring_map.get();
    auto *buffer = static_cast<char *>(m_ring) + kWordBytes + batch.slot * kBufferBytes;
    std::size_t size = batch.packets * sizeof(packet::LinearDma);
    batch.value = lane.next_value++;
    const packet::Message message{
        .value = batch.value,
        .address = base + static_cast<std::size_t>(&lane - m_lanes.data()) * kWordStride,
    };
    std::memcpy(buffer + size, &message, sizeof message);
    size += sizeof message;

    hl_cs_chunk chunk{};
    chunk.cb_handle = base + kWordBytes + batch.slot * kBufferBytes;
    chunk.queue_index = lane.queue;
    chunk.cb_size = static_cast<std::uint32_t>(size);
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    if (batch.flush && m_device.library().has_flush()) {
        if (auto flushed = m_device.flush_pci_writes(); !flushed) {
            lane.next_value = batch.value; // this one was not used
            if (!will_pass(flushed.error().code))
                refuse(flushed.error());
            return false;
        }
    }
    const auto sequence = m_device.submit(std::span(&chunk, 1));
    if (!sequence) {
        lane.next_value = batch.value; // this one was not used
        if (!will_pass(sequence.error().code))
            refuse(sequence.error());
        return false;
    }
    m_refused_ns = 0;
    batch.sequence = *sequence;
    batch.sent_ns = now_ns();
    m_last_sequence = *sequence;
    m_submissions.fetch_add(1, std::memory_order_relaxed);
    lane.sent.push_back(&batch);
    lane.open = nullptr;
    return true;
}

// ---- completion ---------------------------------------------------------------------------------------------------

bool Copier::ended(const Lane &lane, const Batch &batch, int &error) {
    error = 0;
    if (m_words_hold) {
        const std::uint32_t shown = word(lane).load(std::memory_order_acquire);
        if (static_cast<std::int32_t>(shown - batch.value) >= 0)
            return true;
        if (!failed() && now_ns() - batch.sent_ns < kSilenceNs)
            return false;
    }
    const auto waited = m_device.wait(batch.sequence, std::chrono::microseconds(0));
    if (waited)
        return *waited == thunk::Wait::Done;
    lose(waited.error());
    return false;
}

void Copier::collect(Lane &lane) {
    int error = 0;
    while (!lane.sent.empty() && ended(lane, *lane.sent.front(), error)) { // ended() may lose them all
        Batch &batch = *lane.sent.front();
        lane.sent.pop_front();
        complete(batch, error);
    }
}

void Copier::complete(Batch &batch, int error) {
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (error != 0 && transfer.error == 0)
            transfer.error = error;
        if (--transfer.batches == 0 && transfer.emitted == transfer.length) {
            m_posted.fetch_sub(1, std::memory_order_relaxed);
            transfer.channel->finish(transfer);
        }
    }
    m_free.push_back(&batch);
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
        while (!lane.sent.empty()) {
            Batch &batch = *lane.sent.front();
            lane.sent.pop_front();
            complete(batch, EIO);
        }
}

void Copier::end_waiting() {
    for (Lane &lane : m_lanes) {
        for (Transfer *waiting = lane.first; waiting;) {
            Transfer *next = waiting->next;
            waiting->error = EIO;
            waiting->emitted = waiting->length;
            if (waiting->batches == 0) {
                m_posted.fetch_sub(1, std::memory_order_relaxed);
                waiting->channel->finish(*waiting);
            }
            waiting = next;
        }
        lane.first = lane.last = nullptr;
        if (lane.open) {
            Batch &open = *lane.open;
            lane.open = nullptr;
            complete(open, EIO);
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
    for (Lane &lane : m_lanes) {
        collect(lane);
        pump(lane);
        if (lane.open && !m_failed.load(std::memory_order_relaxed))
            send(lane);
    }
}

void Copier::sleep() {
    std::uint64_t oldest = UINT64_MAX;
    {
        const std::lock_guard guard(m_mutex);
        oldest = oldest_sequence();
    }
    if (oldest != UINT64_MAX)
        (void)m_device.wait(oldest, std::chrono::milliseconds(100)); // an error shows at the next progress
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
    auto out_map = thunk::map_host(m_device, out.data(), kBytes);
    auto back_map = thunk::map_host(m_device, back.data(), kBytes);
    if (!out_map || !back_map)
        return {};
    m_words_hold = true;

    Channel channel;
    const auto copy = [&](Direction direction, std::uint64_t source, std::uint64_t destination) {
        Transfer *transfer = channel.take();
        int error = 0;
        transfer->source = source;
        transfer->destination = destination;
        transfer->length = kBytes;
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
        in_order = copy(Direction::down, out_map->get(), *device_memory) &&
                   copy(Direction::up, *device_memory, back_map->get()) && out == back;
    }
    if (failed())
        return tl::unexpected(thunk::make_error(EIO, "self-test", m_card.bus_id(), failure()));
    m_words_hold = in_order;
    return {};
}

} // namespace gaudi
