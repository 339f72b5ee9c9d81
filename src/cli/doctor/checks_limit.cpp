// SPDX-License-Identifier: BSD-3-Clause
// Limits of the process and the machine, and the round trip.
#include "check.h"
#include "cli/grouped.h"
#include "os/format.h"

#include <algorithm>
#include <array>

namespace gaudi::cli::doctor {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Outcome judge_locked_memory(const Facts &facts) {
    constexpr std::uint64_t kEnough = 1024 * kMiB;
    const auto limit = facts.process.locked_memory_bytes;
    if (facts.thunk.software)
        return skip("the cards are software (softgaudi): no memory is locked");
    if (facts.process.may_lock_memory)
        return ok("this user may lock any amount of memory (CAP_IPC_LOCK)");
    if (!limit)
        return ok("the limit of locked memory is unlimited");
    if (*limit >= kEnough)
        return ok(os::format("the limit of locked memory is {} MiB", *limit / kMiB));
    return warn(os::format("the limit of locked memory is {} KiB: NICs cannot register more host memory than that",
                           *limit / 1024),
                "ulimit -l unlimited (memlock in /etc/security/limits.conf; docker run --ulimit memlock=-1)");
}

Outcome judge_open_files(const Facts &facts) {
    constexpr std::uint64_t kEnough = 1024; // a descriptor for each block of 768 MiB on 8 cards, and UCX's own
    const auto limit = facts.process.open_files;
    if (!limit || *limit >= kEnough)
        return ok(limit ? os::format("{} files may be open", *limit) : "any number of files may be open");
    return warn(os::format("only {} files may be open: each exported block of card memory takes a descriptor", *limit),
                "ulimit -n 65536");
}

Outcome judge_shm(const Facts &facts) {
    const ProcessFacts &process = facts.process;
    if (process.shm_total_bytes == 0)
        return warn("there is no /dev/shm: UCX has no shared memory", "mount -t tmpfs tmpfs /dev/shm");
    const std::uint64_t wanted = facts.thunk.software ? 512 * kMiB : 64 * kMiB;
    if (process.shm_free_bytes >= wanted)
        return ok(os::format("/dev/shm has {} MiB free", process.shm_free_bytes / kMiB));
    return warn(os::format("/dev/shm has {} MiB free of {} MiB: {}", process.shm_free_bytes / kMiB,
                           process.shm_total_bytes / kMiB,
                           facts.thunk.software ? "the memory of software cards lies there"
                                                : "transfers between processes may fail"),
                "mount -o remount,size=2g /dev/shm (docker run --shm-size 2g)");
}

Outcome judge_huge_pages(const Facts &facts) {
    if (facts.process.huge_pages == 0 && facts.process.transparent_huge_pages == "never")
        return warn("there are no huge pages: pinning host memory for cards takes a page table entry for each 4 KiB",
                    "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    return ok(
        os::format("huge pages: {} reserved, transparent ones {}", facts.process.huge_pages,
                   facts.process.transparent_huge_pages.empty() ? "unknown" : facts.process.transparent_huge_pages));
}

constexpr std::array kChecks = {
    Check{"GD070", "locked memory", judge_locked_memory},
    Check{"GD071", "open files", judge_open_files},
    Check{"GD072", "/dev/shm", judge_shm},
    Check{"GD073", "huge pages", judge_huge_pages},
};

Outcome judge_round_trip(const Facts &facts) {
    if (!facts.round_trips)
        return skip("it opens cards: ucx_gaudi doctor --active");
    if (facts.round_trips->empty())
        return skip("there is no free card");
    std::vector<std::string> bad;
    for (const RoundTripFacts &trip : *facts.round_trips)
        if (!trip.good)
            bad.push_back(os::format("card {}{}: {}", trip.card,
                                     trip.nic.empty() ? "" : os::format(" through {}", trip.nic), trip.sentence));
    if (!bad.empty())
        return fail(os::join(bad, "; "), "ucx_gaudi verify");
    std::vector<std::uint64_t> left_alone;
    for (const CardFacts &card : facts.cards)
        if (std::ranges::find(*facts.round_trips, card.module_id, &RoundTripFacts::card) == facts.round_trips->end())
            left_alone.push_back(card.module_id);
    return ok(os::format("{} round trips, every byte arrived{}", facts.round_trips->size(),
                         left_alone.empty() ? "" : os::format("; {} not tried", name_cards(left_alone))));
}

constexpr std::array kActive = {Check{"GD090", "round trip", judge_round_trip}};

} // namespace

std::span<const Check> limit_checks() { return kChecks; }
std::span<const Check> active_checks() { return kActive; }

} // namespace gaudi::cli::doctor
