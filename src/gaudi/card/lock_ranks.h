// SPDX-License-Identifier: BSD-3-Clause
// The order of the locks in src/gaudi, src/uct, src/ucm and src/buffer: a thread waits for a lock only while its rank is greater than
// those of all locks that the thread holds. Debug and sanitizer builds check it at each lock (os/lock_rank.h).
#pragma once

#include "os/lock_rank.h"

namespace gaudi::rank {

using os::LockRank;

// ---- process-wide, at start
inline constexpr LockRank kHookInstallation{105, "installation of the memory hooks"};
inline constexpr LockRank kInterfaceTables{110, "UCX operation tables"};
inline constexpr LockRank kComponent{120, "component of one UCX"};
inline constexpr LockRank kDiscovery{130, "discovery of the cards"};

// ---- one session
inline constexpr LockRank kEngineStart{200, "start of a card's engine"};
inline constexpr LockRank kDeferredUnmaps{210, "deferred unmaps of foreign memory"};
inline constexpr LockRank kProbe{220, "probe for a foreign mapping"};
inline constexpr LockRank kPublication{230, "publication of foreign mappings"};
inline constexpr LockRank kArena{240, "arena"};
inline constexpr LockRank kExport{250, "export of a mapping"};
inline constexpr LockRank kHostRange{260, "mappings of a host range"};
inline constexpr LockRank kHostMemory{270, "account of mapped host memory"};
inline constexpr LockRank kCard{280, "state of a card"};
inline constexpr LockRank kListeners{290, "listeners for mappings"}; // UCX's own locks come after it
inline constexpr LockRank kWatchedSessions{295, "sessions whose events a UCX watches"};
inline constexpr LockRank kEngine{300, "engine"};
inline constexpr LockRank kEngineWatch{310, "thread that waits for an engine"};
inline constexpr LockRank kCardEvents{320, "events of a card"};

// ---- tables, held for a short time: no driver, framework or UCX is called with one of them held
inline constexpr LockRank kHostCache{400, "cache of unregistered host memory"};
inline constexpr LockRank kForeignTable{410, "table of foreign mappings"};
inline constexpr LockRank kHookedFiles{420, "table of hooked descriptors"};
inline constexpr LockRank kRegionPool{430, "pool of region objects"};
inline constexpr LockRank kLostMemory{435, "memory that resets took"};
inline constexpr LockRank kAddressMap{440, "address map"};
inline constexpr LockRank kEnginePointer{445, "engine of a session"};
inline constexpr LockRank kAbandoned{450, "abandoned allocations"};
inline constexpr LockRank kFrameworkMemory{455, "memory that the framework allocated"};
inline constexpr LockRank kEngineFailure{460, "failure of an engine"};
inline constexpr LockRank kRefusal{470, "reason of a refused export"};
inline constexpr LockRank kHostMapper{475, "way to map host memory"};
inline constexpr LockRank kSessionParts{480, "parts of a session"};
inline constexpr LockRank kOpenWait{490, "wait for cards in reset"};
inline constexpr LockRank kSettings{500, "settings"};
inline constexpr LockRank kUnpackedKeys{510, "unpacked keys"};
inline constexpr LockRank kBuffers{520, "table of buffers"};

} // namespace gaudi::rank
