// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"

#include "store.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <tuple>

namespace softgaudi {
namespace {

// A host that polls memory makes no calls: after this much of its CPU time without a call it counts as waiting. The
// second limit, of real time, is for a host that sleeps between polls.
constexpr uint64_t kQuietCpuNs = 5'000'000;
constexpr uint64_t kQuietNs = 250'000'000;
constexpr uint64_t kCheckNs = 1'000'000; // between two checks of these limits

uint64_t cpu_ns() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(used.tv_nsec);
}

bool is_alive(int32_t pid) { return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH); }

} // namespace

ClockState *map_clock(const std::string &dir) {
    return static_cast<ClockState *>(map_shared(dir + "/clock", sizeof(ClockState), [](void *memory) {
        auto *fresh = static_cast<ClockState *>(memory);
        fresh->mutex.init();
        fresh->now.store(ClockState::kBegin);
        fresh->magic.store(ClockState::kMagic);
    }));
}

class GAUDI_SCOPED_CAPABILITY Clock::Guard {
public:
    explicit Guard(ClockState &state) GAUDI_ACQUIRE(state.mutex) : m_state(state) { (void)m_state.mutex.lock(); }
    ~Guard() GAUDI_RELEASE() { m_state.mutex.unlock(); }
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
        if (!empty && (process.pid == 0 || !is_alive(process.pid)))
            empty = &process;
    }
    if (!empty)
        empty = &m_state->processes.back();
    *empty = {pid, 0};
    return empty;
}

bool Clock::is_idle() {
    return std::none_of(m_state->processes.begin(), m_state->processes.end(),
                        [](const auto &process) { return process.running != 0 && is_alive(process.pid); });
}

ClockState::Sleeper *Clock::next_sleeper() {
    ClockState::Sleeper *first = nullptr;
    for (auto &sleeper : m_state->sleepers) {
        if (sleeper.ticket == 0)
            continue;
        if (!is_alive(sleeper.pid))
            sleeper = {};
        else if (!first || std::tie(sleeper.wake, sleeper.order) < std::tie(first->wake, first->order))
            first = &sleeper;
    }
    return first;
}

/// Wakes the next stream that is due, if no other runs. The stream counts as running from now on, not from when its
/// thread wakes.
void Clock::wake_next_due() {
    if (!is_idle())
        return;
    ClockState::Sleeper *next = next_sleeper();
    if (!next || next->wake > now())
        return;
    for (auto &process : m_state->processes)
        if (process.pid == next->pid)
            ++process.running;
    *next = {};
    m_state->changed.signal();
}

void Clock::move_to(uint64_t when) {
    if (when > now())
        m_state->now.store(when, std::memory_order_release);
    wake_next_due();
    m_state->changed.signal();
}

/// Marks one stream of this process as not running.
void Clock::stop_stream() {
    --own_entry()->running;
    wake_next_due();
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
    stop_stream();
}

void Clock::sleep_until(uint64_t when, uint64_t order, const Event &wake, const std::function<bool()> &cancelled) {
    if (!m_state) {
        while (monotonic_ns() < when && !cancelled()) {
            const uint32_t seen = wake.seen();
            if (!cancelled())
                wake.wait(seen, when);
        }
        return;
    }
    size_t slot = 0;
    uint64_t ticket = 0;
    {
        const Guard guard(*m_state);
        const auto entry = std::find_if(m_state->sleepers.begin(), m_state->sleepers.end(),
                                        [](const auto &sleeper) { return sleeper.ticket == 0; });
        if (entry == m_state->sleepers.end())
            return; // more streams than any program uses
        slot = static_cast<size_t>(entry - m_state->sleepers.begin());
        ticket = ++m_state->tickets;
        *entry = {getpid(), std::max(when, now()), order, ticket};
        stop_stream();
    }
    uint64_t activity = 0, quiet_cpu = 0, quiet = 0;
    bool fresh = true;
    while (true) {
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state);
            if (m_state->sleepers.at(slot).ticket != ticket)
                return; // wake_next_due already counts this stream as running
            if (cancelled()) {
                m_state->sleepers.at(slot) = {};
                ++own_entry()->running;
                return;
            }
        }
        if (fresh) {
            activity = m_state->activity.load(std::memory_order_relaxed);
            quiet_cpu = cpu_ns() + kQuietCpuNs;
            quiet = monotonic_ns() + kQuietNs;
        }
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs);
        fresh = m_state->changed.seen() != seen || m_state->activity.load(std::memory_order_relaxed) != activity;
        if (fresh || (cpu_ns() < quiet_cpu && monotonic_ns() < quiet))
            continue;
        const Guard guard(*m_state);
        if (is_idle()) {
            if (const ClockState::Sleeper *next = next_sleeper())
                move_to(next->wake);
        }
        fresh = true;
    }
}

uint32_t Clock::park(unsigned card) {
    if (!m_state)
        return 0;
    const Guard guard(*m_state);
    ++m_state->parked.at(card);
    stop_stream();
    return m_state->generation.at(card);
}

void Clock::resume(unsigned card, uint32_t generation) {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    if (m_state->generation.at(card) != generation)
        return; // wake_parked already counts it
    --m_state->parked.at(card);
    ++own_entry()->running;
}

void Clock::wake_parked(unsigned card) {
    if (!m_state)
        return;
    const Guard guard(*m_state);
    // Counts all parked streams as this process's; in practice they are.
    own_entry()->running += m_state->parked.at(card);
    m_state->parked.at(card) = 0;
    ++m_state->generation.at(card);
    m_state->changed.signal(); // sleeping streams check whether they are cancelled
}

void Clock::count_host_call() {
    if (m_state)
        m_state->activity.fetch_add(1, std::memory_order_relaxed);
}

void Clock::wait_until_idle() {
    if (!m_state)
        return;
    while (true) {
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state);
            wake_next_due();
            if (is_idle())
                return;
        }
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs);
    }
}

bool Clock::advance(uint64_t limit) {
    if (!m_state)
        return false;
    for (bool moved = false; !moved;) {
        wait_until_idle();
        const Guard guard(*m_state);
        if (!is_idle())
            continue; // another thread or process moved the clock
        const ClockState::Sleeper *next = next_sleeper();
        if (!next || next->wake > limit)
            return false;
        move_to(next->wake);
        moved = true;
    }
    wait_until_idle();
    return true;
}

void Clock::spend_host_time(uint64_t ns) {
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
