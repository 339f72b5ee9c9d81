// SPDX-License-Identifier: BSD-3-Clause
// The end of a verification: a table for people, JSON for us.
#pragma once

#include "findings.h"
#include "gaudi/card/card.h"
#include "verify_options.h"

#include <string>

namespace gaudi::cli::verify {

struct Summary {
    const VerifyOptions &options;
    const Card &card;
    const Findings &findings;
    bool software = false;
    bool interrupted = false;
    bool record_order_held = false; // with record_seconds, what the record says
    std::uint64_t record_seconds = 0;
    std::string record = {}; // its path; empty where none was written
};

std::string format_table(const Summary &summary);
std::string format_report(const Summary &summary);

} // namespace gaudi::cli::verify
