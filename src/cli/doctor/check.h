// SPDX-License-Identifier: BSD-3-Clause
// The checks of `ucx_gaudi doctor`: pure functions on facts. docs/doctor.md describes each by its id.
#pragma once

#include "facts.h"

#include <span>
#include <string>
#include <string_view>

namespace gaudi::cli::doctor {

enum class Verdict { ok, warn, fail, skip };
const char *name_of(Verdict verdict);

struct Outcome {
    Verdict verdict = Verdict::ok;
    std::string sentence;
    std::string fix; // a command or a setting; empty where there is nothing to do
};

inline Outcome ok(std::string sentence) { return {Verdict::ok, std::move(sentence), {}}; }
inline Outcome warn(std::string sentence, std::string fix) {
    return {Verdict::warn, std::move(sentence), std::move(fix)};
}
inline Outcome fail(std::string sentence, std::string fix) {
    return {Verdict::fail, std::move(sentence), std::move(fix)};
}
inline Outcome skip(std::string reason) { return {Verdict::skip, std::move(reason), {}}; }

struct Check {
    std::string_view id;
    std::string_view title;
    Outcome (*judge)(const Facts &facts);
};

std::span<const Check> kernel_checks();
std::span<const Check> card_checks();
std::span<const Check> path_checks();
std::span<const Check> ucx_checks();
std::span<const Check> setting_checks();
std::span<const Check> nic_checks();
std::span<const Check> limit_checks();
std::span<const Check> active_checks();

/// Why libhl-thunk shows no card, to be called if it shows none.
std::string explain_no_card(const Facts &facts);

struct Result {
    const Check *check;
    Outcome outcome;
};
/// All checks, in the order of their ids.
std::vector<Result> judge(const Facts &facts);

} // namespace gaudi::cli::doctor
