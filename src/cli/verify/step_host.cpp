// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/copy/queues.h"
#include "os/format.h"
#include "steps.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "host";
constexpr std::size_t kPage = 4096;

struct OddRange {
    std::size_t offset, length;
};
constexpr std::array kRanges = {
    OddRange{0, 1},          OddRange{1, 4096},       OddRange{4095, 2},         OddRange{3, 4097},
    OddRange{4000, 100'003}, OddRange{2048, 1 << 20}, OddRange{0, (2 << 20) + 1}};

constexpr const OddRange &kOddLength = kRanges[0], &kOddStart = kRanges[1];

/// Maps one range, copies it down and up, and looks at the bytes beside it.
Result<bool> copies_right(const Target &target, TestRing &ring, std::byte *memory, const OddRange &range) {
    auto mapping = thunk::map_host(target.device, memory + range.offset, range.length);
    if (!mapping)
        return tl::unexpected(mapping.error());
    const auto seed = fresh_seed();
    const auto length = static_cast<std::uint32_t>(range.length);
    std::memset(memory, 0x5A, range.offset + range.length + kPage);
    fill(memory + range.offset, range.length, seed);
    Result<void> copied = ring.copy(kDownQueues[0], mapping->get(), target.memory, length);
    if (copied) {
        std::memset(memory + range.offset, 0, range.length);
        copied = ring.copy(kUpQueues[0], target.memory, mapping->get(), length);
    }
    if (!copied) {
        if (is_abandoned())
            mapping->detach();
        return tl::unexpected(copied.error());
    }
    bool clean = true;
    for (std::size_t i = 0; i < kPage; ++i) {
        clean = clean && memory[range.offset + range.length + i] == std::byte{0x5A};
        clean = clean && (i >= range.offset || memory[range.offset - 1 - i] == std::byte{0x5A});
    }
    return clean && is_filled(memory + range.offset, range.length, seed);
}

/// The card keeps the pages that were there when they were mapped, whatever the program maps at that address later.
Result<bool> keeps_pages(const Target &target, TestRing &ring) {
    constexpr std::size_t kLength = 16 * kPage;
    void *memory = ::mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tl::unexpected(thunk::from_minus_one(errno, "mmap", ""));
    auto *bytes = static_cast<std::byte *>(memory);
    const auto seed = fresh_seed();
    fill(bytes, kLength, seed);
    auto mapping = thunk::map_host(target.device, memory, kLength);
    auto back = HostBlock::make(target.device, kLength);
    if (!mapping || !back)
        return tl::unexpected(!mapping ? mapping.error() : back.error());
    // In one call, so that no other thread gets the address.
    if (::mmap(memory, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return tl::unexpected(thunk::from_minus_one(errno, "mmap", ""));
    std::memset(memory, 0, kLength);
    Result<void> copied = ring.copy(kDownQueues[0], mapping->get(), target.memory, kLength);
    if (copied)
        copied = ring.copy(kUpQueues[0], target.memory, (*back)->address(), kLength);
    if (is_abandoned())
        mapping->detach();
    else
        thunk::release_or_report([&] { return mapping->release(); });
    ::munmap(memory, kLength);
    if (!copied)
        return tl::unexpected(copied.error());
    return is_filled((*back)->data(), kLength, seed);
}

} // namespace

void check_host(Findings &findings, const Target &target) {
    if (!target.no_copies.empty()) {
        findings.add({.step = kStep,
                      .ids = {"A12", "A38"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = target.no_copies});
        return;
    }
    constexpr std::size_t kBytes = 4 << 20;
    void *memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto ring = TestRing::make(target, 1);
    std::string saw;
    unsigned right = 0;
    for (const OddRange &range : kRanges) {
        const auto copied = ring && !is_abandoned()
                                ? copies_right(target, **ring, static_cast<std::byte *>(memory), range)
                                : Result<bool>(false);
        if (&range == &kOddLength || &range == &kOddStart)
            findings.measure({kStep, &range == &kOddStart ? "odd_start" : "odd_length",
                              copied && !*copied ? "wrong bytes" : outcome_of(copied)});
        if (copied && *copied)
            ++right;
        else
            saw += os::format("; {} bytes at offset {}: {}", range.length, range.offset,
                              !ring    ? ring.error().text
                              : copied ? "wrong bytes"
                                       : copied.error().text);
    }
    if (!is_abandoned())
        ::munmap(memory, kBytes);
    findings.add({.step = kStep,
                  .ids = {"A12"},
                  .verdict = verdict_of(right == kRanges.size()),
                  .did = "mapped host memory of odd starts and lengths, copied it down and up, and looked beside it",
                  .saw = os::format("{} of {} ranges came back right{}", right, kRanges.size(), saw)});
    if (!ring || is_abandoned())
        return;
    const auto kept = keeps_pages(target, **ring);
    if (kept)
        findings.measure({kStep, "pages_kept", *kept});
    findings.add({.step = kStep,
                  .ids = {"A38"},
                  .verdict = verdict_of(kept && *kept),
                  .did = "mapped host memory into the card, replaced it in the program, and copied it",
                  .saw = !kept   ? kept.error().text
                         : *kept ? "the card read the pages that were mapped"
                                 : "the card read other pages than those that were mapped"});
}

} // namespace gaudi::cli::verify
