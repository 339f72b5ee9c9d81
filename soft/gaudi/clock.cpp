// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softgaudi {
namespace {

// A host that polls a word in memory makes no calls; after this long without one it is taken to be waiting.
constexpr uint64_t kQuietNs = 20'000'000;

bool alive(int32_t pid) {
    return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

} // namespace

class Clock::Guard {
public:
    explicit Guard(ClockState &state) : m_state(state) { (void)m_state.mutex.lock(); }
    ~Guard() { m_state.mutex.unlock(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    ClockState &m_state;
};

ClockState::Process *Clock::own_entry() {
    const int32_t pid = getpid();
    ClockState::Process *empty = nullptr;
    for (auto &process : m_state->processes) {
        if (process.pid == pid)
            return &process;
        if (!empty && (process.pid == 0 || !alive(process.pid)))
            empty = &process;
    }
    if (!empty)
        empty = &m_state->processes.back();
    *empty = {pid, 0};
    return empty;
}

bool Clock::at_rest() {
    return std::none_of(m_state->processes.begin(), m_state->processes.end(),
                        [](const auto &process) { return process.running != 0 && alive(process.pid); });
}

uint64_t Clock::next_wake() {
    uint64_t earliest = kForever;
    for (auto &sleeper : m_state->sleepers) {
        if (sleeper.wake == 0)
            continue;
        if (!alive(sleeper.pid))
            sleeper = {};
        else
            earliest = std::min(earliest, sleeper.wake);
    }
    return earliest;
}

void Clock::move_to(uint64_t when) {
    if (when > m_state->now.load(std::memory_order_relaxed))
        m_state->now.store(when, std::memory_order_release);
    // Whoever is due now counts as running from here on, before it has even woken.
    for (auto &sleeper : m_state->sleepers) {
        if (sleeper.wake == 0 || sleeper.wake > when)
            continue;
        for (auto &process : m_state->processes)
            if (process.pid == sleeper.pid)
                ++process.running;
        sleeper = {};
    }
    m_state->changed.signal();
}

void Clock::job_begins() {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    ++own_entry()->running;
}

void Clock::job_ends() {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    --own_entry()->running;
    m_state->changed.signal();
}

void Clock::sleep_until(uint64_t when, const Event &wake, const std::function<bool()> &cancelled) {
    if (!m_state) {
        while (monotonic_ns() < when && !cancelled()) {
            const uint32_t seen = wake.seen();
            if (!cancelled())
                wake.wait(seen, when);
        }
        return;
    }
    size_t slot = 0;
    {
        const Guard guard(*m_state);
        if (when <= now())
            return;
        const auto entry = std::find_if(m_state->sleepers.begin(), m_state->sleepers.end(),
                                        [](const auto &sleeper) { return sleeper.wake == 0; });
        if (entry == m_state->sleepers.end())
            return; // more streams than a card has: not reachable
        slot = static_cast<size_t>(entry - m_state->sleepers.begin());
        *entry = {getpid(), when};
        --own_entry()->running;
        m_state->changed.signal();
    }
    while (true) {
        const uint64_t activity = m_state->activity.load(std::memory_order_relaxed);
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state);
            if (now() >= when)
                return; // move_to counted this stream as running again
            if (cancelled()) {
                m_state->sleepers.at(slot) = {};
                ++own_entry()->running;
                return;
            }
        }
        const uint64_t deadline = monotonic_ns() + kQuietNs;
        m_state->changed.wait(seen, deadline);
        if (monotonic_ns() < deadline)
            continue;
        const Guard guard(*m_state);
        if (m_state->activity.load(std::memory_order_relaxed) == activity && at_rest()) {
            if (const uint64_t next = next_wake(); next != kForever)
                move_to(next);
        }
    }
}

uint32_t Clock::park(unsigned card) {
    if (!m_state)
        return 0;
    const Guard guard(*m_state);
    --own_entry()->running;
    ++m_state->parked.at(card);
    m_state->changed.signal();
    return m_state->generation.at(card);
}

void Clock::resume(unsigned card, uint32_t generation) {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    if (m_state->generation.at(card) != generation)
        return; // wake_parked already counted it
    --m_state->parked.at(card);
    ++own_entry()->running;
}

void Clock::wake_parked(unsigned card) {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    // Only streams of this process are parked on its own fences in practice; all are counted to be safe.
    own_entry()->running += m_state->parked.at(card);
    m_state->parked.at(card) = 0;
    ++m_state->generation.at(card);
}

void Clock::host_called() {
    if (m_state)
        m_state->activity.fetch_add(1, std::memory_order_relaxed);
}

void Clock::settle() {
    if (!m_state)
        return;
    while (true) {
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state);
            if (at_rest())
                return;
        }
        m_state->changed.wait(seen, monotonic_ns() + kQuietNs);
    }
}

bool Clock::advance(uint64_t limit) {
    if (!m_state)
        return false;
    settle();
    bool moved = false;
    {
        const Guard guard(*m_state);
        const uint64_t next = next_wake();
        moved = next != kForever && next <= limit;
        if (moved)
            move_to(next);
    }
    if (moved)
        settle();
    return moved;
}

void Clock::host_pause(uint64_t ns) {
    if (ns == 0)
        return;
    if (!m_state) {
        const uint64_t until = monotonic_ns() + ns;
        while (monotonic_ns() < until) {
        }
        return;
    }
    const uint64_t until = now() + ns;
    while (advance(until)) {
    }
    const Guard guard(*m_state);
    move_to(until);
}

} // namespace softgaudi
