// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

#include "gaudi/card/card.h"
#include "os/format.h"

#include <pthread.h>

#include <cerrno>
#include <thread>

namespace gaudi {

bool Engine::Shortage::may_end(int code) {
    constexpr std::uint64_t kLimitNs = 5'000'000'000;
    if (code != EAGAIN && code != EINTR && code != ENOMEM)
        return false;
    const std::uint64_t now = now_ns();
    if (m_since_ns == 0 || now - m_last_ns > kLimitNs) // an earlier shortage has ended since
        m_since_ns = now;
    m_last_ns = now;
    return now - m_since_ns < kLimitNs;
}

bool Engine::is_operational() const {
    // A card that the driver is about to reset still calls itself operational.
    return !m_session.check_events() && m_session.is_operational();
}

Failure Engine::failure() const {
    const os::MutexLock lock(m_failure_mutex);
    return m_failure;
}

void Engine::set_failed(const Error &error) {
    if (failed())
        return;
    Error why = error;
    if (m_session.was_reset())
        why.text += "; the card was reset";
    const Failure of_copies = make_copy_failure(why);
    const os::MutexLock lock(m_failure_mutex);
    m_failure = std::make_shared<const Error>(std::move(why));
    m_copy_failure = of_copies;
    m_failed.store(true, std::memory_order_release);
}

Failure Engine::copy_failure() const {
    const os::MutexLock lock(m_failure_mutex);
    return m_copy_failure;
}

Failure Engine::make_copy_failure(const Error &error) const {
    return std::make_shared<const Error>(
        Error{error.code == ENOTSUP ? ENOTSUP : EIO, error.call,
              os::format("card {}: a copy failed: {}", m_session.card().bus_id(), error.text)});
}

void Engine::post_all(Direction direction, Transfer &first) {
    for (Transfer *transfer = &first; transfer;) {
        Transfer *next = transfer->next; // it may end at once
        post(direction, *transfer);
        transfer = next;
    }
}

bool Engine::flush(unsigned limit_ms) {
    const std::uint64_t limit = now_ns() + std::uint64_t{limit_ms} * 1'000'000;
    while (busy() && now_ns() < limit)
        progress();
    return !busy();
}

// ---- waiting without polling ----------------------------------------------------------------------------------------

void Engine::arm() {
    m_armed.fetch_add(1, std::memory_order_release);
    m_armed.notify_all();
    const os::MutexLock lock(m_watch_mutex);
    if (m_watched)
        return;
    std::thread waiter([self = shared_from_this()] { self->watch(); });
    m_watched = true;
    pthread_setname_np(waiter.native_handle(), "gaudi-wait");
    waiter.detach(); // it owns a share of the engine and ends with the session
}

void Engine::watch() {
    std::uint32_t seen = 0;
    while (true) {
        const std::uint32_t armed = m_armed.load(std::memory_order_acquire);
        if (armed == seen) {
            if (m_ended.load(std::memory_order_acquire))
                return;
            m_armed.wait(seen, std::memory_order_acquire);
            continue;
        }
        seen = armed;
        while (busy()) {
            progress();
            wait();
        }
    }
}

void Engine::end_watch() {
    m_ended.store(true, std::memory_order_release);
    m_armed.fetch_add(1, std::memory_order_release);
    m_armed.notify_all();
}

} // namespace gaudi
