// SPDX-License-Identifier: BSD-3-Clause
// The libhl-thunk that a replay calls, with all functions that a recording can have.
#pragma once

#include "record/calls.h"
#include "sentence.h"

#include <cstdint>
#include <span>
#include <string>

namespace gaudi::cli {

class ReplayLibrary {
public:
    static OrSentence<ReplayLibrary> find();

    bool has(record::Function function) const { return m_functions[static_cast<std::size_t>(function)] != nullptr; }

    struct Answer {
        std::uint64_t result;
        int error; // errno
    };
    /// Each argument is a word, as in the recording; the library must have the function.
    Answer call(record::Function function, std::span<const std::uint64_t> words) const;

    /// As call() with words of any kind.
    template <class... Words>
    Answer make(record::Function function, Words... words) const {
        const std::uint64_t all[] = {static_cast<std::uint64_t>(words)...};
        return call(function, all);
    }
    const std::string &path() const { return m_path; }

private:
    std::string m_path;
    void *m_functions[record::kCallCount] = {};
};

} // namespace gaudi::cli
