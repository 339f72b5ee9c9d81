// SPDX-License-Identifier: BSD-3-Clause
// std::mutex with what the compiler (os/thread_safety.h) and debug builds (os/lock_rank.h) need to check its use. In
// a release build it is a std::mutex in size and in code.
#pragma once

#include "os/lock_rank.h"
#include "os/thread_safety.h"

#include <condition_variable>
#include <mutex>

namespace gaudi::os {

class GAUDI_CAPABILITY("mutex") Mutex {
public:
    /// The rank is a constant of static storage: it must outlive the mutex.
#ifdef GAUDI_LOCK_RANKS
    explicit constexpr Mutex(const LockRank &rank) noexcept : m_rank(&rank) {}
#else
    explicit constexpr Mutex(const LockRank &) noexcept {}
#endif
    explicit Mutex(const LockRank &&) = delete;
    Mutex(const Mutex &) = delete;
    Mutex &operator=(const Mutex &) = delete;

    void lock() GAUDI_ACQUIRE() {
#ifdef GAUDI_LOCK_RANKS
        held_locks().check(*m_rank); // first: a deadlock is reported, not entered
#endif
        m_mutex.lock();
        note_taken();
    }
    /// May go against the order, because it never waits. The lock it takes counts for those taken after it.
    [[nodiscard]] bool try_lock() GAUDI_TRY_ACQUIRE(true) {
        if (!m_mutex.try_lock())
            return false;
        note_taken();
        return true;
    }
    void unlock() GAUDI_RELEASE() {
        note_released();
        m_mutex.unlock();
    }
    /// For code that the compiler cannot follow, such as a callback. Where ranks are checked it aborts when this thread
    /// holds no lock of this rank.
    void assert_held() const GAUDI_ASSERT_HELD(this) {
#ifdef GAUDI_LOCK_RANKS
        held_locks().check_holds(*m_rank);
#endif
    }

private:
    friend class CondVar;

    void note_taken() const noexcept {
#ifdef GAUDI_LOCK_RANKS
        held_locks().add(*m_rank);
#endif
    }
    void note_released() const noexcept {
#ifdef GAUDI_LOCK_RANKS
        held_locks().remove(*m_rank);
#endif
    }

    std::mutex m_mutex;
#ifdef GAUDI_LOCK_RANKS
    const LockRank *m_rank;
#endif
};

/// Holds a mutex to the end of the scope. The try form, which the compiler can follow only in two steps:
///     if (!m_mutex.try_lock())
///         return;
///     const MutexLock lock(m_mutex, std::adopt_lock);
class GAUDI_SCOPED_CAPABILITY MutexLock {
public:
    explicit MutexLock(Mutex &mutex) GAUDI_ACQUIRE(mutex) : m_mutex(mutex) { mutex.lock(); }
    MutexLock(Mutex &mutex, std::adopt_lock_t) noexcept GAUDI_REQUIRES(mutex) : m_mutex(mutex) {}
    ~MutexLock() GAUDI_RELEASE() {
        if (m_held)
            m_mutex.unlock();
    }
    MutexLock(const MutexLock &) = delete;
    MutexLock &operator=(const MutexLock &) = delete;

    /// For a part of the scope.
    void unlock() GAUDI_RELEASE() {
        m_mutex.unlock();
        m_held = false;
    }
    void lock() GAUDI_ACQUIRE() {
        m_mutex.lock();
        m_held = true;
    }

private:
    Mutex &m_mutex;
    bool m_held = true;
};

/// std::condition_variable for a Mutex. It takes no predicate, because the compiler looks at a lambda without the locks of
/// the function around it: wait in a loop.
class CondVar {
public:
    void wait(Mutex &mutex) GAUDI_REQUIRES(mutex) {
        mutex.note_released();
#ifdef GAUDI_LOCK_RANKS
        held_locks().check(*mutex.m_rank); // the wait ends with taking the mutex again, under all other locks
#endif
        std::unique_lock<std::mutex> lock(mutex.m_mutex, std::adopt_lock);
        m_changed.wait(lock);
        lock.release();
        mutex.note_taken();
    }
    void notify_all() noexcept { m_changed.notify_all(); }

private:
    std::condition_variable m_changed;
};

} // namespace gaudi::os
