// SPDX-License-Identifier: BSD-3-Clause
// One call on its way through the recorder.
#pragma once

#include "calls.h"
#include "format.h"
#include "host_ranges.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace gaudi::record {

/// Stores what goes into a call when it is made, and what came out by finish(). Nothing here fails: what cannot be stored
/// is missing in the file.
class RecordedCall {
public:
    RecordedCall(Function function, std::span<const std::uint64_t> arguments) noexcept;
    RecordedCall(const RecordedCall &) = delete;
    RecordedCall &operator=(const RecordedCall &) = delete;

    /// `error` is errno after the call.
    void finish(std::uint64_t result, int error) noexcept;

private:
    const Call &description() const { return kCalls[static_cast<std::size_t>(m_function)]; }
    std::size_t length_of(const Argument &argument) const;
    void store_in(std::size_t position, const Argument &argument) noexcept;
    void store_out(std::size_t position, const Argument &argument) noexcept;
    void store_wait_in(const hlthunk_wait_in &in) noexcept;
    void add(PieceKind kind, std::size_t argument, const void *bytes, std::size_t length) noexcept;
    bool succeeded(std::uint64_t result) const;
    void follow_mappings(std::uint64_t result) noexcept;

    static constexpr std::size_t kRoom = 9216;
    static constexpr std::size_t kLongest = 4096; // of a piece; the rest is cut

    const Function m_function;
    const std::span<const std::uint64_t> m_arguments;
    std::uint64_t m_start_ns = 0;
    std::uint64_t m_node = 0;
    HostRange m_unmapped; // by this call, if it succeeds
    std::uint16_t m_pieces = 0;
    std::size_t m_used = 0;
    alignas(8) char m_room[kRoom]; // not cleared: most calls use a few bytes of it
};

/// Marks the calling thread as inside the recorder: calls that libhl-thunk makes to its own functions may come back to the
/// recorder, and are not the program's.
class Inside {
public:
    Inside() noexcept : m_first(!t_inside) { t_inside = true; }
    ~Inside() {
        if (m_first)
            t_inside = false;
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
    bool first() const { return m_first; }

private:
    static constinit thread_local bool t_inside; // constinit here too, or users call a function that initialises it
    const bool m_first;
};

} // namespace gaudi::record
