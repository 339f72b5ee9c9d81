// SPDX-License-Identifier: BSD-3-Clause
// Closes cards that their driver resets. The driver kills a process that keeps such a card open, and a program may compute
// for minutes without a call to UCX: so it is UCX's own thread for asynchronous events that waits for the driver's
// notification. One per Host. UCX knows one descriptor only, an epoll set of the sessions' eventfds, from the first session to
// the end of the process: UCX joins its thread when the last descriptor is removed, and that thread may be in the callback
// here, waiting for a lock of the caller.
#pragma once

#include "gaudi/card/card.h"
#include "thunk/fd.h"
#include "ucx/host.h"

#include <atomic>

namespace gaudi::uct {

class CardEvents {
public:
    explicit CardEvents(const ucx::Host &host) : m_host(host) {}
    CardEvents(const CardEvents &) = delete;
    CardEvents &operator=(const CardEvents &) = delete;

    /// From now on the card is closed when its driver reports a reset. A second call for a session changes nothing.
    Result<void> watch(const Session &session);
    void unwatch(const Session &session);

private:
    Result<void> start() GAUDI_REQUIRES(m_mutex);
    void stop();
    void handle();

    const ucx::Host &m_host;
    os::Mutex m_mutex{rank::kWatchedSessions};
    thunk::Fd m_set GAUDI_GUARDED_BY(m_mutex);
    std::atomic<unsigned> m_fork{0}; // a forked child shares the set with its parent
    std::atomic<int> m_set_number{-1};
    CardEvents *m_next = nullptr; // of all that have started

    static std::atomic<CardEvents *> s_started;
};

} // namespace gaudi::uct
