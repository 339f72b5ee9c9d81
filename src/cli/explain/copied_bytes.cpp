// SPDX-License-Identifier: BSD-3-Clause
#include "copied_bytes.h"

#include "cli/counter_snapshot.h"

#include <unistd.h>

namespace gaudi::cli::explain {

std::optional<CopiedBytes> read_copied_bytes() {
    const auto counters = take_counters_of(::getpid());
    if (!counters)
        return {};
    const CardSnapshot total = counters->total();
    return CopiedBytes{
        total.bytes_on({Path::up, Path::up_mapped, Path::staged_up, Path::relayed_out}),
        total.bytes_on({Path::down, Path::down_mapped, Path::staged_down, Path::relayed_in}),
        total.bytes_on({Path::staged_up, Path::staged_down, Path::relayed_out}),
    };
}

} // namespace gaudi::cli::explain
