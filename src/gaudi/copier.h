// SPDX-License-Identifier: BSD-3-Clause
// The copy engine of one card: LIN_DMA packets in a ring of command buffers, sent by command submission. Each direction
// has two lanes, so that small copies do not wait behind large ones, and a lane has one or more streams, each a queue of
// the card: large copies within a card are divided among its engines. A copy is sent at once when its stream is idle;
// else it joins the open batch, which goes out when it is full, at the next progress, or at a flush. Completion is a word
// that the queue writes to host memory after its copies, so that polling makes no system call.
#pragma once

#include "forks.h"
#include "problem.h"
#include "thunk/owners.h"
#include "transfer.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace gaudi {

class Card;
class Framework;
class FrameworkStream;

using Error = thunk::Error;
template <class T>
using Result = thunk::Result<T>;

enum class Direction : unsigned { down, up, on_card };
inline constexpr unsigned kDirections = 3;

class Copier {
public:
    static Result<std::unique_ptr<Copier>> start(Card &card, const thunk::Device &device);
    /// Where start() found that submissions are not for us: by the own call of the framework that has the card.
    static Result<std::unique_ptr<Copier>> start_by_framework(Card &card, const thunk::Device &device);
    /// The framework that has the card and copies for others; null for none.
    static const Framework *framework_of(const Card &card);
    /// Whether there is one in the process that copies, whatever it has.
    static bool framework_copies();
    ~Copier();
    Copier(const Copier &) = delete;
    Copier &operator=(const Copier &) = delete;

    /// Starts a copy; its end is told to the transfer's channel, always, and never from inside this call.
    void post(Direction direction, Transfer &transfer);
    /// Sends what waits, notices what has ended. Cheap when there is nothing.
    void progress();
    /// Returns when no thread is at work in it.
    void settle();
    /// Waits in the driver until the oldest submission has ended, or a while.
    void sleep();
    /// The card is about to be closed by somebody else: what was sent ends, the rest fails.
    void retire(const Error &why);
    /// After that: the driver lets go of the ring.
    void unmap_ring();
    /// Until everything that was posted has ended, or `limit_ms` have passed.
    bool drain(unsigned limit_ms);

    const Card &card() const { return m_card; }

    /// Whether copies were seen to arrive before it took any.
    bool proven() const { return m_proven; }

    /// Why the card takes no more copies; empty while it does.
    std::string failure() const;
    bool failed() const { return m_failed.load(std::memory_order_acquire); }
    /// Why copies failed last, be it that the card takes no more or that the driver refused one submission.
    Problem problem() const;
    bool busy() const { return m_posted.load(std::memory_order_acquire) != 0; }

    /// From now on a thread waits for the card where nobody polls: for channels that are armed.
    void watch();

    /// From this length on, mapping host memory once costs less than copying it through memory that is mapped. Measured
    /// when the engine starts, because drivers and IOMMUs differ by far.
    std::uint64_t worth_mapping() const { return m_worth_mapping; }

    /// Whether a framework copies. It maps host memory itself and knows it by the processor's address.
    bool by_framework() const { return m_framework != nullptr; }
    Result<void> map_by_framework(void *address, std::size_t length);
    Result<void> unmap_by_framework(void *address);

    // ---- counted, for tests and reports
    std::uint64_t submissions() const { return m_submissions.load(std::memory_order_relaxed); }
    bool uses_words() const { return m_words_hold; }
    /// Submissions that were given up although the card may still run them. What they touch is never unmapped.
    unsigned abandoned() const { return m_abandoned.load(std::memory_order_relaxed); }

private:
    static constexpr unsigned kBatches = 64;
    static constexpr unsigned kPackets = 64;          // per batch
    static constexpr std::uint64_t kWindow = 48;      // the driver takes 64
    static constexpr std::size_t kBufferBytes = 2048; // one batch's packets
    static constexpr std::size_t kWordBytes = 4096;   // all words, a cache line each
    static constexpr std::size_t kWordStride = 64;
    // Batches that a stream of large copies has under way: one at work, the others ready.
    static constexpr unsigned kBulkDepth = 4;
    static constexpr unsigned kEngines = 8;                                        // for copies within a card, at most
    static constexpr std::uint64_t kLeastMapped = 16 << 10, kMostStaged = 1 << 20; // whatever is measured

