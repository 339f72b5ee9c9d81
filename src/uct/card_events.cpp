// SPDX-License-Identifier: BSD-3-Clause
#include "card_events.h"

#include "gaudi/card/forks.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace gaudi::uct {

using ucx::Functions;
using ucx::ucs_event_set_types_t;
using ucx::ucs_status_t;

std::atomic<CardEvents *> CardEvents::s_started{nullptr};

Result<void> CardEvents::watch(const Session &session) {
    const int eventfd = session.event_descriptor();
    if (eventfd < 0)
        return tl::unexpected(Error{ENOTSUP, "watch", session.why_no_events()});
    const os::MutexLock lock(m_mutex);
    if (!m_set || m_fork != fork_count())
        if (auto started = start(); !started)
            return started;
    // By edges: an event that this process cannot take must not keep UCX's thread busy.
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.ptr = &session.card();
    if (epoll_ctl(m_set.get(), EPOLL_CTL_ADD, eventfd, &event) != 0 && errno != EEXIST)
        return tl::unexpected(thunk::from_minus_one(errno, "epoll_ctl", "EPOLL_CTL_ADD"));
    return {};
}

void CardEvents::unwatch(const Session &session) {
    const os::MutexLock lock(m_mutex);
    if (m_set && m_fork == fork_count() && session.event_descriptor() >= 0)
        epoll_ctl(m_set.get(), EPOLL_CTL_DEL, session.event_descriptor(), nullptr);
}

Result<void> CardEvents::start() {
    const Functions &call = m_host.call();
    thunk::Fd set(epoll_create1(EPOLL_CLOEXEC));
    if (!set)
        return tl::unexpected(thunk::from_minus_one(errno, "epoll_create1"));
    const auto callback = [](int, ucs_event_set_types_t, void *self) { static_cast<CardEvents *>(self)->handle(); };
    m_set_number.store(set.get(), std::memory_order_release); // before the first callback
    const ucs_status_t status = call.ucs_async_set_event_handler(ucx::UCS_ASYNC_MODE_THREAD_SPINLOCK, set.get(),
                                                                 ucx::UCS_EVENT_SET_EVREAD, callback, this, nullptr);
    if (status != ucx::UCS_OK)
        return tl::unexpected(
            thunk::make_error(EIO, "ucs_async_set_event_handler", {}, call.ucs_status_string(status)));
    const bool first = !m_set;
    m_set = std::move(set);
    m_fork = fork_count();
    if (!first)
        return {};
    m_next = s_started.load(std::memory_order_relaxed);
    while (!s_started.compare_exchange_weak(m_next, this, std::memory_order_release, std::memory_order_relaxed)) {
    }
    if (!m_next) // UCX warns of a thread that it has when it is unloaded
        std::atexit([] {
            for (CardEvents *each = s_started.load(std::memory_order_acquire); each; each = each->m_next)
                each->stop();
        });
    return {};
}

/// At exit: returns when no callback runs.
void CardEvents::stop() {
    if (m_fork == fork_count()) // else UCX would take the set from its parent
        m_host.call().ucs_async_remove_handler(m_set_number.load(std::memory_order_acquire), 1);
}

/// In UCX's thread, without a lock: sessions come and go meanwhile, cards stay.
void CardEvents::handle() {
    std::array<epoll_event, 8> events{};
    const int count =
        epoll_wait(m_set_number.load(std::memory_order_acquire), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        try {
            static_cast<Card *>(events[static_cast<std::size_t>(i)].data.ptr)->close_if_lost();
        } catch (...) { // memory was short: the next event or allocation tries again
        }
    }
}

} // namespace gaudi::uct
