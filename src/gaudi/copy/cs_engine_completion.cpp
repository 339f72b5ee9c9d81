// SPDX-License-Identifier: BSD-3-Clause
// Completion, failure of the card, and the end of the session.
#include "cs_engine.h"

#include "gaudi/memory/arena.h"
#include "gaudi/memory/live_mappings.h"
#include "thunk/report.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace gaudi {
namespace {

constexpr std::uint64_t kSilenceNs = 1'000'000'000; // without a completion flag, before the driver is asked
constexpr unsigned kPollsPerClock = 256;            // the clock is read once in so many polls
// While the driver may be unable to say what has ended, and then for submissions to end by themselves.
constexpr std::uint64_t kUnansweredNs = 5'000'000'000, kDrainNs = 5'000'000'000;

} // namespace

std::atomic<std::uint32_t> &CsEngine::completion_flag(const Stream &stream) const {
    return *reinterpret_cast<std::atomic<std::uint32_t> *>(static_cast<char *>(m_ring) + stream.flag * kFlagStride);
}

bool CsEngine::is_flag_set(const Stream &stream, const Batch &batch) const {
    return uses_completion_flags() &&
           static_cast<std::int32_t>(completion_flag(stream).load(std::memory_order_acquire) - batch.value) >= 0;
}

bool CsEngine::has_ended(Stream &stream, const Batch &batch) {
    if (uses_completion_flags()) {
        if (is_flag_set(stream, batch))
            return true;
        if (!failed() && (++stream.polls % kPollsPerClock != 0 || now_ns() - batch.sent_ns < kSilenceNs))
            return false;
    }
    if (m_drained_by_ns != 0) { // the driver does not answer: a completion flag is the only sign of an end
        if (now_ns() > m_drained_by_ns)
            end_sent();
        return false;
    }
    const auto waited = m_device.wait(batch.sequence, std::chrono::microseconds(0));
    if (!waited) {
        handle_failed_wait(waited.error());
        return false;
    }
    if (*waited == thunk::Wait::busy)
        m_unanswered_ns = 0;
    return *waited == thunk::Wait::done;
}

/// The driver did not say whether a submission has ended. On a card that was lost all have. On an operational card they may
/// still run: the driver is asked again while the reason is transient, and then the engine takes no more copies and waits
/// (bounded) for those in flight, because a card that meets an unmapped address resets.
void CsEngine::handle_failed_wait(const Error &error) {
    if (!is_operational())
        return fail_all(error);
    const std::uint64_t now = now_ns();
    if (m_unanswered_ns == 0)
        m_unanswered_ns = now;
    if (thunk::is_transient(error.code) && now - m_unanswered_ns < kUnansweredNs)
        return;
    refuse(error);
    m_drained_by_ns = now + kDrainNs;
}

void CsEngine::collect(Lane &lane) {
    for (unsigned i = 0; i < lane.count; ++i)
        collect(lane, lane.streams[i]);
}

void CsEngine::collect(Lane &lane, Stream &stream) {
    while (stream.oldest && has_ended(stream, *stream.oldest)) { // which may fail them all
        m_unanswered_ns = 0;
        complete(take_oldest(lane, stream), m_drained_by_ns != 0 ? copy_failure() : nullptr);
    }
}

CsEngine::Batch &CsEngine::take_oldest(Lane &lane, Stream &stream) {
    Batch &batch = *stream.oldest;
    stream.oldest = batch.next;
    if (!stream.oldest)
        stream.newest = nullptr;
    --stream.depth;
    --lane.sent;
    return batch;
}

/// Ends the copies of a batch. Those of one channel are handed to it together.
void CsEngine::complete(Batch &batch, const Failure &failure) {
    Transfer *newest = nullptr, *oldest = nullptr;
    std::uint64_t ended = 0;
    Tally tally(*this);
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (failure && !transfer.failure)
            transfer.failure = failure;
        if (--transfer.batches != 0 || transfer.emitted != transfer.length)
            continue;
        ++ended;
        if (newest && newest->channel != transfer.channel) {
            tally.flush();
            newest->channel->finish(*newest, *oldest);
            newest = nullptr;
        }
        tally.add(transfer);
        if (!newest)
            oldest = &transfer;
        transfer.next = newest;
        newest = &transfer;
    }
    batch.next = m_free;
    m_free = &batch;
    tally.flush();
    if (newest)
        newest->channel->finish(*newest, *oldest);
    count_ended(ended);
}

/// The engine takes no more copies: those that were not sent fail, and so do all that come. Copies in flight are not affected.
void CsEngine::refuse(const Error &error) {
    set_failed(error);
    end_waiting();
}

