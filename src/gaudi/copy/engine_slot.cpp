// SPDX-License-Identifier: BSD-3-Clause
#include "engine_slot.h"

#include "engine_factory.h"
#include "gaudi/card/cards.h"
#include "gaudi/card/forks.h"
#include "no_engine.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

namespace gaudi {
namespace {

constexpr auto kBusy = std::chrono::milliseconds(200); // that a call to a framework may take

/// A card that is closed with copies under way gets a hard reset, so at exit they are waited for, bounded.
void flush_at_exit() {
    constexpr unsigned kLimitMs = 5000;
    static std::once_flag once;
    static std::atomic<unsigned> s_fork;
    s_fork.store(fork_count(), std::memory_order_relaxed);
    std::call_once(once, [] {
        std::atexit([] {
            if (s_fork.load(std::memory_order_relaxed) != fork_count()) // a child that has started no engine
                return;
            const auto cards = Cards::get();
            if (!cards)
                return;
            for (const auto &card : (*cards)->all()) {
                const Session *session = card->session();
                const EngineSlot *slot = session ? session->find<EngineSlot>() : nullptr;
                if (const auto engine = slot ? slot->find() : nullptr)
                    engine->flush(kLimitMs);
            }
        });
    });
}

} // namespace

Result<std::shared_ptr<Engine>> EngineSlot::start() {
    if (!m_session
             .usable()) // before the lock: a caller that tries again and again must not keep the session from ending
        return tl::unexpected(m_session.why_unusable());
    const os::MutexLock starting(m_start_mutex);
    std::shared_ptr<Engine> engine = find();
    if (engine)
        return engine;
    std::optional<Error>
        refusal; // that of the first back end says most about the card, unless another may succeed later
    for (const BackEnd &back_end : back_ends()) {
        m_calls_framework.store(back_end.calls_framework);
        auto started = back_end.start(m_session);
        m_calls_framework.store(false);
        if (started) {
            engine = std::move(*started);
            break;
        }
        if (!refusal || (refusal->code == ENOTSUP && started.error().code != ENOTSUP))
            refusal = started.error();
    }
    if (!engine && refusal->code != ENOTSUP)
        return tl::unexpected(*refusal);
    if (!engine)
        engine = std::make_shared<NoEngine>(m_session, *refusal);
    if (!m_session.usable()) {
        engine->stop(m_session.why_unusable());
        return tl::unexpected(m_session.why_unusable());
    }
    flush_at_exit();
    const os::MutexLock lock(m_mutex);
    m_engine = engine;
    m_started.store(engine.get(), std::memory_order_release);
    return engine;
}

void EngineSlot::stop(const Error &why) {
    // The holder of the lock may be blocked inside a framework call that waits for this thread: after a while it is left
    // alone, because start() stops its engine when it sees that the session is not usable.
    const auto limit = std::chrono::steady_clock::now() + kBusy;
    while (!m_start_mutex.try_lock()) {
        if (m_calls_framework.load() && std::chrono::steady_clock::now() > limit)
            return;
        std::this_thread::yield();
    }
    m_start_mutex.unlock();
    {
        const os::MutexLock lock(m_mutex);
        m_started.store(nullptr, std::memory_order_release);
        m_stopped = std::move(m_engine);
    }
    if (m_stopped)
        m_stopped->stop(why);
}

void EngineSlot::release() {
    if (const auto engine = std::exchange(m_stopped, nullptr))
        engine->release();
}

std::shared_ptr<Engine> EngineSlot::find() const {
    const os::MutexLock lock(m_mutex);
    return m_engine;
}

void EngineSlot::progress() {
    if (started() && !m_session.inherited())
        if (const auto engine = find())
            engine->progress();
}

bool has_copy_path(Card &card) {
    return std::any_of(back_ends().begin(), back_ends().end(),
                       [&](const BackEnd &back_end) { return back_end.may_serve(card); });
}

} // namespace gaudi
