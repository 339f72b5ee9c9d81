// SPDX-License-Identifier: BSD-3-Clause
// The model's time. Unpaced and real-paced cards use the machine's monotonic clock. The virtual clock advances from
// event to event, and only while the hosts of all processes wait and no part of the model has work; streams run one at a
// time, ordered by event time and then by submission. Modelled overlap is therefore the same on every machine. All cards
// and processes of one SOFTGAUDI_DIR share the clock.
#pragma once

#include "common/lock_ranks.h"
#include "model.h"
#include "shared.h"

#include <array>
#include <atomic>
#include <functional>
#include <string>

namespace softgaudi {

struct ClockState {
    static constexpr uint32_t kMagic = 0x434c4b34;
    static constexpr size_t kProcesses = 64;
    static constexpr size_t kSleepers = 1024;

    static constexpr uint64_t kBusy = UINT64_MAX;

    struct Process {
        int32_t pid;
        uint64_t image;             // differs between programs that had the same process id
        uint32_t running;           // queues that have work now
        uint32_t calls;             // host calls that do more than query,
        uint32_t acting;            // and those that have not returned
        std::atomic<uint32_t> news; // what the model did for this host to see: completions, stores, the end of a sleep
        std::atomic<uint32_t> locking; // threads that hold the clock's lock, or wait for it
        uint64_t waits;                // the host looked at all news up to this number and waits, or kBusy
        uint32_t quiet_calls,
            quiet_news; // when this host was first seen to have made so many calls and had so much news,
        uint64_t quiet_ns, quiet_cpu_ns;    // monotonic, and its processor time then
        std::atomic<uint64_t> model_cpu_ns; // processor time of the models' threads, which is not the host's
    };
    struct Sleeper {
        int32_t pid;
        uint64_t wake;
        uint64_t order;  // breaks ties between equal wake times
        uint64_t ticket; // 0 is a free entry
        bool is_host;    // a host, not a stream
    };
    static constexpr uint64_t kBegin = 1'000'000'000; // nonzero, because 0 means "no time"

    std::atomic<uint32_t> magic;
    RobustMutex<soft::Rank::clock> mutex;
    std::atomic<uint64_t> now;
    uint64_t tickets GAUDI_GUARDED_BY(mutex);
    uint64_t next_look_ns GAUDI_GUARDED_BY(mutex); // when to look at /proc again; monotonic
    Event changed;
    std::array<Process, kProcesses> processes GAUDI_GUARDED_BY(mutex);
    std::array<Sleeper, kSleepers> sleepers GAUDI_GUARDED_BY(mutex);
    std::array<uint32_t, kMaxCards> parked GAUDI_GUARDED_BY(mutex);     // streams waiting at a fence
    std::array<uint32_t, kMaxCards> generation GAUDI_GUARDED_BY(mutex); // incremented when the parked streams are woken
};

/// Maps the virtual clock of a directory, creating it if missing; null on failure (errno).
ClockState *map_clock(const std::string &dir);

class Clock {
public:
    /// `state` is null unless the clock is virtual. From now on the clock does not move before this process waits, too.
    explicit Clock(ClockState *state);

    bool is_virtual() const { return m_state != nullptr; }
    uint64_t now() const { return m_state ? m_state->now.load(std::memory_order_acquire) : monotonic_ns(); }

    // ---- for the device; all but sleep_until do nothing on a real clock
    void job_begins();
    void job_ends();
    /// Waits until the clock reaches `when` or `cancelled` returns true. The virtual clock runs one stream at a time;
    /// of those due at the same instant, the one with the lowest `order`.
    void sleep_until(uint64_t when, uint64_t order, const Event &wake, const std::function<bool()> &cancelled);
    /// Ends the sleep of this process's stream with this `order`, if it sleeps: it has work before its time, and counts as
    /// running from now on. `cancelled` must be true already.
    void wake_sleeper(uint64_t order);
    /// park and resume bracket a wait at a fence: parked streams do not keep the clock from moving.
    uint32_t park(unsigned card);
    void resume(unsigned card, uint32_t generation);
    void wake_parked(unsigned card);

    /// Counts something that the host of a process can see from now on: the host has to look at it, or wait again, before
    /// the clock moves.
    void notify_host(int32_t pid);

    // ---- for the host
    /// The host does something else than waiting.
    void begin_host_call();
    void end_host_call();
    /// The host asks for something, as a host that waits may do, too.
    void count_host_query();
    /// Lets `ns` of host time pass inside a call.
    void spend_host_time(uint64_t ns);
    /// How many notifications this host had. Taken before the host looks at what it waits for.
    uint32_t news() const { return m_state ? m_self->news.load(std::memory_order_acquire) : 0; }
    /// For a host that polls: it looked at everything up to `news`, and waits. Moves to the next event when all other hosts
    /// wait and no stream runs; else returns after a short time.
    void advance(uint32_t news);
    /// Waits until `done` or until the clock has reached `when`, and lets the clock move meanwhile; may return early.
    void wait_until(uint64_t when, const std::function<bool()> &done);
    /// Waits until no stream runs.
    void wait_until_idle();

private:
    class Guard;
    void enter() GAUDI_REQUIRES(m_state->mutex);
    ClockState::Process *find(int32_t pid) GAUDI_REQUIRES(m_state->mutex);
    bool is_idle() GAUDI_REQUIRES(m_state->mutex);
    void drop_zombies() GAUDI_REQUIRES(m_state->mutex);
    ClockState::Sleeper *next_sleeper() GAUDI_REQUIRES(m_state->mutex);
    void stop_stream() GAUDI_REQUIRES(m_state->mutex);
    void wake_next_due() GAUDI_REQUIRES(m_state->mutex);
    /// A place in the table of sleepers; null if there is none.
    ClockState::Sleeper *add_sleeper(uint64_t when, uint64_t order, bool is_host) GAUDI_REQUIRES(m_state->mutex);
    bool is_asleep(const ClockState::Process &process) const GAUDI_REQUIRES(m_state->mutex);
    bool is_quiet(ClockState::Process &process) GAUDI_REQUIRES(m_state->mutex);
    bool do_hosts_wait() GAUDI_REQUIRES(m_state->mutex);
    void move_to(uint64_t when) GAUDI_REQUIRES(m_state->mutex);
    /// Moves to the next event if no stream runs and all hosts wait.
    bool try_move() GAUDI_REQUIRES(m_state->mutex);

    ClockState *m_state;
    ClockState::Process *m_self = nullptr;
    uint64_t m_next_drop_ns GAUDI_GUARDED_BY(m_state->mutex) = 0;
};

/// A call by which the host acts.
class HostCall {
public:
    explicit HostCall(Clock &clock) : m_clock(clock) { m_clock.begin_host_call(); }
    ~HostCall() { m_clock.end_host_call(); }
    HostCall(const HostCall &) = delete;
    HostCall &operator=(const HostCall &) = delete;

private:
    Clock &m_clock;
};

} // namespace softgaudi
