// SPDX-License-Identifier: BSD-3-Clause
// The model's time. Unpaced and real-paced cards use the machine's monotonic clock. The virtual clock stands still
// while anything of the model has work to do and while the host computes; it moves, from one event to the next, only
// when the host waits. Streams run one at a time, in the order of their events and, at one instant, of their
// submissions. Overlap of transfers is then a number that does not depend on the machine. All cards and all processes
// of one SOFTGAUDI_DIR share it.
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
        uint32_t running; // queues with something to do right now
    };
    struct Sleeper {
        int32_t pid;
        uint64_t wake;
        uint64_t order;  // of those that wake at one instant
        uint64_t ticket; // 0 is a free entry
    };
    static constexpr uint64_t kBegin = 1'000'000'000; // a time is never 0

    std::atomic<uint32_t> magic;
    RobustMutex<soft::Rank::clock> mutex;
    std::atomic<uint64_t> now;
    std::atomic<uint64_t> activity; // calls of the host that ask for more than news, to notice one that only polls
    uint64_t tickets GAUDI_GUARDED_BY(mutex);
    Event changed;
    std::array<Process, kProcesses> processes GAUDI_GUARDED_BY(mutex);
    std::array<Sleeper, kSleepers> sleepers GAUDI_GUARDED_BY(mutex);
    std::array<uint32_t, kMaxCards> parked GAUDI_GUARDED_BY(mutex);     // streams at a fence
    std::array<uint32_t, kMaxCards> generation GAUDI_GUARDED_BY(mutex); // counts wake-ups of those
};

/// The virtual clock of a directory, made if new; null on failure (errno).
ClockState *map_clock(const std::string &dir);

class Clock {
public:
    /// `state` is null unless the clock is virtual.
    explicit Clock(ClockState *state) : m_state(state) {}

    bool is_virtual() const { return m_state != nullptr; }
    uint64_t now() const { return m_state ? m_state->now.load(std::memory_order_acquire) : monotonic_ns(); }

    // ---- the device's side: no effect unless virtual, but for sleep_until
    void job_begins();
    void job_ends();
    /// Waits until the clock shows `when`; gives up when `cancelled` says so. The virtual clock lets one stream at a
    /// time go on, of those that are due at one instant the one with the lowest `order`.
    void sleep_until(uint64_t when, uint64_t order, const Event &wake, const std::function<bool()> &cancelled);
    /// Brackets a wait at a fence: the card is at rest while its streams are parked.
    uint32_t park(unsigned card);
    void resume(unsigned card, uint32_t generation);
    void wake_parked(unsigned card);

    // ---- the host's side
    void host_called();
    /// The host spends `ns` inside a call.
    void host_pause(uint64_t ns);
    /// Lets the model come to rest, then moves to its next event; false when there is none up to `limit`.
    bool advance(uint64_t limit = kForever);
    /// Lets the model come to rest.
    void settle();

private:
    class Guard;
    ClockState::Process *own_entry() GAUDI_REQUIRES(m_state->mutex);
    bool at_rest() GAUDI_REQUIRES(m_state->mutex);
    ClockState::Sleeper *next_sleeper() GAUDI_REQUIRES(m_state->mutex);
    void rest() GAUDI_REQUIRES(m_state->mutex);
    void run_due() GAUDI_REQUIRES(m_state->mutex);
    void move_to(uint64_t when) GAUDI_REQUIRES(m_state->mutex);

    ClockState *m_state;
};

} // namespace softgaudi
