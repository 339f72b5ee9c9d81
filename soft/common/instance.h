// SPDX-License-Identifier: BSD-3-Clause
// The one object behind a library's exported functions.
#pragma once

#include "common/lock_ranks.h"
#include "os/mutex.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace soft {

/// The T of this process, created by T::make() at the first call; a refusal is final. A child of fork(2) has none of
/// the threads: T::forked() closes what it inherited, and its next call creates a new T.
template <class T>
class Instance {
public:
    /// Null when T cannot be created.
    static T *get() {
        if (T *known = made())
            return known;
        Instance &one = only();
        const gaudi::os::MutexLock lock(one.m_mutex);
        if (T *known = made(); known || one.m_refused)
            return known;
        static std::once_flag hooked;
        std::call_once(hooked, [] { pthread_atfork(nullptr, nullptr, after_fork); });
        T *fresh = T::make().release();
        one.m_refused = !fresh;
        one.m_made.store(fresh, std::memory_order_release);
        return fresh;
    }
    /// Null also before the first get().
    static T *made() { return only().m_made.load(std::memory_order_acquire); }

private:
    static Instance &only() {
        static auto *one = new Instance; // no destructor may run before the last caller
        return *one;
    }
    static void after_fork() {
        if (T *parents = made())
            parents->forked();
        std::construct_at(&only());
    }

    gaudi::os::Mutex m_mutex{Rank::instance};
    std::atomic<T *> m_made{nullptr};
    bool m_refused GAUDI_GUARDED_BY(m_mutex) = false;
};

} // namespace soft
