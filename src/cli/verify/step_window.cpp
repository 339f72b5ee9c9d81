// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/copy/queues.h"
#include "interrupt.h"
#include "os/format.h"
#include "steps.h"

#include <vector>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "window";
constexpr unsigned kSubmissions = 200;      // the driver has room for 64
constexpr std::uint32_t kBytes = 256 << 10; // takes longer to copy than to submit, so that the window fills

} // namespace

void check_window(Findings &findings, const Target &target) {
    if (!target.no_copies.empty()) {
        findings.add({.step = kStep,
                      .ids = {"A6"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = target.no_copies});
        return;
    }
    const auto ring = TestRing::make(target, kSubmissions);
    const auto data = HostBlock::make(target.device, kBytes);
    std::string why = !ring ? ring.error().text : !data ? data.error().text : "";
    std::vector<std::uint64_t> sequences;
    for (unsigned i = 0; why.empty() && i < kSubmissions; ++i) {
        const auto sent = (*ring)->submit(i, kDownQueues[0], {(*data)->address(), target.memory, kBytes}, i + 1);
        if (sent) {
            sequences.push_back(*sent);
            continue;
        }
        std::uint64_t in_flight = 0;
        for (unsigned slot = 0; slot < i; ++slot)
            in_flight += (*ring)->flag(slot) == slot + 1 ? 0 : 1;
        if (in_flight != 0) {
            findings.measure({kStep, "most_in_flight", in_flight});
            findings.measure({kStep, "refusal", outcome_of(sent)});
        }
        why = os::format("with {} in flight: {}", in_flight, sent.error().text);
    }
    for (const std::uint64_t sequence : sequences)
        if (const auto ended = (*ring)->wait(sequence); !ended && why.empty())
            why = ended.error().text;
    const bool consecutive = !sequences.empty() && sequences.back() - sequences.front() == kSubmissions - 1;
    findings.add({.step = kStep,
                  .ids = {"A6"},
                  .verdict = verdict_of(why.empty() && (consecutive || target.shared)),
                  .did = os::format("sent {} submissions without waiting for one", kSubmissions),
                  .saw = !why.empty()  ? why
                         : consecutive ? "all were accepted, with consecutive numbers, and ended"
                                       : "all ended; their numbers are not consecutive"});
}

} // namespace gaudi::cli::verify
