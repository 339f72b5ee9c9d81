// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"

#include "cli/holders.h"
#include "gaudi/card/cards.h"
#include "gaudi/card/verification_record.h"
#include "os/format.h"
#include "thunk/owners.h"

#include <cstring>
#include <map>
#include <utility>

namespace gaudi::cli::doctor {
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

void query(const thunk::Device &control, CardFacts &facts) {
    if (const auto status = control.status())
        facts.state = state_name(*status);
    else
        facts.state = os::format("unknown ({})", thunk::errno_name(status.error().code));
    if (const auto usage = control.dram_usage())
        facts.memory_free_bytes = usage->dram_free_mem;
    if (const auto resets = control.reset_count())
        facts.hard_resets = resets->hard_reset_count;
    if (const auto stats = control.open_stats())
        facts.in_use = stats->is_compute_ctx_active != 0 || stats->compute_ctx_in_release != 0;
    if (facts.in_use)
        for (Holder &holder : find_holders(control))
            facts.holders.push_back({holder.pid, std::move(holder.command), {}, false});
}

} // namespace

OrSentence<std::vector<CardFacts>> list_cards() {
    const auto cards = Cards::get();
    if (!cards)
        return Sentence(cards.error().text);
    std::vector<CardFacts> found;
    if ((*cards)->empty())
        return found;
    const auto control = open_controls((*cards)->library());
    for (const auto &card : (*cards)->all()) {
        const hlthunk_hw_ip_info &info = card->info();
        CardFacts facts;
        facts.number = card->number();
        facts.module_id = card->module_id();
        facts.bus_id = card->bus_id();
        facts.model = model_name(info.device_id);
        const auto *name = reinterpret_cast<const char *>(info.card_name);
        facts.card_name.assign(name, ::strnlen(name, sizeof info.card_name));
        facts.memory_bytes = info.dram_size;
        facts.firmware = card->versions().firmware;
        facts.takes_submissions = card->takes_submissions();
        if (card->takes_submissions()) {
            const FoundRecords records = find_records(card->library(), card->versions());
            CompletionDefault completion = choose_completion(records, card->versions());
            facts.completion_by_flag = completion.by_flag;
            facts.completion_reason = std::move(completion.reason);
            facts.completion_record = records.record ? records.record->path.string() : "";
        } else {
            facts.completion_reason = "this generation takes no command submissions";
        }
        facts.state = "gone"; // the state if its control node does not open any more
        if (const auto at = control.find(card->bus_id()); at != control.end())
            query(at->second.get(), facts);
        found.push_back(std::move(facts));
    }
    return found;
}

} // namespace gaudi::cli::doctor