/// Keeps the memory of the copy mapped: the host end by Transfer::abandoned, the allocations on the card here.
void CsEngine::abandon(Transfer &transfer) {
    transfer.abandoned = true;
    for (const std::uint64_t address : {transfer.source, transfer.destination})
        if (const Region *region = LiveMappings::get().find(address); region && &region->session() == &m_session)
            m_session.get<Arena>().abandon(region->allocation(address).base);
}

/// Whether the card certainly runs a submission no more. After a timeout its queue may still fetch the packets and write, and in
/// a reset the driver does not say whether the engines have been halted yet.
bool CsEngine::is_over(const Stream &stream, const Batch &batch) const {
    if (is_flag_set(stream, batch))
        return true;
    const auto waited = m_device.wait(batch.sequence, std::chrono::microseconds(0));
    if (waited)
        return *waited == thunk::Wait::done;
    return waited.error().code == EIO ||
           waited.error().code == ENODEV; // aborted after the engines, or gone from the bus
}

/// Ends all batches in flight with the engine's failure. Those that the card may still run are abandoned.
void CsEngine::end_sent() {
    for (Lane &lane : m_lanes)
        for (unsigned i = 0; i < lane.count; ++i)
            while (lane.streams[i].oldest) {
                Batch &batch = take_oldest(lane, lane.streams[i]);
                const bool abandoned = !is_over(lane.streams[i], batch);
                for (unsigned part = 0; abandoned && part < batch.parts; ++part)
                    abandon(*batch.transfers[part]);
                m_abandoned.fetch_add(abandoned ? 1 : 0, std::memory_order_relaxed);
                complete(batch, copy_failure());
            }
}

/// The card was lost, and all copies in flight with it.
void CsEngine::fail_all(const Error &error) {
    refuse(error);
    end_sent();
}

void CsEngine::stop(const Error &why) {
    constexpr unsigned kLimitMs = 5000;
    {
        const os::MutexLock lock(m_mutex);
        refuse(why);
    }
    if (!m_session.card_lost()) // else none will end by itself, and the driver waits for the card to be closed
        flush(kLimitMs);
    {
        const os::MutexLock lock(m_mutex);
        end_sent();
    }
    end_watch();
}

void CsEngine::release() {
    const os::MutexLock lock(m_mutex);
    if (abandoned() != 0 || m_session.card_lost()) // the driver unmaps it with the descriptor
        m_ring_map.detach();
    thunk::release_or_report([this] { return m_ring_map.release(); });
}

void CsEngine::end_waiting() {
    for (Lane &lane : m_lanes) {
        for (Transfer *waiting = lane.first; waiting;) {
            Transfer *next = waiting->next;
            if (!waiting->failure)
                waiting->failure = copy_failure();
            waiting->emitted = waiting->length;
            if (waiting->batches == 0) {
                Tally(*this).add(*waiting);
                waiting->channel->finish(*waiting);
                count_ended(1);
            }
            waiting = next;
        }
        lane.first = lane.last = nullptr;
        for (unsigned i = 0; i < lane.count; ++i)
            if (Batch *open = lane.streams[i].open) {
                lane.streams[i].open = nullptr;
                complete(*open, copy_failure());
            }
    }
}

void CsEngine::settle() {
    if (m_session.inherited()) // a thread of the parent may have held the lock
        return;
    const os::MutexLock lock(m_mutex);
}

void CsEngine::progress() {
    if (!busy() || m_session.inherited() || !m_mutex.try_lock())
        return; // or another thread is at it
    const os::MutexLock lock(m_mutex, std::adopt_lock);
    for (Lane &lane : m_lanes)
        if (lane.sent != 0)
            collect(lane);
    // Lanes take turns at being the first to find room in the driver: a lane that is always full must not starve others.
    m_first_lane = (m_first_lane + 1) % m_lanes.size();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        Lane &lane = m_lanes[(m_first_lane + i) % m_lanes.size()];
        if (!lane.first && !lane.streams[lane.turn].open)
            continue;
        pump(lane);
        // Only the stream whose turn it is has an open batch.
        Stream &stream = lane.streams[lane.turn];
        if (stream.open && !failed() && (!lane.bulk || stream.depth < kBulkDepth))
            send(lane, stream);
    }
}

void CsEngine::wait() {
    std::uint64_t oldest = UINT64_MAX;
    {
        const os::MutexLock lock(m_mutex);
        oldest = oldest_sequence();
    }
    if (oldest != UINT64_MAX)
        (void)m_device.wait(oldest, std::chrono::milliseconds(100)); // progress() meets the same error
}

} // namespace gaudi
