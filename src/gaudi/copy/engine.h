// SPDX-License-Identifier: BSD-3-Clause
// Executes the copies of one session. Back ends differ in how a copy reaches the card: CsEngine (command submission),
// SynapseEngine (the framework's copy call), NoEngine (a card without a copy path). An engine serves one session and all
// its users; it is freed when the session has ended and the last user has let go of it.
#pragma once

#include "gaudi/card/session.h"
#include "transfer.h"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>

namespace gaudi {

enum class Direction : unsigned {
    down,    // host memory to the card
    up,      // the card to host memory
    on_card, // within the card
};
inline constexpr unsigned kDirections = 3;

class Engine : public std::enable_shared_from_this<Engine> {
public:
    virtual ~Engine() = default;
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    virtual const char *name() const = 0;
    Session &session() const { return m_session; }

    // ---- copies
    /// Starts a copy. Its end is handed to the transfer's channel, always, and never from inside this call.
    virtual void post(Direction direction, Transfer &transfer) = 0;
    /// Starts copies that are linked by `next`; the same as one by one, and cheaper where the engine says so.
    virtual void post_all(Direction direction, Transfer &first);
    /// Sends what waits, collects what has ended. Cheap when there is nothing.
    virtual void progress() = 0;
    /// Until all copies have ended, or `limit_ms` have passed; whether they have.
    bool flush(unsigned limit_ms);
    /// Lets a thread wait for the card where no user polls: for channels that are armed.
    void arm();
    /// Blocks until the oldest copy may have ended, bounded.
    virtual void wait() = 0;
    /// Returns when no thread is at work in the engine.
    virtual void settle() = 0;

    // ---- state
    bool busy() const { return m_posted.load(std::memory_order_acquire) != 0; }
    /// Whether the engine takes no more copies.
    bool failed() const { return m_failed.load(std::memory_order_acquire); }
    /// Why; null while it takes copies.
    Failure failure() const;
    /// From this length on, mapping host memory costs less than staging the copy; kNeverMapped where all is staged.
    static constexpr std::uint64_t kNeverMapped = UINT64_MAX;
    std::uint64_t worth_mapping() const { return m_worth_mapping; }
    /// Of this engine; the card's counter has those of all its engines.
    std::uint64_t submissions() const { return value_of(m_session.counters().submissions) - m_earlier_submissions; }
    /// Submissions that were given up although the card may still run them. Memory that they use is never unmapped.
    unsigned abandoned() const { return m_abandoned.load(std::memory_order_relaxed); }

    // ---- the end of the session
    /// Takes no more copies; those under way end or fail.
    virtual void stop(const Error &why) = 0;
    /// After that: gives back what the engine holds on the card.
    virtual void release() = 0;

protected:
    explicit Engine(Session &session)
        : m_session(session), m_earlier_submissions(value_of(session.counters().submissions)) {}

    /// A failure of the driver or the framework that may be over at the next try, for a bounded time.
    class Shortage {
    public:
        /// Whether another try is worth it after a refusal with this errno.
        bool may_end(int code);
        void end() { m_since_ns = 0; }

    private:
        std::uint64_t m_since_ns = 0, m_last_ns = 0;
    };

    static constexpr std::uint64_t kLeastMapped = 16 << 10; // bytes

    static std::uint64_t now_ns() {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
    }
    /// Whether the card will go on, as far as the driver says.
    bool is_operational() const;
    /// The first failure counts.
    void set_failed(const Error &error);
    /// The failure of copies that fail with the engine.
    Failure copy_failure() const;
    /// The failure of copies that fail alone.
    Failure make_copy_failure(const Error &error) const;
    /// One thread at a time counts: the engine's lock is held.
    void count_posted() { m_posted.store(m_posted.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    /// Last of all: a user that sees no copy under way may unmap host memory.
    void count_ended(std::uint64_t copies) {
        m_posted.store(m_posted.load(std::memory_order_relaxed) - copies, std::memory_order_release);
    }
    void count_submission() { count_up_exclusive(m_session.counters().submissions, 1); }
    /// Counts transfers that have ended, those of one path together; the engine's lock is held for as long as it lives.
    class Tally {
    public:
        explicit Tally(Engine &engine) : m_counters(engine.m_session.counters()) {}
        ~Tally() { flush(); }
        Tally(const Tally &) = delete;
        Tally &operator=(const Tally &) = delete;

        void add(const Transfer &transfer) {
            if (transfer.failure) [[unlikely]] {
                count_up_exclusive(m_counters.failed_transfers, 1);
                return;
            }
            if (transfer.path != m_path) {
                flush();
                m_path = transfer.path;
            }
            m_copies += transfer.counts;
            m_bytes += transfer.length;
        }
        /// Before the transfers are handed to their channel: its owner may read the counters at once.
        void flush() {
            if (m_bytes == 0)
                return;
            count_up_exclusive(m_counters.copies[static_cast<std::size_t>(m_path)], m_copies);
            count_up_exclusive(m_counters.bytes[static_cast<std::size_t>(m_path)], m_bytes);
            m_copies = m_bytes = 0;
        }

    private:
        CardCounters &m_counters;
        Path m_path = Path::self_test;
        std::uint64_t m_copies = 0, m_bytes = 0;
    };
    /// Ends the thread of arm(), once nothing is under way.
    void end_watch();

    Session &m_session;
    const std::uint64_t m_earlier_submissions;
    std::uint64_t m_worth_mapping = kLeastMapped;
    std::atomic<unsigned> m_abandoned{0};

private:
    void watch();

    std::atomic<bool> m_failed{false};
    std::atomic<std::uint64_t> m_posted{0};
    mutable os::Mutex m_failure_mutex{rank::kEngineFailure};
    Failure m_failure GAUDI_GUARDED_BY(m_failure_mutex), m_copy_failure GAUDI_GUARDED_BY(m_failure_mutex);

    os::Mutex m_watch_mutex{rank::kEngineWatch};
    bool m_watched GAUDI_GUARDED_BY(m_watch_mutex) = false;
    std::atomic<bool> m_ended{false};
    std::atomic<std::uint32_t> m_armed{0};
};

} // namespace gaudi
