// SPDX-License-Identifier: BSD-3-Clause
// Cards and drivers that are not as ucx-gaudi assumes, as profiles of softgaudi (docs/softgaudi.md).
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace cli {

using Json = nlohmann::json;

inline constexpr std::uint64_t kDevicePage = 768 << 20; // of a Gaudi2

/// What a profile needs of the report of a Gaudi2. Facts that it does not have are those of softgaudi.
inline Json healthy_report() {
    return {{"schema", 1},
            {"card",
             {{"generation", "gaudi2"},
              {"memory_bytes", 127 * kDevicePage},
              {"memory_base", 0x1001001800000000u},
              {"page_bytes", kDevicePage},
              {"edma_mask", 255}}},
            {"behaviour", Json::object()}};
}

struct Untruth {
    const char *name;
    Json change;                  // of the healthy report
    std::set<std::string> failed; // the assumptions that verify names, and no others
    const char *reason = nullptr; // printed by a UCX program that cannot go on; null: every byte arrives
};
inline void PrintTo(const Untruth &untruth, std::ostream *out) { *out << untruth.name; }

inline Json fact(const char *step, const char *name, const Json &value) {
    return {{"behaviour", {{step, {{name, value}}}}}};
}

inline std::vector<Untruth> untruths() {
    constexpr const char *kSelfTest = "copies do not arrive, or arrive with other bytes";
    constexpr const char *kSubmission = "hlthunk_command_submission(1 chunks) failed with EINVAL";
    return {
        {"copies_move_nothing", fact("copies", "queue_0", "wrong bytes"), {"A1", "A5"}, kSelfTest},
        {"queue_to_the_card_refuses", fact("copies", "queue_1", "EINVAL"), {"A3"}, kSubmission},
        {"queue_to_the_host_moves_nothing", fact("copies", "queue_5", "wrong bytes"), {"A3"}, kSelfTest},
        {"queue_within_the_card_moves_nothing", fact("copies", "queue_48", "wrong bytes"), {"A4"}, kSelfTest},
        {"queue_of_small_copies_refuses", fact("copies", "queue_9", "EINVAL"), {"A4"}, kSubmission},
        {"window_is_shorter", {{"behaviour", {{"window", {{"most_in_flight", 2}, {"refusal", "ENOMEM"}}}}}}, {"A6"}},
        {"hint_is_ignored", fact("memory", "hint", "ignored"), {"A7"}},
        {"hint_is_refused",
         fact("memory", "hint", "EINVAL"),
         {"A7"},
         "hlthunk_device_memory_map(0x1) failed with EINVAL"},
        {"taken_hint_is_refused", fact("memory", "taken_hint", "EINVAL"), {"A7"}},
        {"memory_is_in_the_range_of_the_processor", {{"card", {{"memory_base", 0x400000000000u}}}}, {"A8"}},
        {"nothing_is_exported", fact("export", "whole", "EPERM"), {"A9"}},
        {"exported_memory_can_be_unmapped", fact("export", "unmap_while_exported", "success"), {"A10"}},
        {"odd_start_is_refused", fact("host", "odd_start", "EINVAL"), {"A12"}},
        {"odd_length_is_refused", fact("host", "odd_length", "EFAULT"), {"A12"}},
        {"second_open_is_told_to_wait", fact("open", "second_open", "EAGAIN"), {"A13"}},
        {"second_open_succeeds", fact("open", "second_open", "success"), {"A13"}},
        {"part_of_an_allocation_is_not_exported", fact("export", "part", "EINVAL"), {"A17"}},
        {"address_inside_is_exported", fact("export", "inside", "success"), {"A17"}},
        {"more_than_the_allocation_is_exported", fact("export", "too_long", "success"), {"A17"}},
        {"page_is_smaller", fact("memory", "page_bytes", kDevicePage / 2), {"A18"}},
        {"mapping_begins_inside_a_page", fact("memory", "first_mapping_offset_bytes", 1 << 20), {"A18"}},
        {"submission_0_is_unknown", fact("open", "wait_0_compute_node", "EINVAL"), {"A19"}},
        {"control_node_waits", fact("open", "wait_0_control_node", "success"), {"A19"}},
        {"duplicate_has_no_context", fact("open", "duplicate", "EINVAL"), {"A20"}},
        {"host_pages_are_not_kept", fact("host", "pages_kept", false), {"A38"}},
        {"bar_is_shorter", fact("export", "longest_bytes", 64 * kDevicePage), {"A39"}},
    };
}

inline void write_profile(const std::string &file, const Json &change) {
    Json report = healthy_report();
    report.merge_patch(change);
    std::ofstream(file) << report;
}

} // namespace cli
