// SPDX-License-Identifier: BSD-3-Clause
#include "os/mutex.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <concepts>
#include <latch>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

using gaudi::os::CondVar;
using gaudi::os::LockRank;
using gaudi::os::Mutex;
using gaudi::os::MutexLock;

namespace {

/// How a layer declares its ranks.
struct Rank {
    static constexpr LockRank table{10, "table"};
    static constexpr LockRank row{20, "row"};
    static constexpr LockRank journal{30, "journal"};
};

// Locks are used by calls that come after exit handlers, and before initialisers of other files.
static_assert(std::is_trivially_destructible_v<Mutex>);
constinit Mutex s_table{Rank::table};
Mutex s_row{Rank::row};
Mutex s_other_row{Rank::row};
Mutex s_journal{Rank::journal};

// A rank that dies before its mutex is refused.
static_assert(std::constructible_from<Mutex, const LockRank &>);
static_assert(!std::constructible_from<Mutex, LockRank>);

/// `function` breaks the rules. Where ranks are checked it must abort with the message; elsewhere a mutex must cost nothing,
/// and the function, which could deadlock, is not called.
#ifdef GAUDI_LOCK_RANKS
#define EXPECT_REFUSED(function, message) EXPECT_DEATH(function(), message)
#else
#define EXPECT_REFUSED(function, message)                                                                              \
    (void)function;                                                                                                    \
    static_assert(sizeof(Mutex) == sizeof(std::mutex) && alignof(Mutex) == alignof(std::mutex))
#endif

void lock_table_under_row() {
    const MutexLock row(s_row);
    const MutexLock table(s_table);
}

TEST(LockRank, smaller_rank_under_a_greater_one_aborts) {
    EXPECT_REFUSED(lock_table_under_row, "holds 'row' \\(rank 20\\), so it may not lock 'table' \\(rank 10\\)");
}

void lock_two_rows() {
    const MutexLock row(s_row);
    const MutexLock other(s_other_row);
}

TEST(LockRank, equal_rank_of_another_object_aborts) {
    EXPECT_REFUSED(lock_two_rows, "holds 'row' \\(rank 20\\), so it may not lock 'row' \\(rank 20\\)");
}

/// The compiler would refuse it too.
void lock_row_twice() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    const MutexLock row(s_row);
    s_row.lock();
}

TEST(LockRank, same_mutex_again_aborts) { EXPECT_REFUSED(lock_row_twice, "may not lock 'row'"); }

void lock_table_after_try_lock_of_row() {
    if (!s_row.try_lock())
        return;
    const MutexLock row(s_row, std::adopt_lock);
    const MutexLock table(s_table);
}

TEST(LockRank, lock_taken_by_try_lock_counts_for_later_ones) {
    EXPECT_REFUSED(lock_table_after_try_lock_of_row, "holds 'row' \\(rank 20\\), so it may not lock 'table'");
}

void wait_under_a_greater_rank() {
    CondVar changed;
    const MutexLock table(s_table);
    const MutexLock row(s_row);
    changed.wait(s_table);
}

TEST(LockRank, wait_under_a_greater_rank_aborts) {
    EXPECT_REFUSED(wait_under_a_greater_rank, "holds 'row' \\(rank 20\\), so it may not lock 'table'");
}

void unlock_what_is_not_held() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_row.unlock(); }

TEST(LockRank, release_of_a_lock_that_is_not_held_aborts) {
    EXPECT_REFUSED(unlock_what_is_not_held, "releases 'row' \\(rank 20\\), which it does not hold");
}

void assert_table_under_row() {
    const MutexLock row(s_row);
    s_table.assert_held();
}

TEST(LockRank, assert_held_without_the_lock_aborts) {
    EXPECT_REFUSED(assert_table_under_row, "does not hold 'table' \\(rank 10\\)");
}

TEST(LockRank, rising_ranks_in_any_order_of_release_pass) {
    s_table.lock();
    s_row.lock();
    s_row.assert_held();
    s_table.unlock(); // not the last one taken
    s_journal.lock();
    s_row.unlock();
    s_journal.unlock();
    const MutexLock table(s_table); // nothing is left of those before
}

TEST(LockRank, try_lock_against_the_order_passes) {
    const MutexLock journal(s_journal);
    if (!s_row.try_lock())
        FAIL() << "nothing else holds the row";
    const MutexLock row(s_row, std::adopt_lock);
}

TEST(LockRank, locks_of_other_threads_do_not_count) {
    const MutexLock journal(s_journal);
    std::thread([] { const MutexLock table(s_table); }).join();
}

TEST(LockRank, child_of_a_thread_that_holds_a_lock_goes_on) {
    pid_t child = -1;
    {
        MutexLock table(s_table);
        child = fork();
        if (child == 0) {
            { const MutexLock row(s_row); }
            table.unlock();
            table.lock();
            _exit(0);
        }
    }
    ASSERT_GE(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

/// Thread-local memory of such a library has crashed the leak check, at some addresses and while the thread lived: so there
/// are many threads, and all of them live.
TEST(LockRank, library_loaded_late_passes_the_leak_check) {
    void *library = dlopen(OS_LATE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto nest_two_locks = reinterpret_cast<int (*)()>(dlsym(library, "nest_two_locks"));
    ASSERT_NE(nest_two_locks, nullptr);
    constexpr int kThreads = 300;
    std::latch locked(kThreads), checked(1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            nest_two_locks();
            locked.count_down();
            checked.wait();
        });
    }
    locked.wait();
#ifdef __SANITIZE_ADDRESS__
    EXPECT_EQ(__lsan_do_recoverable_leak_check(), 0);
#endif
    checked.count_down();
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(nest_two_locks(), kThreads + 1);
}

TEST(MutexLock, unlock_and_lock_cover_part_of_the_scope) {
    MutexLock table(s_table);
    table.unlock();
    std::thread([] { const MutexLock other(s_table); }).join();
    table.lock();
    std::thread([] { EXPECT_FALSE(s_table.try_lock()); }).join();
}

TEST(CondVar, wait_releases_the_mutex_until_notified) {
    struct {
        Mutex mutex{Rank::table};
        CondVar changed;
        bool asked GAUDI_GUARDED_BY(mutex) = false;
        bool answered GAUDI_GUARDED_BY(mutex) = false;
    } shared;
    std::thread answering([&] {
        const MutexLock lock(shared.mutex);
        while (!shared.asked)
            shared.changed.wait(shared.mutex);
        shared.answered = true;
        shared.changed.notify_all();
    });
    {
        const MutexLock lock(shared.mutex);
        shared.asked = true;
        shared.changed.notify_all();
        while (!shared.answered)
            shared.changed.wait(shared.mutex);
        shared.mutex.assert_held();
    }
    answering.join();
}

} // namespace
