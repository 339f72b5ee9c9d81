// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "steps.h"

#include <cerrno>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "export";
constexpr std::uint64_t kSystemPage = 4096;

/// Whether anything is exported.
bool check_rules(Findings &findings, const Card &card, const thunk::Device &device) {
    auto block = DeviceBlock::make(device, card.page_size());
    if (!block) {
        findings.add({.step = kStep,
                      .ids = {"A9", "A10", "A17"},
                      .verdict = Verdict::failed,
                      .did = "allocated a page to export",
                      .saw = block.error().text});
        return false;
    }
    const std::uint64_t address = block->address(), page = card.page_size();
    auto whole = device.export_dmabuf(address, page);
    findings.measure({kStep, "whole", outcome_of(whole)});
    findings.add({.step = kStep,
                  .ids = {"A9"},
                  .verdict = verdict_of(whole.has_value()),
                  .did = "exported a whole page from its start",
                  .saw = whole ? "success" : whole.error().text});
    if (!whole) {
        findings.add({.step = kStep,
                      .ids = {"A10", "A17", "A39"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = "the driver exports no memory"});
        return false;
    }
    const auto first = device.export_dmabuf(address, kSystemPage);
    const auto inside = device.export_dmabuf(address + page / 2, page / 2);
    const auto longer = device.export_dmabuf(address, page + kSystemPage);
    const auto offset = export_from(device, address, kSystemPage, kSystemPage);
    findings.measure({kStep, "part", outcome_of(first)});
    findings.measure({kStep, "inside", outcome_of(inside)});
    findings.measure({kStep, "too_long", outcome_of(longer)});
    findings.measure({kStep, "offset", outcome_of(offset)});
    findings.add({.step = kStep,
                  .ids = {"A17"},
                  .verdict = verdict_of(first && !inside && !longer),
                  .did = "exported the first 4096 bytes, an address inside, more than the allocation, and an offset",
                  .saw = os::format("first 4096 bytes: {}; inside: {}; more: {}; offset 4096: {}", outcome_of(first),
                                    outcome_of(inside), outcome_of(longer), outcome_of(offset))});
    return true;
}

void check_unmap(Findings &findings, const Card &card, const thunk::Device &device) {
    auto block = DeviceBlock::make(device, card.page_size());
    auto exported = block ? device.export_dmabuf(block->address(), card.page_size())
                          : Result<thunk::Fd>(tl::unexpected(block.error()));
    if (!exported)
        return; // A9 has the reason
    const auto refused = block->mapping.release();
    const auto closed = exported->close();
    const auto unmapped = block->mapping.release(); // nothing to do where the first one succeeded
    findings.measure({kStep, "unmap_while_exported", outcome_of(refused)});
    findings.add({.step = kStep,
                  .ids = {"A10"},
                  .verdict = verdict_of(!refused && refused.error().code == EINVAL && closed && unmapped),
                  .did = "unmapped memory while its dma-buf was open, and after it was closed",
                  .saw = os::format("open: {}; closed: {}", outcome_of(refused), outcome_of(unmapped))});
}

/// The longest export of a mapping of `most` pages, which is too long itself.
std::uint64_t find_longest(const thunk::Device &device, std::uint64_t address, std::uint64_t page, std::uint64_t most) {
    std::uint64_t good = 0, bad = most;
    while (bad - good > 1) {
        const std::uint64_t pages = good + (bad - good) / 2;
        (device.export_dmabuf(address, pages * page) ? good : bad) = pages;
    }
    return good * page;
}

void check_all_memory(Findings &findings, const Card &card, const thunk::Device &device) {
    const auto usage = device.dram_usage();
    const std::uint64_t pages = usage ? usage->dram_free_mem / card.page_size() : 0;
    const std::uint64_t length = pages * card.page_size();
    const auto block = DeviceBlock::make(device, length);
    if (!block) {
        findings.add({.step = kStep,
                      .ids = {"A39"},
                      .verdict = Verdict::not_testable,
                      .did = os::format("allocated all {} MiB that are free", length >> 20),
                      .saw = block.error().text});
        return;
    }
    const auto exported = device.export_dmabuf(block->address(), length);
    const std::uint64_t longest = exported ? length : find_longest(device, block->address(), card.page_size(), pages);
    if (!exported)
        findings.measure({kStep, "longest_bytes", longest});
    findings.add({.step = kStep,
                  .ids = {"A39"},
                  .verdict = verdict_of(exported.has_value()),
                  .did = os::format("exported {} MiB, all that were free, at once", length >> 20),
                  .saw = exported
                             ? "success"
                             : os::format("{}; the longest export has {} MiB", exported.error().text, longest >> 20)});
}

} // namespace

void check_export(Findings &findings, const Card &card, const thunk::Device &device) {
    if (!card.library().has_dmabuf()) {
        findings.add({.step = kStep,
                      .ids = {"A9", "A10", "A17", "A39"},
                      .verdict = Verdict::failed,
                      .did = "looked for the function that exports dma-bufs",
                      .saw = os::format("{} has none", card.library().path())});
        return;
    }
    if (!check_rules(findings, card, device))
        return;
    check_unmap(findings, card, device);
    check_all_memory(findings, card, device);
}

} // namespace gaudi::cli::verify
