// SPDX-License-Identifier: BSD-3-Clause
// Transfers between two processes through UCP, timed on both sides.
#pragma once

#include "ucp_side.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace bench {

/// The first process sends or puts, or the second process gets: the bytes always go from the first to the second.
enum class Way { tag, put, get };
const char *name(Way way);

/// Nanoseconds now.
using Clock = std::uint64_t (*)();
std::uint64_t read_steady_clock();

/// One of the two processes. Both wait for each other by polling shared memory, so that neither sleeps while UCX has
/// work.
class Party {
public:
    struct Shared {
        std::atomic<std::uint64_t> arrived[2];
        std::atomic<std::uint64_t> begin[2], end[2]; // of a transfer, by the clock of each process
    };
    /// Shared memory for the two processes, made before the second starts; never unmapped.
    static Shared &share();

    Party(e2e::Pipe &pipe, Shared &shared, bool first) : m_side(pipe, {}), m_shared(shared), m_first(first) {}

    e2e::Side &side() { return m_side; }
    bool first() const { return m_first; }
    Shared &shared() { return m_shared; }
    /// Returns when both processes have called it; UCX progresses meanwhile.
    void meet();

private:
    e2e::Side m_side;
    Shared &m_shared;
    const bool m_first;
    std::uint64_t m_meetings = 0;
};

/// Memory of the first process and memory of the second. Both processes make it and call its functions alike.
class Route {
public:
    Route(Party &party, ucs_memory_type_t from, ucs_memory_type_t to, std::size_t size);

    /// Makes one transfer and returns its nanoseconds, until both processes have completed it.
    std::uint64_t time(Way way, std::size_t size, Clock clock = read_steady_clock);
    /// Makes one transfer of bytes that were not there before; the second process throws if any byte is wrong.
    void check_bytes(Way way, std::size_t size);

private:
    void move(Way way, std::size_t size);

    Party &m_party;
    e2e::Memory m_memory;
    e2e::Place m_remote;
    e2e::RemoteKey m_key;
    unsigned m_seed = 0;
};

} // namespace bench
