// SPDX-License-Identifier: BSD-3-Clause
// A file that `ucx_gaudi record` wrote, read and checked.
#pragma once

#include "record/calls.h"
#include "record/format.h"
#include "sentence.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gaudi::cli {

struct RecordedPiece {
    record::PieceKind kind;
    unsigned argument;
    std::uint64_t address;
    std::span<const char> bytes;
};

/// One call, or the end of a process.
struct RecordedCall {
    const record::Record *head;
    bool is_exit;
    std::optional<record::Function> function; // none: a function that this version does not know
    std::span<const std::uint64_t> arguments;
    std::vector<RecordedPiece> pieces;  // of the call
    std::vector<RecordedPiece> packets; // of its submission

    const RecordedPiece *find(record::PieceKind kind, unsigned argument) const {
        for (const RecordedPiece &piece : pieces)
            if (piece.kind == kind && piece.argument == argument)
                return &piece;
        return nullptr;
    }
};

class Recording {
public:
    static OrSentence<Recording> read(const std::filesystem::path &path);

    /// Calls and ends of processes in the order of the file: that in which the calls ended.
    const std::vector<RecordedCall> &events() const { return m_events; }
    std::vector<const RecordedCall *> calls() const;
    std::size_t processes() const { return m_processes; }
    /// Records that found no room in the file.
    std::uint64_t lost() const { return m_lost; }

private:
    std::vector<std::uint64_t> m_file; // the pieces point into it
    std::vector<RecordedCall> m_events;
    std::size_t m_processes = 0;
    std::uint64_t m_lost = 0;
};

} // namespace gaudi::cli
