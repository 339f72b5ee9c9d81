// SPDX-License-Identifier: BSD-3-Clause
// Appends records to the file that all processes of a recording have mapped. A record is reserved by moving the cursor in
// the head, so threads and processes never wait for each other, and what is written survives the end of the process.
#pragma once

#include "format.h"

#include <cstddef>
#include <cstdint>

namespace gaudi::record {

/// Maps the file at the first call. False where this process is not recorded: no file is named, or it cannot be used,
/// which is reported on stderr once.
bool is_recording() noexcept;

/// Room for a record of `size` bytes, a multiple of 8, with mark, size, kind, process and thread filled in; null when the
/// file is full. The caller fills in the rest and calls commit().
Record *reserve(std::size_t size, Kind kind) noexcept;

/// Readers ignore a record that was not committed.
void commit(Record &record) noexcept;

/// Writes pieces behind a record or another piece.
class PieceWriter {
public:
    explicit PieceWriter(char *at) noexcept : m_at(at) {}
    void add(PieceKind kind, std::uint16_t argument, std::uint64_t address, const void *bytes,
             std::size_t length) noexcept;
    char *end() const noexcept { return m_at; }

private:
    char *m_at;
};

constexpr std::size_t piece_size(std::size_t length) { return sizeof(Piece) + round_up(length); }

std::uint64_t now_ns() noexcept;

} // namespace gaudi::record
