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
    /// Whether SynapseAI holds the card and has the functions that SynapseStream needs.
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
    Result<std::uint64_t> start_copies(std::size_t count) GAUDI_REQUIRES(m_mutex);
    void collect() GAUDI_REQUIRES(m_mutex);
    void end(Transfer &transfer, const Failure &failure) GAUDI_REQUIRES(m_mutex);
    void fail_all(const Error &error) GAUDI_REQUIRES(m_mutex);

    const std::shared_ptr<SynapseStream> m_stream; // shared with the mapper of host memory
    os::Mutex m_mutex{rank::kEngine};
    std::deque<Copy> m_waiting GAUDI_GUARDED_BY(m_mutex);
    std::deque<Batch> m_batches GAUDI_GUARDED_BY(m_mutex); // in flight, the oldest first
    Shortage m_shortage GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
