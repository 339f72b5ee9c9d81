// SPDX-License-Identifier: BSD-3-Clause
#include "shared.h"

#include "os/system_call.h"

#include <linux/futex.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace softgaudi {

uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

int64_t realtime_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void Event::signal() {
    m_count.fetch_add(1, std::memory_order_seq_cst);
    if (m_waiters.load(std::memory_order_seq_cst) != 0)
        gaudi::os::system_call(SYS_futex, &m_count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Event::wait(uint32_t count, uint64_t deadline_ns) const {
    auto *self = const_cast<Event *>(this);
    timespec until{};
    until.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000u);
    until.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000u);
    // A waiter that is killed leaves the count too high, which only costs extra wake calls.
    self->m_waiters.fetch_add(1, std::memory_order_seq_cst);
    gaudi::os::system_call(SYS_futex, &self->m_count, FUTEX_WAIT_BITSET, count,
                           deadline_ns == kForever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    self->m_waiters.fetch_sub(1, std::memory_order_seq_cst);
}

void RobustMutexBase::init() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m_mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

bool RobustMutexBase::lock_any() {
    const int error = pthread_mutex_lock(&m_mutex);
    if (error == 0)
        return false;
    if (error != EOWNERDEAD) {
        std::fprintf(stderr, "softgaudi: cannot lock the state of a card: %s; remove the directory in SOFTGAUDI_DIR\n",
                     std::strerror(error));
        std::abort();
    }
    pthread_mutex_consistent(&m_mutex);
    return true;
}

void RobustMutexBase::unlock_any() { pthread_mutex_unlock(&m_mutex); }

} // namespace softgaudi
