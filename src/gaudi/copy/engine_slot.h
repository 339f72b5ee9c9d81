// SPDX-License-Identifier: BSD-3-Clause
// The engine of a session: chosen among the back ends and started at the first copy.
#pragma once

#include "engine.h"

#include <atomic>
#include <memory>

namespace gaudi {

class EngineSlot : public SessionPart {
public:
    static constexpr PartKind kKind = PartKind::engine;

    explicit EngineSlot(Session &session) : m_session(session) {}

    /// The engine, if it was started. The pointer is valid for a caller that holds a share of the engine.
    Engine *started() const { return m_started.load(std::memory_order_acquire); }
    /// The same with a share of it.
    std::shared_ptr<Engine> find() const;
    /// The engine, started at the first call: the first back end that serves the card, else a NoEngine with the reason. An
    /// error is one that may be over at the next call.
    Result<std::shared_ptr<Engine>> start();

    void stop(const Error &why) override;
    void release() override;
    void progress() override;

private:
    Session &m_session;
    os::Mutex m_start_mutex{rank::kEngineStart}; // one thread starts an engine
    mutable os::Mutex m_mutex{rank::kEnginePointer};
    std::shared_ptr<Engine> m_engine GAUDI_GUARDED_BY(m_mutex);
    std::atomic<Engine *> m_started{nullptr};
    std::atomic<bool> m_calls_framework{false}; // while start() is in a call to the framework
    std::shared_ptr<Engine> m_stopped;          // used by the thread that ends the session only
};

/// Whether a back end may serve the card, in its current session or the next.
bool has_copy_path(Card &card);

} // namespace gaudi
