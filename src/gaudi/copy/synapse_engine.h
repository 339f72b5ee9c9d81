// SPDX-License-Identifier: BSD-3-Clause
// The engine of a card that SynapseAI holds and on which this library may not submit: SynapseAI's own copy call. All calls
// but those that map host memory are made with the engine's lock held.
#pragma once

#include "engine.h"
#include "gaudi/framework/synapse_stream.h"

#include <deque>
#include <memory>

namespace gaudi {

class SynapseEngine final : public Engine {
public:
    static Result<std::shared_ptr<Engine>> start(Session &session);
    /// Whether SynapseAI is loaded and has the functions that SynapseStream needs: it may hold the card now or later.
    static bool may_serve(Card &card);

    const char *name() const override { return "synapse"; }
    void post(Direction direction, Transfer &transfer) override;
    void progress() override;
    void wait() override;
    void settle() override;
    /// From inside SynapseAI's own close: SynapseAI is not called any more, and a thread of this process that is in a call
    /// to it may wait for the close. So the engine's lock is only tried, for a bounded time; copies under way fail then at
    /// the next progress.
    void stop(const Error &why) override;
    void release() override {}

private:
    static constexpr std::size_t kMaxBatches = 8; // in flight
    static constexpr std::size_t kMaxCopies = 64; // per batch
    // Per batch, after which no copy is added: the ring in which copies are staged holds several batches, so that one is
    // drained while the next is copied.
    static constexpr std::uint64_t kMaxBytes = 1 << 20;

    struct Copy {
        Direction direction;
        Transfer *transfer;
    };
    struct Batch {
        std::uint64_t event;
        std::vector<Transfer *> transfers;
    };

    SynapseEngine(Session &session, std::shared_ptr<SynapseStream> stream);
    void send() GAUDI_REQUIRES(m_mutex);
    Result<void> flush_writes();
    bool fails_alone(const Error &refusal) const;
    bool start_copies() GAUDI_REQUIRES(m_mutex);
    bool close_batch() GAUDI_REQUIRES(m_mutex);
    void collect() GAUDI_REQUIRES(m_mutex);
    void end(Transfer &transfer, const Failure &failure) GAUDI_REQUIRES(m_mutex);
    void abandon_batches() GAUDI_REQUIRES(m_mutex);
    void fail_all(const Error &error) GAUDI_REQUIRES(m_mutex);

    const std::shared_ptr<SynapseStream> m_stream; // shared with the mapper of host memory
    os::Mutex m_mutex{rank::kEngine};
    std::deque<Copy> m_waiting GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_waiting_bytes GAUDI_GUARDED_BY(m_mutex) = 0;
    std::vector<Transfer *> m_started GAUDI_GUARDED_BY(m_mutex); // the next batch, without its event yet
    std::deque<Batch> m_batches GAUDI_GUARDED_BY(m_mutex);       // in flight, the oldest first
    Shortage m_shortage GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
