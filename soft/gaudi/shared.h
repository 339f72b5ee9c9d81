// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation between processes that share a card. All of it lives in a mapped file, so nothing here holds a
// pointer, and a process may be killed at any instruction.
#pragma once

#include "os/lock_rank.h"
#include "os/thread_safety.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace softgaudi {

/// CLOCK_MONOTONIC, the clock of every deadline here.
uint64_t monotonic_ns();
/// Time since the epoch, for records that people read.
int64_t realtime_ns();

inline constexpr uint64_t kForever = UINT64_MAX;

/// An event count on a futex. A process-shared condition variable would hang when a waiter is killed.
class Event {
public:
    uint32_t seen() const { return m_count.load(std::memory_order_acquire); }
    void signal();
    /// Waits for a signal after `count` was read, or until `deadline_ns`; may return early.
    void wait(uint32_t count, uint64_t deadline_ns) const;

private:
    std::atomic<uint32_t> m_count;
    std::atomic<uint32_t> m_waiters;
};

/// The part of a RobustMutex that does not depend on its rank.
class RobustMutexBase {
public:
    void init();

protected:
    bool lock_any();
    void unlock_any();

private:
    pthread_mutex_t m_mutex;
};

/// A mutex that survives the death of its holder. The rank is part of the type, because its address differs from process
/// to process.
template <const gaudi::os::LockRank &rank>
class GAUDI_CAPABILITY("mutex") RobustMutex : public RobustMutexBase {
public:
    /// True when the last holder died with the lock: the guarded data may be half written.
    [[nodiscard]] bool lock() GAUDI_ACQUIRE() {
        gaudi::os::check_lock_order(rank);
        const bool broken = lock_any();
        gaudi::os::note_locked(rank);
        return broken;
    }
    void unlock() GAUDI_RELEASE() {
        gaudi::os::note_unlocked(rank);
        unlock_any();
    }
    /// For code that the compiler cannot follow, like os::Mutex::assert_held.
    void assert_held() const GAUDI_ASSERT_HELD(this) { gaudi::os::check_lock_held(rank); }
};

} // namespace softgaudi
