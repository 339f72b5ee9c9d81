// SPDX-License-Identifier: BSD-3-Clause
// Clang's thread-safety attributes under names of this project. g++ does not know them, so they are empty there; a clang
// build compiles with -Wthread-safety and refuses an access to a guarded member without its lock.
#pragma once

#ifdef __clang__
#define GAUDI_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define GAUDI_THREAD_SAFETY(attribute)
#endif

// ---- types
/// A lock, called `name` in the compiler's messages.
#define GAUDI_CAPABILITY(name) GAUDI_THREAD_SAFETY(capability(name))
/// A guard: holds a lock from its constructor to its destructor.
#define GAUDI_SCOPED_CAPABILITY GAUDI_THREAD_SAFETY(scoped_lockable)

// ---- data
/// The member or variable is read and written only with this lock held.
#define GAUDI_GUARDED_BY(lock) GAUDI_THREAD_SAFETY(guarded_by(lock))
/// The object behind the pointer is read and written only with this lock held; the pointer itself is free.
#define GAUDI_PT_GUARDED_BY(lock) GAUDI_THREAD_SAFETY(pt_guarded_by(lock))

// ---- functions
/// The caller holds these locks.
#define GAUDI_REQUIRES(...) GAUDI_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// The caller holds none of these locks: the function takes them itself.
#define GAUDI_EXCLUDES(...) GAUDI_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
/// The function returns with these locks held; in a member of a lock or of a guard, without arguments, with that one.
#define GAUDI_ACQUIRE(...) GAUDI_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define GAUDI_RELEASE(...) GAUDI_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// The function returns the first argument when it holds the lock.
#define GAUDI_TRY_ACQUIRE(...) GAUDI_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
/// The function aborts, at least where ranks are checked, unless the lock is held.
#define GAUDI_ASSERT_HELD(lock) GAUDI_THREAD_SAFETY(assert_capability(lock))
/// The function returns a reference to this lock.
#define GAUDI_RETURNS_LOCK(lock) GAUDI_THREAD_SAFETY(lock_returned(lock))
/// The compiler cannot follow what this function does; a comment beside it says what keeps it right.
#define GAUDI_NO_THREAD_SAFETY_ANALYSIS GAUDI_THREAD_SAFETY(no_thread_safety_analysis)
