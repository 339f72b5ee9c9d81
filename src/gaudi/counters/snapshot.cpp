// SPDX-License-Identifier: BSD-3-Clause
#include "snapshot.h"

#include "os/printable.h"

#include <algorithm>
#include <cstring>

namespace gaudi {
namespace {

/// The text up to its NUL or the end of the field, with nothing in it that a terminal would obey.
template <std::size_t Size>
std::string clean_text(const std::array<char, Size> &field) {
    return os::printable({field.data(), ::strnlen(field.data(), Size)});
}

constexpr std::initializer_list<Path> kDirect = {Path::within_card, Path::down,      Path::down_mapped,
                                                 Path::up,          Path::up_mapped, Path::to_card};
constexpr std::initializer_list<Path> kStaged = {Path::staged_down, Path::staged_up, Path::relayed_out};

} // namespace

std::uint64_t CardSnapshot::copies_on(std::initializer_list<Path> paths) const {
    std::uint64_t sum = 0;
    for (const Path path : paths)
        sum += copies[static_cast<std::size_t>(path)];
    return sum;
}

std::uint64_t CardSnapshot::bytes_on(std::initializer_list<Path> paths) const {
    std::uint64_t sum = 0;
    for (const Path path : paths)
        sum += bytes[static_cast<std::size_t>(path)];
    return sum;
}

std::uint64_t CardSnapshot::direct_copies() const { return copies_on(kDirect); }
std::uint64_t CardSnapshot::direct_bytes() const { return bytes_on(kDirect); }
std::uint64_t CardSnapshot::staged_copies() const { return copies_on(kStaged); }
std::uint64_t CardSnapshot::staged_bytes() const { return bytes_on(kStaged); }
std::uint64_t CardSnapshot::mapping_hits() const { return copies_on({Path::down, Path::up}); }
std::uint64_t CardSnapshot::mapping_misses() const { return copies_on({Path::down_mapped, Path::up_mapped}); }
std::uint64_t CardSnapshot::errors() const { return failed_transfers + failed_allocations + failed_exports + resets; }

CardSnapshot ProcessSnapshot::total() const {
    CardSnapshot sum;
    for (const CardSnapshot &card : cards) {
        for (std::size_t i = 0; i < kPaths; ++i) {
            sum.copies[i] += card.copies[i];
            sum.bytes[i] += card.bytes[i];
        }
        for (const auto member :
             {&CardSnapshot::memory_total_bytes, &CardSnapshot::memory_held_bytes, &CardSnapshot::memory_used_bytes,
              &CardSnapshot::submissions, &CardSnapshot::exports, &CardSnapshot::exported_bytes,
              &CardSnapshot::deferred_unmaps, &CardSnapshot::deferred_unmaps_pending, &CardSnapshot::failed_transfers,
              &CardSnapshot::failed_allocations, &CardSnapshot::failed_exports, &CardSnapshot::resets})
            sum.*member += card.*member;
    }
    return sum;
}

CardSnapshot take_snapshot(const CardCounters &card) {
    CardSnapshot out;
    out.bus_id = clean_text(card.bus_id);
    out.module_id = card.module_id;
    out.memory_total_bytes = card.memory_total_bytes;
    out.memory_held_bytes = value_of(card.memory_held_bytes);
    out.memory_used_bytes = value_of(card.memory_used_bytes);
    for (std::size_t i = 0; i < kPaths; ++i) {
        out.copies[i] = value_of(card.copies[i]);
        out.bytes[i] = value_of(card.bytes[i]);
    }
    out.submissions = value_of(card.submissions);
    out.exports = value_of(card.exports);
    out.exported_bytes = value_of(card.exported_bytes);
    out.deferred_unmaps = value_of(card.deferred_unmaps);
    out.deferred_unmaps_pending = value_of(card.deferred_unmaps_pending);
    out.failed_transfers = value_of(card.failed_transfers);
    out.failed_allocations = value_of(card.failed_allocations);
    out.failed_exports = value_of(card.failed_exports);
    out.resets = value_of(card.resets);
    return out;
}

ProcessSnapshot take_snapshot(const CounterPage &page) {
    ProcessSnapshot out;
    out.pid = page.process;
    out.command = clean_text(page.command);
    out.library = clean_text(page.library);
    out.software = out.library.find("softgaudi") != std::string::npos;
    out.started_seconds = page.started_seconds;
    out.refused_copies = value_of(page.refused_copies);
    out.mapped_host_bytes = value_of(page.mapped_host_bytes);
    for (const CardCounters &card : page.cards)
        if (card.sessions.load(std::memory_order_acquire) != 0)
            out.cards.push_back(take_snapshot(card));
    std::sort(out.cards.begin(), out.cards.end(),
              [](const CardSnapshot &a, const CardSnapshot &b) { return a.module_id < b.module_id; });
    return out;
}

} // namespace gaudi
