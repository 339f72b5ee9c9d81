// SPDX-License-Identifier: BSD-3-Clause
// The model's time. Unpaced and real-paced cards use the machine's monotonic clock. The virtual clock advances from
// event to event, and only while the host waits and no part of the model has work; streams run one at a time, ordered
// by event time and then by submission. Modelled overlap is therefore the same on every machine. All cards and
// processes of one SOFTGAUDI_DIR share the clock.
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
    static constexpr uint32_t kMagic = 0x434c4b32;
    static constexpr size_t kProcesses = 64;
    static constexpr size_t kSleepers = 1024;

    struct Process {
        int32_t pid;
        uint32_t running; // queues that have work now
    };
    struct Sleeper {
        int32_t pid;
        uint64_t wake;
        uint64_t order;  // breaks ties between equal wake times
        uint64_t ticket; // 0 is a free entry
    };
    static constexpr uint64_t kBegin = 1'000'000'000; // nonzero, because 0 means "no time"

    std::atomic<uint32_t> magic;
    RobustMutex<soft::Rank::clock> mutex;
    std::atomic<uint64_t> now;
    std::atomic<uint64_t> activity; // host calls that do more than query; a host without any is polling
    uint64_t tickets GAUDI_GUARDED_BY(mutex);
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
    /// `state` is null unless the clock is virtual.
    explicit Clock(ClockState *state) : m_state(state) {}

    bool is_virtual() const { return m_state != nullptr; }
    uint64_t now() const { return m_state ? m_state->now.load(std::memory_order_acquire) : monotonic_ns(); }

    // ---- for the device; all but sleep_until do nothing on a real clock
    void job_begins();
    void job_ends();
    /// Waits until the clock reaches `when` or `cancelled` returns true. The virtual clock runs one stream at a time;
    /// of those due at the same instant, the one with the lowest `order`.
    void sleep_until(uint64_t when, uint64_t order, const Event &wake, const std::function<bool()> &cancelled);
    /// park and resume bracket a wait at a fence: parked streams do not keep the clock from moving.
    uint32_t park(unsigned card);
    void resume(unsigned card, uint32_t generation);
    void wake_parked(unsigned card);

    // ---- for the host
    void count_host_call();
    /// Lets `ns` of host time pass inside a call.
    void spend_host_time(uint64_t ns);
    /// Waits until no stream runs, then moves to the next event; false when there is none up to `limit`.
    bool advance(uint64_t limit = kForever);
    /// Waits until no stream runs.
    void wait_until_idle();

private:
    class Guard;
    ClockState::Process *own_entry() GAUDI_REQUIRES(m_state->mutex);
    bool is_idle() GAUDI_REQUIRES(m_state->mutex);
    ClockState::Sleeper *next_sleeper() GAUDI_REQUIRES(m_state->mutex);
    void stop_stream() GAUDI_REQUIRES(m_state->mutex);
    void wake_next_due() GAUDI_REQUIRES(m_state->mutex);
    void move_to(uint64_t when) GAUDI_REQUIRES(m_state->mutex);

    ClockState *m_state;
};

} // namespace softgaudi
