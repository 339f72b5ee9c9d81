// SPDX-License-Identifier: BSD-3-Clause
#include "info.h"

#include "cli/doctor/collect.h"
#include "cli/doctor/facts_file.h"
#include "cli/write_stdout.h"
#include "os/format.h"

#include <cstdio>

namespace gaudi::cli {

int run_info(const InfoOptions &options) {
    const auto facts =
        options.from.empty() ? doctor::collect(doctor::Machine::here()) : doctor::read_facts_file(options.from);
    if (!facts) {
        os::print(stderr, "ucx_gaudi: {}\n", facts.error());
        return 1;
    }
    const auto results = doctor::judge(*facts);
    return write_stdout(options.json ? info::format_json(*facts, results) : info::format_text(*facts, results)) ? 0 : 1;
}

} // namespace gaudi::cli
