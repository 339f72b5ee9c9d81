// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/copy/queues.h"
#include "interrupt.h"
#include "os/format.h"
#include "steps.h"

#include <cstring>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "copies";
constexpr std::uint32_t kBytes = 256 << 10;

/// Copies and compares.
class Checker {
public:
    Checker(const Target &target, TestRing &ring, HostBlock &out, HostBlock &back)
        : m_target(target), m_ring(ring), m_out(out), m_back(back) {}

    /// The bytes go down by one queue and up by another; with `within`, through a copy within the card by a third.
    struct Outcome {
        std::string name = "success"; // for a measurement
        std::string why = {};         // what went wrong; empty after a success
    };
    Outcome check(std::uint32_t down, std::uint32_t up, std::optional<std::uint32_t> within = {},
                  std::uint32_t length = kBytes) {
        const auto seed = fresh_seed();
        fill(m_out.data(), length, seed);
        std::memset(m_back.data(), 0, length);
        std::uint64_t place = m_target.memory;
        Result<void> copied = m_ring.copy(down, m_out.address(), place, length);
        if (copied && within) {
            copied = m_ring.copy(*within, place, place + kBytes, length);
            place += kBytes;
        }
        if (copied)
            copied = m_ring.copy(up, place, m_back.address(), length);
        if (!copied)
            return {outcome_of(copied), copied.error().text};
        if (is_filled(m_back.data(), length, seed))
            return {};
        return {"wrong bytes", "wrong bytes"};
    }

private:
    const Target &m_target;
    TestRing &m_ring;
    HostBlock &m_out, &m_back;
};

/// The submission would copy, if the card took it.
void check_refusal(Findings &findings, const Target &target) {
    Finding finding{.step = kStep,
                    .ids = {"A14"},
                    .verdict = Verdict::not_testable,
                    .did = "submitted a copy of 256 KiB",
                    .saw = {}};
    const auto ring = TestRing::make(target, 1);
    const auto data = HostBlock::make(target.device, kBytes);
    if (!ring || !data) {
        finding.saw = !ring ? ring.error().text : data.error().text;
        findings.add(std::move(finding));
        return;
    }
    const auto sent = (*ring)->submit(0, kDownQueues[0], {(*data)->address(), target.memory, kBytes}, 1);
    finding.verdict = verdict_of(!sent);
    finding.saw = sent ? "it was accepted" : sent.error().text;
    if (sent)
        if (const auto ended = (*ring)->wait(*sent); !ended)
            finding.saw += os::format("; {}", ended.error().text);
    findings.measure({kStep, "submission", outcome_of(sent)});
    findings.add(std::move(finding));
}

} // namespace

void check_copies(Findings &findings, Target &target) {
    if (!target.card.takes_submissions()) {
        target.no_copies = "this generation takes no command submissions";
        check_refusal(findings, target);
        findings.add({.step = kStep,
                      .ids = {"A1", "A3", "A4", "A5"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = target.no_copies});
        return;
    }
    const auto ring = TestRing::make(target, 1);
    const auto out = HostBlock::make(target.device, kBytes), back = HostBlock::make(target.device, kBytes);
    if (!ring || !out || !back) {
        target.no_copies = "host memory for copies cannot be mapped";
        findings.add({.step = kStep,
                      .ids = {"A5"},
                      .verdict = Verdict::failed,
                      .did = "mapped host memory for command buffers and data",
                      .saw = !ring  ? ring.error().text
                             : !out ? out.error().text
                                    : back.error().text});
        return;
    }
    Checker checker(target, **ring, **out, **back);
    Checker::Outcome first = checker.check(kDownQueues[0], kUpQueues[0]);
    for (const std::uint32_t length : {1u, 4097u, kBytes - 1})
        if (first.why.empty())
            first = checker.check(kDownQueues[0], kUpQueues[0], {}, length);
    findings.add({.step = kStep,
                  .ids = target.shared ? std::vector<std::string>{"A21"} : std::vector<std::string>{"A1", "A5"},
                  .verdict = verdict_of(first.why.empty()),
                  .did = os::format("copied 1 byte to 256 KiB down by queue {} and up by queue {}, by LIN_DMA packets "
                                    "in host memory",
                                    kDownQueues[0], kUpQueues[0]),
                  .saw = first.why.empty() ? "the same bytes" : first.why});
    const auto measure = [&](std::uint32_t queue, const std::string &outcome) {
        if (!target.shared)
            findings.measure({kStep, os::format("queue_{}", queue), outcome});
    };
    if (!first.why.empty()) {
        target.no_copies = "copies do not arrive, as the step copies has found";
        for (const std::uint32_t queue : {kDownQueues[0], kUpQueues[0]}) // either of them may be the cause
            measure(queue, first.name);
        if (!target.shared)
            findings.add({.step = kStep,
                          .ids = {"A3", "A4"},
                          .verdict = Verdict::not_testable,
                          .did = "nothing",
                          .saw = "the first queues do not copy"});
        return;
    }
    std::string wrong;
    const auto collect = [&](std::uint32_t queue, const Checker::Outcome &outcome) {
        measure(queue, outcome.name);
        if (!outcome.why.empty())
            wrong += os::format("{}queue {}: {}", wrong.empty() ? "" : "; ", queue, outcome.why);
    };
    for (const std::uint32_t queue : kDownQueues)
        if (!is_abandoned())
            collect(queue, checker.check(queue, kUpQueues[0]));
    for (const std::uint32_t queue : kUpQueues)
        if (!is_abandoned())
            collect(queue, checker.check(kDownQueues[0], queue));
    findings.add({.step = kStep,
                  .ids = {"A3"},
                  .verdict = verdict_of(wrong.empty()),
                  .did = os::format("copied 256 KiB by queues {} down and {} up", os::join(kDownQueues, ", "),
                                    os::join(kUpQueues, ", ")),
                  .saw = wrong.empty() ? "the same bytes on each" : wrong});
    const std::vector<std::uint32_t> within = card_queues(target.card);
    wrong.clear();
    for (const std::uint32_t queue : within)
        if (!is_abandoned() && !is_interrupted())
            collect(queue, checker.check(kDownQueues[0], kUpQueues[0], queue));
    findings.add({.step = kStep,
                  .ids = {"A4"},
                  .verdict = within.empty() ? Verdict::not_testable : verdict_of(wrong.empty()),
                  .did = os::format("copied 256 KiB within the card by queues {} (mask {:#x})", os::join(within, ", "),
                                    target.card.info().edma_enabled_mask),
                  .saw = within.empty()  ? "the card reports no such queue"
                         : wrong.empty() ? "the same bytes on each"
                                         : wrong});
    if (!target.shared)
        findings.add({.step = kStep,
                      .ids = {"A14"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = "this card is no Gaudi3"});
}

} // namespace gaudi::cli::verify
