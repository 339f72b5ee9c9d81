// SPDX-License-Identifier: BSD-3-Clause
// The engine of a Gaudi2: LIN_DMA packets in a ring of command buffers, sent by command submission. Each direction has two
// lanes, so that small copies do not wait behind large ones, and a lane has one or more streams, each a queue of the card:
// large copies within a card are divided among its DMA engines. A copy is sent at once when its stream is idle; else it
// joins the open batch, which is sent when it is full, at the next progress, or at a flush. The queue writes a completion
// flag to host memory after its copies, so that polling makes no system call.
#pragma once

#include "engine.h"
#include "gaudi/card/forks.h"
#include "thunk/owners.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace gaudi {

class CsEngine final : public Engine {
public:
    static Result<std::shared_ptr<Engine>> start(Session &session);
    ~CsEngine() override;

    const char *name() const override { return "cs"; }
    void post(Direction direction, Transfer &transfer) override;
    void post_all(Direction direction, Transfer &first) override;
    void progress() override;
    void wait() override;
    void settle() override;
    /// Copies that were not sent fail. Those in flight have 5 s to end; then they fail too, abandoned: the card may still
    /// run them, so memory that they use is never unmapped.
    void stop(const Error &why) override;
    void release() override;

    /// Whether the end of a copy is read from the completion flag, and not by hlthunk_wait_for_cs.
    bool uses_completion_flags() const { return m_use_flags.load(std::memory_order_relaxed); }

private:
    static constexpr unsigned kBatches = 64;
    static constexpr unsigned kPackets = 64;          // per batch
    static constexpr std::uint64_t kSubmissions = 48; // in flight; the driver takes 64
    static constexpr std::size_t kBufferBytes = 2048; // the packets of one batch
    static constexpr std::size_t kFlagBytes = 4096;   // all completion flags, a cache line each
    static constexpr std::size_t kFlagStride = 64;
    static constexpr std::size_t kRingBytes = kFlagBytes + kBatches * kBufferBytes;
    static constexpr unsigned kBulkDepth = 4;             // batches in flight of a stream of large copies: one runs
    static constexpr unsigned kDmaEngines = 8;            // for copies within a card, at most
    static constexpr std::uint64_t kMostStaged = 1 << 20; // bytes, whatever is measured

    struct Batch {
        unsigned slot = 0;
        unsigned packets = 0;
        unsigned parts = 0;
        bool flush = false;
        std::uint32_t value = 0; // of the completion flag when the batch has run
        std::uint64_t bytes = 0;
        std::uint64_t sequence = 0;
        std::uint64_t sent_ns = 0;
        Batch *next = nullptr;
        std::array<Transfer *, kPackets> transfers{};

        // Neighbouring copies share a packet, so either limit may be reached first.
        bool full() const { return packets == kPackets || parts == kPackets; }
    };
    struct Stream {
        std::uint32_t queue = 0;
        unsigned flag = 0; // the place of its completion flag
        std::uint32_t next_value = 1;
        unsigned depth = 0; // batches in flight
        unsigned polls = 0; // of a flag that was not set yet
        Batch *open = nullptr;
        Batch *oldest = nullptr, *newest = nullptr; // in flight
    };
    struct Lane {
        bool bulk = false;
        unsigned count = 1; // of streams
        unsigned turn = 0;  // the stream that takes the next batch
        unsigned sent = 0;  // batches in flight, on all streams
        std::array<Stream, kDmaEngines> streams;
        Transfer *first = nullptr; // not yet, or not wholly, in a batch
        Transfer *last = nullptr;
    };
    struct SelfTest;

    explicit CsEngine(Session &session);
    Result<void> set_up();
    void set_up_lanes() GAUDI_REQUIRES(m_mutex);

    static bool trusts_completion_flags(const Card &card);

    // ---- the self-test
    Result<void> test_card(bool flags);
    Failure test_all(Channel &channel, SelfTest &test);
    Failure test_copy(Channel &channel, Direction direction, std::uint64_t source, std::uint64_t destination,
                      std::size_t length);
    unsigned dma_engines();
    void set_submit_flags(std::uint32_t flags);

    // ---- submission
    Lane &lane_of(Direction direction, std::uint64_t length) GAUDI_REQUIRES(m_mutex);
    void pump(Lane &lane) GAUDI_REQUIRES(m_mutex);
    void emit(Lane &lane, Stream &stream) GAUDI_REQUIRES(m_mutex);
    void add(Batch &batch, Transfer &transfer, std::uint64_t piece) GAUDI_REQUIRES(m_mutex);
    bool send(Lane &lane, Stream &stream) GAUDI_REQUIRES(m_mutex);
    Result<std::uint64_t> submit(Stream &stream, Batch &batch) GAUDI_REQUIRES(m_mutex);
    bool refuse_batch(Lane &lane, Stream &stream, const Error &error) GAUDI_REQUIRES(m_mutex);
    std::uint64_t oldest_sequence() const GAUDI_REQUIRES(m_mutex);
    char *buffer(const Batch &batch) const;

    // ---- completion
    void collect(Lane &lane) GAUDI_REQUIRES(m_mutex);
    void collect(Lane &lane, Stream &stream) GAUDI_REQUIRES(m_mutex);
    bool has_ended(Stream &stream, const Batch &batch) GAUDI_REQUIRES(m_mutex);
    void handle_failed_wait(const Error &error) GAUDI_REQUIRES(m_mutex);
    Batch &take_oldest(Lane &lane, Stream &stream) GAUDI_REQUIRES(m_mutex);
    void complete(Batch &batch, const Failure &failure) GAUDI_REQUIRES(m_mutex);
    void refuse(const Error &error) GAUDI_REQUIRES(m_mutex);
    void abandon(Transfer &transfer) GAUDI_REQUIRES(m_mutex);
    bool is_flag_set(const Stream &stream, const Batch &batch) const;
    bool is_over(const Stream &stream, const Batch &batch) const GAUDI_REQUIRES(m_mutex);
    void end_sent() GAUDI_REQUIRES(m_mutex);
    void fail_all(const Error &error) GAUDI_REQUIRES(m_mutex);
    void end_waiting() GAUDI_REQUIRES(m_mutex);
    std::atomic<std::uint32_t> &completion_flag(const Stream &stream) const;

    const thunk::Device m_device;
    const unsigned m_fork = fork_count(); // a forked child has neither the ring nor its mapping
    void *m_ring = nullptr;               // completion flags, then command buffers
    thunk::Mapping m_ring_map;
    std::atomic<bool> m_use_flags{false};

    os::Mutex m_mutex{rank::kEngine};
    std::uint32_t m_submit_flags GAUDI_GUARDED_BY(m_mutex) = 0;
    std::array<Batch, kBatches> m_batches GAUDI_GUARDED_BY(m_mutex);
    Batch *m_free GAUDI_GUARDED_BY(m_mutex) = nullptr;
    // For each direction small copies, then large ones.
    std::array<Lane, 2 * kDirections> m_lanes GAUDI_GUARDED_BY(m_mutex);
    std::size_t m_first_lane GAUDI_GUARDED_BY(m_mutex) = 0;
    std::uint64_t m_last_sequence GAUDI_GUARDED_BY(m_mutex) = 0;
    Shortage m_shortage GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_unanswered_ns GAUDI_GUARDED_BY(m_mutex) = 0; // time of the first wait without an answer
    // The time when submissions are abandoned, because the driver does not report their state; 0: it does.
    std::uint64_t m_drained_by_ns GAUDI_GUARDED_BY(m_mutex) = 0;
};

} // namespace gaudi
