// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "steps.h"

#include <sys/mman.h>

#include <cerrno>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "memory";

/// Whether the program could have memory of its own at the address.
bool may_be_host_address(std::uint64_t address) {
    void *wanted = reinterpret_cast<void *>(address & ~std::uint64_t{4095});
    void *got = ::mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return errno == EEXIST;
    ::munmap(got, 4096);
    return got == wanted;
}

void check_page(Findings &findings, const Card &card, const thunk::Device &device) {
    const auto before = device.dram_usage();
    const auto block = DeviceBlock::make(device, 1);
    const auto after = device.dram_usage();
    if (!block) {
        findings.add({.step = kStep,
                      .ids = {"A18", "A8"},
                      .verdict = Verdict::failed,
                      .did = "allocated 1 byte",
                      .saw = block.error().text});
        return;
    }
    const std::uint64_t taken = before && after ? before->dram_free_mem - after->dram_free_mem : 0;
    const std::uint64_t offset = block->address() - card.info().dram_base_address;
    if (taken != 0)
        findings.measure({kStep, "page_bytes", taken});
    if (block->address() >= card.info().dram_base_address)
        findings.measure({kStep, "first_mapping_offset_bytes", offset});
    findings.add({.step = kStep,
                  .ids = {"A18"},
                  .verdict = verdict_of(taken == card.page_size() && offset % card.page_size() == 0),
                  .did = "allocated 1 byte and mapped it without a hint",
                  .saw = os::format("{} bytes were taken, pages have {}; mapped at {:#x}, {} pages and {} bytes from "
                                    "the start of the range",
                                    taken, card.page_size(), block->address(), offset / card.page_size(),
                                    offset % card.page_size())});
    const bool in_range = card.address_range().contains(block->address());
    const bool host = may_be_host_address(block->address());
    findings.add({.step = kStep,
                  .ids = {"A8"},
                  .verdict = verdict_of(in_range && !host),
                  .did = "tried to map host memory at the device address",
                  .saw = os::format("the address is {} the range of the card's memory, and host memory {} there",
                                    in_range ? "in" : "outside", host ? "can be" : "cannot be")});
}

void check_hint(Findings &findings, const Card &card, const thunk::Device &device) {
    const std::uint64_t hint = card.info().dram_base_address + 16 * card.page_size();
    const auto block = DeviceBlock::make(device, card.page_size(), hint);
    const auto taken = DeviceBlock::make(device, card.page_size(), hint); // the hint is not free any more
    const bool held = block && block->address() == hint && taken && taken->address() != hint;
    findings.measure({kStep, "hint", !block ? outcome_of(block) : block->address() == hint ? "honoured" : "ignored"});
    if (block && block->address() == hint)
        findings.measure({kStep, "taken_hint", taken ? "elsewhere" : outcome_of(taken)});
    findings.add({.step = kStep,
                  .ids = {"A7"},
                  .verdict = verdict_of(held),
                  .did = os::format("mapped two allocations with the hint {:#x}", hint),
                  .saw = os::format("the first: {}; the second: {}",
                                    block ? os::format("{:#x}", block->address()) : block.error().text,
                                    taken ? os::format("{:#x}", taken->address()) : taken.error().text)});
}

} // namespace

void check_memory(Findings &findings, const Card &card, const thunk::Device &device) {
    check_page(findings, card, device);
    check_hint(findings, card, device);
}

} // namespace gaudi::cli::verify
