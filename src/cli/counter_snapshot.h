// SPDX-License-Identifier: BSD-3-Clause
// The counters that processes of this user have published (gaudi/counters/counters.h), as read at one moment. A page is
// input of another program: no field of it is trusted.
#pragma once

#include "gaudi/counters/snapshot.h"
#include "sentence.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gaudi::cli {

struct CounterSnapshot {
    std::vector<ProcessSnapshot> processes; // by process id
    std::vector<std::string> skipped;       // a sentence for each page that cannot be read

    bool software() const;
};

/// One page; the sentence says what is wrong with it.
OrSentence<ProcessSnapshot> read_page(std::span<const std::byte> page);
/// All pages; removes those of processes that have ended. No process is no error.
OrSentence<CounterSnapshot> take_counters();
/// The page of one process; an error where it has published none.
OrSentence<ProcessSnapshot> take_counters_of(pid_t pid);

} // namespace gaudi::cli