    struct Batch {
        unsigned slot = 0;
        unsigned packets = 0;
        unsigned parts = 0;
        bool flush = false;
        std::uint32_t value = 0; // what the word shows when it has run
        std::uint64_t bytes = 0;
        std::uint64_t sequence = 0;
        std::uint64_t sent_ns = 0;
        Batch *next = nullptr;
        std::array<Transfer *, kPackets> transfers{};

        // Neighbours share a packet, so either may run out first.
        bool full() const { return packets == kPackets || parts == kPackets; }
    };
    struct Stream {
        std::uint32_t queue = 0;
        unsigned word = 0; // its place among the words
        std::uint32_t next_value = 1;
        unsigned depth = 0; // batches that are sent
        unsigned looks = 0; // at a word that was not there yet
        Batch *open = nullptr;
        Batch *oldest = nullptr, *newest = nullptr; // sent
    };
    struct Lane {
        bool bulk = false;
        unsigned count = 1; // of streams
        unsigned turn = 0;  // the stream that takes the next batch
        unsigned sent = 0;  // batches, on all streams
        std::array<Stream, kEngines> streams;
        Transfer *first = nullptr; // not yet, or not wholly, in a batch
        Transfer *last = nullptr;
    };

    struct Trial;

    Copier(Card &card, const thunk::Device &device);
    Result<void> set_up();
    Result<void> make_ring();
    Result<void> try_out(bool words);
    bool try_all(Channel &channel, Trial &trial);
    bool try_copy(Channel &channel, Direction direction, std::uint64_t source, std::uint64_t destination,
                  std::size_t length);

    void set_up_lanes();
    Lane &lane_of(Direction direction, std::uint64_t length);
    void pump(Lane &lane);
    void emit(Lane &lane, Stream &stream);
    void add(Batch &batch, Transfer &transfer, std::uint64_t piece);
    bool send(Lane &lane, Stream &stream);
    Result<std::uint64_t> send_by_driver(Stream &stream, Batch &batch);
    Result<std::uint64_t> send_by_framework(const Lane &lane, const Batch &batch);
    bool will_pass(int code);
    bool operational() const;
    bool refuse_batch(Lane &lane, Stream &stream, const Error &error);
    void collect(Lane &lane);
    void collect(Lane &lane, Stream &stream);
    bool ended(Stream &stream, const Batch &batch);
    void wait_failed(const Error &error);
    Batch &take_oldest(Lane &lane, Stream &stream);
    void complete(Batch &batch, int error);
    void refuse(const Error &error);
    void abandon(Transfer &transfer);
    void end_sent(bool abandoned);
    void lose(const Error &error);
    void end_waiting();
    std::uint64_t oldest_sequence() const;
    std::atomic<std::uint32_t> &word(const Stream &stream);
    char *buffer(const Batch &batch) const;
    void watch_loop();
    static std::uint64_t now_ns() {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
    }

    Card &m_card;
    thunk::Device m_device;
    std::mutex m_mutex;
    std::atomic<bool> m_failed{false};
    mutable std::mutex m_failure_mutex;
    std::string m_failure;
    LastProblem m_problem;

    void *m_ring = nullptr; // words, then command buffers
    thunk::Mapping m_ring_map;
    std::unique_ptr<FrameworkStream> m_framework;
    const unsigned m_forks = forks(); // a forked child has neither the ring nor who holds the mutex
    bool m_words_hold = false, m_proven = false;
    std::uint32_t m_flags = 0; // of submissions
    std::uint64_t m_worth_mapping = kLeastMapped;
    std::array<Batch, kBatches> m_batches;
    Batch *m_free = nullptr;
    std::array<Lane, 2 * kDirections> m_lanes; // for each direction small copies, then large ones
    std::size_t m_first_lane = 0;
    std::uint64_t m_last_sequence = 0;
    std::uint64_t m_refused_ns = 0;      // since when no submission has been taken
    std::uint64_t m_last_refusal_ns = 0; // and when the last one was refused
    std::uint64_t m_unanswered_ns = 0;   // since when the driver has not said what has ended
    std::uint64_t m_drained_by_ns = 0;   // when submissions that it will not tell of are given up; 0: it tells
    std::atomic<unsigned> m_abandoned{0};
    std::atomic<std::uint64_t> m_posted{0};
    std::atomic<std::uint64_t> m_submissions{0};

    std::mutex m_watch_mutex;
    std::atomic<std::uint32_t> m_watch_wanted{0};
    bool m_watching = false;
};

} // namespace gaudi
