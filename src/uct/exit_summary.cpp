// SPDX-License-Identifier: BSD-3-Clause
#include "exit_summary.h"

#include "gaudi/card/forks.h"
#include "gaudi/counters/counter_page.h"
#include "os/format.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace gaudi::uct {
namespace {

std::string mebibytes(std::uint64_t bytes) { return os::format("{:.1f}", static_cast<double>(bytes) / (1 << 20)); }

} // namespace

std::string format_summary(const ProcessSnapshot &process) {
    if (process.cards.empty())
        return "";
    std::string text = os::format("ucx-gaudi: process {} ({}){}\n", process.pid, process.command,
                                  process.software ? ", SOFTWARE: cards of softgaudi, not hardware" : "");
    text +=
        "  card  direct MiB  staged MiB  exported MiB    copies  submissions      hits    misses  deferred  errors\n";
    for (const CardSnapshot &card : process.cards)
        text +=
            os::format("  {:>4}  {:>10}  {:>10}  {:>12}  {:>8}  {:>11}  {:>8}  {:>8}  {:>8}  {:>6}\n", card.module_id,
                       mebibytes(card.direct_bytes()), mebibytes(card.staged_bytes()), mebibytes(card.exported_bytes),
                       card.direct_copies() + card.staged_copies(), card.submissions, card.mapping_hits(),
                       card.mapping_misses(), card.deferred_unmaps, card.errors());
    if (process.refused_copies != 0)
        text += os::format("  {} copies were refused, or were short copies that failed\n", process.refused_copies);
    return text;
}

void print_summary_at_exit() {
    static constinit std::atomic<unsigned> s_fork{0};
    static constinit std::atomic<bool> s_registered{false};
    s_fork.store(fork_count(), std::memory_order_relaxed);
    if (s_registered.exchange(true))
        return;
    std::atexit([] {
        if (s_fork.load(std::memory_order_relaxed) != fork_count())
            return;
        try {
            const std::string text = format_summary(take_snapshot(counters()));
            std::fwrite(text.data(), 1, text.size(), stderr);
        } catch (...) { // no memory: the process ends all the same
        }
    });
}

} // namespace gaudi::uct
