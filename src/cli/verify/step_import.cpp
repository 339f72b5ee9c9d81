// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/copy/queues.h"
#include "os/format.h"
#include "steps.h"

#include <cstring>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "import";
constexpr std::uint32_t kBytes = 64 << 10;

/// The first other card that opens.
thunk::DeviceFd open_other(const Cards &cards, const CardIdentity &except, const Card *&other) {
    for (const auto &card : cards.all()) {
        if (card->bus_id() == except.bus_id())
            continue;
        if (auto opened = thunk::DeviceFd::open(card->library(), card->bus_id())) {
            other = card.get();
            return std::move(*opened);
        }
    }
    return {};
}

/// Writes to the other card through its dma-buf, and reads there by the other card's own engine.
Result<bool> copy_across(const Target &target, const Target &other, std::uint64_t imported) {
    auto ring = TestRing::make(target, 1), other_ring = TestRing::make(other, 1);
    auto out = HostBlock::make(target.device, kBytes), back = HostBlock::make(other.device, kBytes);
    if (!ring || !other_ring || !out || !back)
        return tl::unexpected(thunk::make_error(ENOMEM, "mmap"));
    const auto seed = fresh_seed();
    fill((*out)->data(), kBytes, seed);
    const std::vector<std::uint32_t> within = card_queues(target.card);
    auto copied = (*ring)->copy(kDownQueues[0], (*out)->address(), target.memory, kBytes);
    if (copied)
        copied = (*ring)->copy(within.empty() ? kDownQueues[0] : within.front(), target.memory, imported, kBytes);
    if (copied)
        copied = (*other_ring)->copy(kUpQueues[0], other.memory, (*back)->address(), kBytes);
    if (!copied)
        return tl::unexpected(copied.error());
    return is_filled((*back)->data(), kBytes, seed);
}

} // namespace

void check_import(Findings &findings, const Cards &cards, const Target &target) {
    Finding finding{.step = kStep,
                    .ids = {"A16"},
                    .verdict = Verdict::not_testable,
                    .did = "opened another card to import its memory",
                    .saw = "there is no other card that opens"};
    const Card *card = nullptr;
    const thunk::DeviceFd opened = open_other(cards, target.card, card);
    if (!opened || !target.no_copies.empty()) {
        if (opened)
            finding.saw = target.no_copies;
        findings.add(std::move(finding));
        return;
    }
    finding.did = os::format("imported a dma-buf of card module:{} and copied to it", card->module_id());
    const std::uint64_t page = card->page_size();
    const auto block = DeviceBlock::make(opened.get(), page);
    const auto exported =
        block ? opened->export_dmabuf(block->address(), page) : Result<thunk::Fd>(tl::unexpected(block.error()));
    if (!exported) {
        finding.saw = exported.error().text;
        findings.add(std::move(finding));
        return;
    }
    auto imported = thunk::map_dmabuf(target.device, exported->get(), page);
    if (!imported) {
        finding.saw = imported.error().text;
        findings.add(std::move(finding));
        return;
    }
    const Target other{*card, opened.get(), block->address(), false};
    const auto copied = copy_across(target, other, imported->get());
    finding.verdict = verdict_of(copied && *copied);
    finding.saw = !copied ? copied.error().text : *copied ? "the bytes are in the other card's memory" : "wrong bytes";
    findings.add(std::move(finding));
    if (is_abandoned())
        imported->detach();
}

} // namespace gaudi::cli::verify
