// SPDX-License-Identifier: BSD-3-Clause
#include "top.h"

#include "cli/write_stdout.h"
#include "os/format.h"
#include "snapshot_text.h"
#include "terminal.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace gaudi::cli {
namespace {

constexpr int kRefreshMs = 1000;

int report(const std::string &sentence) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return 1;
}

int print_once(bool json) {
    const auto snapshot = take_counters();
    if (!snapshot)
        return report(snapshot.error());
    for (const std::string &sentence : snapshot->skipped)
        report(sentence);
    return write_stdout(json ? top::format_json(*snapshot) : top::format_table(*snapshot)) ? 0 : 1;
}

/// Until the user ends it; the reason where it ends by itself.
OrSentence<void> show_live() {
    top::Terminal terminal;
    CounterSnapshot earlier;
    auto taken = std::chrono::steady_clock::now();
    for (bool first = true;; first = false) {
        auto snapshot = take_counters();
        if (!snapshot)
            return Sentence(snapshot.error());
        const auto now = std::chrono::steady_clock::now();
        std::string text = "ucx_gaudi top: every second; q ends it\n\n";
        text += top::format_table(*snapshot, first ? nullptr : &earlier,
                                  std::chrono::duration<double>(now - taken).count());
        for (const std::string &sentence : snapshot->skipped)
            text += sentence + "\n";
        if (!terminal.show(text))
            return Sentence("");
        earlier = std::move(*snapshot);
        taken = now;
        if (terminal.wait_for_end(kRefreshMs))
            return {};
    }
}

} // namespace

int run_top(const TopOptions &options) {
    if (options.once || options.json || ::isatty(STDOUT_FILENO) != 1)
        return print_once(options.json);
    const auto shown = show_live();
    if (shown)
        return 0;
    return shown.error().empty() ? 1 : report(shown.error());
}

} // namespace gaudi::cli
