// SPDX-License-Identifier: BSD-3-Clause
// What `ucx_gaudi verify` has found out about a kind of card, for the defaults of later processes. A record is a JSON file
// verified-*.json in the user's directory, $XDG_CACHE_HOME/ucx-gaudi or ~/.cache/ucx-gaudi, or in ucx-gaudi-verified beside
// the libhl-thunk that was loaded. A set-uid program reads none.
#pragma once

#include "card_versions.h"
#include "result.h"
#include "thunk/library.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gaudi {

struct VerificationRecord {
    /// A shorter soak proves too little for a default: the completion flag is wrong rarely, and under load.
    static constexpr std::uint64_t kLeastSoakSeconds = 60;

    CardVersions versions;
    bool flag_order_held = false; // each completion flag was written after the data
    std::uint64_t soak_seconds = 0;
    std::filesystem::path path; // of a record that was read
};

/// The records for a card, and the sentence about each file that was ignored.
struct FoundRecords {
    std::optional<VerificationRecord> record; // the user's own before the one beside the library
    std::vector<std::string> ignored;
    bool secure = false; // the program is set-uid, so nothing was read
};
FoundRecords find_records(const thunk::Library &library, const CardVersions &versions);

/// How the ends of copies are noticed on a card by default, and why, in a sentence.
struct CompletionDefault {
    bool by_flag = false;
    std::string reason;
};
CompletionDefault choose_completion(const FoundRecords &records, const CardVersions &versions);

/// Empty where neither XDG_CACHE_HOME nor HOME names an absolute path, or the program is set-uid.
std::filesystem::path user_record_directory();
std::filesystem::path record_directory_beside(const thunk::Library &library);

/// Writes the record into the user's directory, in the place of an older one for the same versions; returns its path.
Result<std::filesystem::path> write_record(const VerificationRecord &record);

} // namespace gaudi
