// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "report.h"

#include "gaudi/card/cards.h"
#include "gaudi/card/verification_record.h"
#include "thunk/owners.h"

#include <cstring>
#include <map>
#include <utility>

namespace gaudi::cli {
namespace {

constexpr int kMinors = 256;

/// Control descriptors by the bus id of their card. They open no card for compute, so they take none from a program.
std::map<std::string, thunk::DeviceFd> open_controls(const thunk::Library &library) {
    std::map<std::string, thunk::DeviceFd> found;
    for (int minor = 0; minor < kMinors; ++minor) {
        auto control = thunk::DeviceFd::open_control(library, minor);
        if (!control)
            continue;
        if (auto bus_id = control->get().bus_id())
            found.emplace(std::move(*bus_id), std::move(*control));
    }
    return found;
}

std::string model_name(std::uint32_t device_id) {
    switch (device_id) {
    case HL_PCI_ID_GAUDI2:
        return "gaudi2";
    case HL_PCI_ID_GAUDI3:
        return "gaudi3";
    default:
        return os::format("device {:#06x}", device_id);
    }
}

std::string state_name(thunk::Status status) {
    switch (status) {
    case thunk::Status::operational:
        return "operational";
    case thunk::Status::in_reset:
        return "in reset";
    case thunk::Status::malfunction:
        return "malfunction";
    case thunk::Status::needs_reset:
        return "needs reset";
    case thunk::Status::in_creation:
        return "in creation";
    case thunk::Status::in_reset_after_release:
        return "in reset after release";
    }
    return os::format("state {}", static_cast<int>(status)); // of a newer driver
}

void query(const thunk::Device &control, CardReport &report) {
    if (const auto status = control.status())
        report.state = state_name(*status);
    else
        report.state = os::format("unknown ({})", thunk::errno_name(status.error().code));
    if (const auto usage = control.dram_usage())
        report.memory_free = usage->dram_free_mem;
    if (const auto resets = control.reset_count())
        report.hard_resets = resets->hard_reset_count;
    if (const auto stats = control.open_stats())
        report.in_use = stats->is_compute_ctx_active != 0 || stats->compute_ctx_in_release != 0;
    if (report.in_use)
        report.holders = find_holders(control);
}

} // namespace

OrSentence<std::vector<CardReport>> report_cards() {
    const auto cards = Cards::get();
    if (!cards)
        return Sentence(cards.error().text);
    std::vector<CardReport> found;
    if ((*cards)->empty())
        return found;
    const auto control = open_controls((*cards)->library());
    for (const auto &card : (*cards)->all()) {
        const hlthunk_hw_ip_info &info = card->info();
        CardReport report;
        report.number = card->number();
        report.module_id = card->module_id();
        report.bus_id = card->bus_id();
        report.model = model_name(info.device_id);
        const auto *name = reinterpret_cast<const char *>(info.card_name);
        report.card_name.assign(name, ::strnlen(name, sizeof info.card_name));
        report.memory_total = info.dram_size;
        report.firmware = card->versions().firmware;
        report.takes_submissions = card->takes_submissions();
        if (card->takes_submissions()) {
            CompletionDefault completion =
                choose_completion(find_records(card->library(), card->versions()), card->versions());
            report.completion_by_flag = completion.by_flag;
            report.completion_reason = std::move(completion.reason);
        } else {
            report.completion_reason = "this generation takes no command submissions";
        }
        report.state = "gone"; // the state if its control node does not open any more
        if (const auto at = control.find(card->bus_id()); at != control.end())
            query(at->second.get(), report);
        found.push_back(std::move(report));
    }
    return found;
}

std::string report_why_no_card() {
    const auto cards = Cards::get();
    return cards ? (*cards)->why_empty() : cards.error().text;
}

} // namespace gaudi::cli
