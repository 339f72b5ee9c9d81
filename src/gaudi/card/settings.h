// SPDX-License-Identifier: BSD-3-Clause
// The settings of the device layer. The layer that reads the user's configuration fills them in, with the names by which
// the user knows them, so that messages can say what to change.
#pragma once

#include <cstdint>
#include <functional>

namespace gaudi {

/// A number that users can set.
struct Limit {
    std::uint64_t value = 0;
    const char *name = "a setting"; // for messages; a literal
};

/// How the end of a submission is noticed.
enum class CompletionMode {
    automatic, // by the flag where a verification record says that its order held, else by the driver
    flag,      // by the completion flag, where the self-test passes
    driver,    // the driver is asked, and the completion flag never trusted
};

struct Settings {
    CompletionMode completion = CompletionMode::automatic;
    /// Bytes of each card that allocations without a limit of their own may take.
    Limit max_memory{UINT64_MAX};
    /// Milliseconds to wait for cards in reset. The reset after the last user takes seconds; much longer means that
    /// something else is wrong.
    Limit open_timeout_ms{15'000};
    /// Bytes of host memory that may be mapped into cards at once.
    static constexpr std::uint64_t kHalfOfMemory = UINT64_MAX - 1; // of the machine
    Limit max_mapped_host{kHalfOfMemory};
};

/// The settings of this process. An engine or a wait takes those that hold when it starts.
Settings settings();

/// Changes some of them.
void change_settings(const std::function<void(Settings &)> &change);

} // namespace gaudi
