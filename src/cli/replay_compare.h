// SPDX-License-Identifier: BSD-3-Clause
// Whether an answer of a replay is that of the recording.
#pragma once

#include "record/calls.h"
#include "recording.h"
#include "replay_library.h"

#include <optional>
#include <span>
#include <string>

namespace gaudi::cli {

const record::Call &description_of(const RecordedCall &call);

/// Whether a result tells success.
bool is_success(record::Answer answer, std::uint64_t result);

/// Whether the answer says to try again, which is no difference.
bool is_again(record::Answer answer, const ReplayLibrary::Answer &got);

/// What the call wrote where the argument at `position` points to.
using Written = std::span<const char>;

/// The status that a wait of the recording returned; none if the call is no wait.
std::optional<std::uint32_t> recorded_wait_status(const RecordedCall &call);

/// How the answers differ, in words; empty if they do not. written(position) is what the replay's call wrote.
template <class WrittenAt>
std::string find_difference(const RecordedCall &call, const ReplayLibrary::Answer &got, WrittenAt &&written);

/// The parts of find_difference().
std::string compare_results(const RecordedCall &call, const ReplayLibrary::Answer &got);
std::string compare_written(const RecordedCall &call, std::size_t position, Written got);

template <class WrittenAt>
std::string find_difference(const RecordedCall &call, const ReplayLibrary::Answer &got, WrittenAt &&written) {
    const record::Call &description = description_of(call);
    const ReplayLibrary::Answer recorded{call.head->result, call.head->error};
    if (is_again(description.answer, recorded) || is_again(description.answer, got))
        return {};
    if (std::string difference = compare_results(call, got); !difference.empty())
        return difference;
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
        if (std::string difference = compare_written(call, i, written(i)); !difference.empty())
            return difference;
    return {};
}

} // namespace gaudi::cli
