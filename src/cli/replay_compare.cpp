// SPDX-License-Identifier: BSD-3-Clause
#include "replay_compare.h"

#include "os/errno_names.h"
#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::cli {
namespace {

using record::Answer;
using record::Role;

std::string name_of_errno(int code) {
    for (const os::ErrnoName &known : os::kErrnoNames)
        if (known.code == code)
            return known.name;
    return os::format("errno {}", code);
}

/// Whether failures of the function are 0 with errno.
bool fails_with_zero(Answer answer) {
    return answer == Answer::handle || answer == Answer::address || answer == Answer::text;
}

bool is_passing_status(int status) {
    return status == HL_DEVICE_STATUS_IN_RESET || status == HL_DEVICE_STATUS_IN_DEVICE_CREATION ||
           status == HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE;
}

/// The errno of a failure, however the function reports it.
int error_of(Answer answer, const ReplayLibrary::Answer &got) {
    const auto code = static_cast<int>(got.result);
    return fails_with_zero(answer) || code == -1 ? got.error : -code;
}

std::string describe(Answer answer, const ReplayLibrary::Answer &got) {
    if (answer == Answer::number || answer == Answer::device_status)
        return os::format("{}", static_cast<int>(got.result));
    return is_success(answer, got.result) ? "success" : name_of_errno(error_of(answer, got));
}

std::uint32_t word_at(std::span<const char> bytes, std::size_t offset) {
    std::uint32_t word = 0;
    if (bytes.size() >= offset + sizeof word)
        std::memcpy(&word, bytes.data() + offset, sizeof word);
    return word;
}

const char *name_of_status(std::uint32_t status) {
    constexpr const char *kNames[] = {"completed", "busy", "timed out", "aborted"};
    return status < 4 ? kNames[status] : "unknown";
}

} // namespace

const record::Call &description_of(const RecordedCall &call) {
    return record::kCalls[static_cast<std::size_t>(*call.function)];
}

bool is_success(Answer answer, std::uint64_t result) {
    return fails_with_zero(answer) ? result != 0 : static_cast<int>(result) >= 0;
}

bool is_again(Answer answer, const ReplayLibrary::Answer &got) {
    return answer != Answer::number && answer != Answer::passing && !is_success(answer, got.result) &&
           error_of(answer, got) == EAGAIN;
}

std::optional<std::uint32_t> recorded_wait_status(const RecordedCall &call) {
    const record::Call &description = description_of(call);
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
        if (description.arguments[i].role == Role::out_status) {
            const RecordedPiece *piece = call.find(record::PieceKind::out, static_cast<unsigned>(i));
            return piece ? std::optional(word_at(piece->bytes, 0)) : std::nullopt;
        }
    return {};
}

std::string compare_results(const RecordedCall &call, const ReplayLibrary::Answer &got) {
    const Answer answer = description_of(call).answer;
    const ReplayLibrary::Answer recorded{call.head->result, call.head->error};
    const auto before = static_cast<int>(recorded.result), now = static_cast<int>(got.result);
    bool same = true;
    switch (answer) {
    case Answer::passing:
    case Answer::nothing:
        return {};
    case Answer::number:
        same = before == now;
        break;
    case Answer::device_status:
        same = before == now || is_passing_status(before) || is_passing_status(now);
        break;
    default:
        same = is_success(answer, recorded.result) == is_success(answer, got.result) &&
               (is_success(answer, got.result) || error_of(answer, recorded) == error_of(answer, got));
    }
    if (same)
        return {};
    return os::format("recorded {}, replayed {}", describe(answer, recorded), describe(answer, got));
}

std::string compare_written(const RecordedCall &call, std::size_t position, Written got) {
    const record::Argument &argument = description_of(call).arguments[position];
    const RecordedPiece *piece = call.find(record::PieceKind::out, static_cast<unsigned>(position));
    if (!piece)
        return {};
    switch (argument.role) {
    case Role::out_status: {
        const std::uint32_t before = word_at(piece->bytes, 0), now = word_at(got, 0);
        // A recorded poll may have met a busy card.
        if (before == now || (before == HL_WAIT_CS_STATUS_BUSY && now == HL_WAIT_CS_STATUS_COMPLETED))
            return {};
        return os::format("recorded status {}, replayed status {}", name_of_status(before), name_of_status(now));
    }
    case Role::cs_out:
        if (word_at(piece->bytes, 8) == word_at(got, 8))
            return {};
        return os::format("recorded submission status {}, replayed submission status {}", word_at(piece->bytes, 8),
                          word_at(got, 8));
    case Role::out: {
        const std::size_t length = std::min(piece->bytes.size(), got.size());
        const auto [before, now] =
            std::mismatch(piece->bytes.begin(), piece->bytes.begin() + static_cast<long>(length), got.begin());
        if (before == piece->bytes.begin() + static_cast<long>(length))
            return {};
        return os::format("byte {} of the structure in argument {} was {:#04x}, and is {:#04x} in the replay",
                          before - piece->bytes.begin(), position + 1, static_cast<unsigned char>(*before),
                          static_cast<unsigned char>(*now));
    }
    default:
        return {};
    }
}

} // namespace gaudi::cli
