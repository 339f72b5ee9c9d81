// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "steps.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "open";

std::string text_of(const Result<thunk::Wait> &waited) {
    if (!waited)
        return thunk::errno_name(waited.error().code);
    return *waited == thunk::Wait::done ? "done" : "busy";
}

/// The control node of the card; an error where none has its bus id.
Result<thunk::DeviceFd> open_control(const Card &card) {
    for (int minor = 0; minor < 256; ++minor) {
        auto control = thunk::DeviceFd::open_control(card.library(), minor);
        if (!control)
            continue;
        if (const auto bus_id = control->get().bus_id(); bus_id && *bus_id == card.bus_id())
            return std::move(*control);
    }
    return tl::unexpected(thunk::make_error(ENODEV, "hlthunk_open_control", card.bus_id()));
}

void check_duplicate(Findings &findings, const Card &card, const thunk::Device &device) {
    const thunk::Fd copy(::fcntl(device.fd(), F_DUPFD_CLOEXEC, 0));
    const thunk::Device second(card.library(), copy.get());
    std::string saw, outcome = "success";
    bool held = false;
    if (auto allocation = thunk::allocate(second, card.page_size()); !allocation) {
        saw = allocation.error().text;
        outcome = outcome_of(allocation);
    } else {
        // The handle of one descriptor is mapped, unmapped and freed through the other.
        const auto address = device.map(allocation->get());
        const auto unmapped = address ? second.unmap(*address) : Result<void>();
        held = address && unmapped;
        outcome = address ? outcome_of(unmapped) : outcome_of(address);
        saw = held       ? "the memory of one is mapped and unmapped by the other"
              : !address ? address.error().text
                         : unmapped.error().text;
    }
    findings.measure({kStep, "duplicate", outcome});
    findings.add({.step = kStep,
                  .ids = {"A20"},
                  .verdict = verdict_of(held),
                  .did = "duplicated the descriptor, allocated through the duplicate and mapped through the first",
                  .saw = saw});
}

void check_notifier(Findings &findings, const thunk::Device &device) {
    auto first = thunk::create_notifier(device);
    std::string saw;
    bool held = false;
    if (!first) {
        saw = first.error().text;
    } else {
        pollfd ready{first->get(), POLLIN, 0};
        const bool quiet = ::poll(&ready, 1, 0) == 0;
        const auto second = thunk::create_notifier(device);
        const auto released = first->release();
        const auto third = thunk::create_notifier(device);
        held = quiet && !second && released && third;
        saw = os::format("{}; second: {}; after a release: {}", quiet ? "no event" : "an event without a cause",
                         second ? "success" : thunk::errno_name(second.error().code),
                         third ? "success" : third.error().text);
    }
    findings.add({.step = kStep,
                  .ids = {"A40"},
                  .verdict = verdict_of(held),
                  .did = "registered for events of the card, twice, and again after a release",
                  .saw = saw});
}

} // namespace

void check_open(Findings &findings, const Card &card, const thunk::Device &device) {
    const auto again = thunk::DeviceFd::open(card.library(), card.bus_id());
    const auto control = open_control(card);
    findings.measure({kStep, "second_open", outcome_of(again)});
    findings.add({.step = kStep,
                  .ids = {"A13"},
                  .verdict = verdict_of(!again && again.error().code == EBUSY && control.has_value()),
                  .did = "opened the card a second time, and its control node",
                  .saw = os::format("second open: {}; control node: {}", outcome_of(again),
                                    control ? "success" : control.error().text)});
    const auto compute = device.wait(0, std::chrono::microseconds(0));
    findings.measure({kStep, "wait_0_compute_node", outcome_of(compute)});
    if (control) {
        const auto of_control = control->get().wait(0, std::chrono::microseconds(0));
        findings.measure({kStep, "wait_0_control_node", outcome_of(of_control)});
        findings.add({.step = kStep,
                      .ids = {"A19"},
                      .verdict = verdict_of(compute && *compute == thunk::Wait::done && !of_control),
                      .did = "waited for submission 0 on the compute node and on the control node",
                      .saw = os::format("compute node: {}; control node: {}", text_of(compute), text_of(of_control))});
    }
    check_duplicate(findings, card, device);
    check_notifier(findings, device);
}

} // namespace gaudi::cli::verify
