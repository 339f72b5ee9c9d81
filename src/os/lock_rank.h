// SPDX-License-Identifier: BSD-3-Clause
// The order in which a thread may take locks. Builds with GAUDI_LOCK_RANKS (debug and sanitizers) check it at every lock,
// so an inversion aborts in the first test that runs both calls, not in the rare run where two threads meet.
#pragma once

#ifdef GAUDI_LOCK_RANKS
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#endif

namespace gaudi::os {

/// The place of a lock in that order: a thread takes a lock only while every lock it holds has a smaller level. Each layer
/// declares its ranks as constants in one header; a layer that is called with locks held has greater levels.
struct LockRank {
    int level;
    const char *name;
};

#ifdef GAUDI_LOCK_RANKS

/// The ranks of the locks that the calling thread holds.
struct HeldLocks {
    static constexpr std::size_t kMost = 32;

    const LockRank *ranks[kMost];
    std::size_t count;

    /// Aborts unless the order allows to wait for a lock of that rank now.
    void check(const LockRank &wanted) const noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            if (ranks[i]->level >= wanted.level) {
                std::fprintf(
                    stderr,
                    "lock order violated: this thread holds '%s' (rank %d), so it may not lock '%s' (rank %d); "
                    "take the lock of the smaller rank first, or use try_lock\n",
                    ranks[i]->name, ranks[i]->level, wanted.name, wanted.level);
                std::abort();
            }
        }
    }
    void add(const LockRank &taken) noexcept {
        if (count == kMost) {
            std::fprintf(stderr,
                         "cannot check the lock order: this thread holds %zu locks and takes '%s' (rank %d); "
                         "raise HeldLocks::kMost\n",
                         count, taken.name, taken.level);
            std::abort();
        }
        ranks[count++] = &taken;
    }
    /// Locks may be released in any order. Of two locks with one rank, which entry goes makes no difference.
    void remove(const LockRank &released) noexcept {
        for (std::size_t i = count; i-- > 0;) {
            if (ranks[i]->level == released.level) {
                for (--count; i < count; ++i)
                    ranks[i] = ranks[i + 1];
                return;
            }
        }
        std::fprintf(stderr, "this thread releases '%s' (rank %d), which it does not hold\n", released.name,
                     released.level);
        std::abort();
    }
    void check_holds(const LockRank &needed) const noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            if (ranks[i]->level == needed.level)
                return;
        }
        std::fprintf(stderr, "this thread does not hold '%s' (rank %d), which the function it is in needs\n",
                     needed.name, needed.level);
        std::abort();
    }
};

/// One per thread and loaded library. In a library that dlopen loads late, each thread gets its copy from malloc, and
/// LeakSanitizer of g++ 12 crashes at a copy 16 bytes behind a page boundary. ASan places none of more than 192 bytes
/// there. (The initial-exec model needs no malloc, but its memory is too small for libraries with other thread-locals.)
inline constinit thread_local HeldLocks t_held_locks{};
static_assert(sizeof(HeldLocks) > 192 && std::is_trivially_destructible_v<HeldLocks>);

/// Of the calling thread. UBSan of g++ 12 takes the address of an inline thread-local for null where it is used directly.
__attribute__((noinline, no_sanitize("undefined"))) inline HeldLocks &held_locks() noexcept { return t_held_locks; }

#endif

// ---- for a lock of any kind, with the rank that it has; empty where ranks are not checked
/// Before the thread may wait for the lock: a deadlock is reported, not entered.
inline void check_lock_order([[maybe_unused]] const LockRank &rank) noexcept {
#ifdef GAUDI_LOCK_RANKS
    held_locks().check(rank);
#endif
}
inline void note_locked([[maybe_unused]] const LockRank &rank) noexcept {
#ifdef GAUDI_LOCK_RANKS
    held_locks().add(rank);
#endif
}
inline void note_unlocked([[maybe_unused]] const LockRank &rank) noexcept {
#ifdef GAUDI_LOCK_RANKS
    held_locks().remove(rank);
#endif
}
/// Aborts when the thread holds no lock of this rank.
inline void check_lock_held([[maybe_unused]] const LockRank &rank) noexcept {
#ifdef GAUDI_LOCK_RANKS
    held_locks().check_holds(rank);
#endif
}

} // namespace gaudi::os
