// SPDX-License-Identifier: BSD-3-Clause
// The file of `ucx_gaudi record`, as docs/record.md describes it. All processes of a recording map it and append to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gaudi::record {

inline constexpr char kMagic[8] = {'G', 'A', 'U', 'D', 'I', 'R', 'E', 'C'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kRecordMark = 0x43455247;   // "GREC" in the file
inline constexpr std::uint64_t kClosedCursor = 1ull << 62; // beyond every limit: nothing is recorded any more

/// What the environment hands to the recorder.
inline constexpr const char *kFileVariable = "GAUDI_RECORD_FILE";
inline constexpr const char *kThunkVariable = "GAUDI_RECORD_THUNK";

/// The beginning of the file. The names of the functions follow it, each ended by a zero byte; then, aligned to 8 bytes at
/// `first`, the records.
struct Head {
    char magic[8];
    std::uint32_t version;
    std::uint32_t functions;           // how many names follow
    std::uint64_t first;               // offset of the first record
    std::uint64_t limit;               // no record reaches beyond this offset
    std::atomic<std::uint64_t> cursor; // offset behind the last reserved record; beyond `limit` once the file is full
    std::atomic<std::uint64_t> lost;   // records that found no room
    std::atomic<std::uint64_t> end;    // size of the file once `record` has ended; 0 before
};
static_assert(sizeof(Head) == 56 && std::atomic<std::uint64_t>::is_always_lock_free);

enum class Kind : std::uint16_t {
    process = 1, // the first record of a process: pieces `name` and `library`
    packets = 2, // of the next call of the same thread: pieces `chunks_*`, `packets` and `missing`
    call = 3,
    exit = 4, // the process ran its exit handlers
};

/// A record. `arguments` 64-bit words and `pieces` pieces follow it. A record that a killed process left unfinished has no
/// `complete`.
struct Record {
    std::uint32_t mark;
    std::uint32_t size; // of all of it, a multiple of 8
    std::atomic<std::uint32_t> complete;
    Kind kind;
    std::uint16_t function; // position of its name in the head
    std::uint32_t process;
    std::uint32_t thread;
    std::uint64_t start_ns; // CLOCK_MONOTONIC
    std::uint64_t end_ns;
    std::uint64_t result;
    std::uint64_t node; // which file is behind the descriptor: equal for all descriptors of one node; 0: none
    std::int32_t error; // errno after a call that failed
    std::uint16_t arguments;
    std::uint16_t pieces;
};
static_assert(sizeof(Record) == 64);

enum class PieceKind : std::uint16_t {
    in = 1,             // what an argument pointed to before the call
    out = 2,            // and after it
    chunks_restore = 3, // arrays of hl_cs_chunk
    chunks_execute = 4,
    packets = 5,  // a command buffer: `address` is the device's, or the handle
    missing = 6,  // a command buffer whose packets are not in the file; its length is in the chunk
    name = 7,     // of the program
    library = 8,  // file of the libhl-thunk behind the recorder
    returned = 9, // text that the call returned
};

/// Contents that belong to a record; `length` bytes follow, filled up to a multiple of 8.
struct Piece {
    PieceKind kind;
    std::uint16_t argument;
    std::uint32_t length;
    std::uint64_t address;
};
static_assert(sizeof(Piece) == 16);

constexpr std::size_t round_up(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

} // namespace gaudi::record
