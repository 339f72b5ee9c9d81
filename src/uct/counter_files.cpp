// SPDX-License-Identifier: BSD-3-Clause
#include "counter_files.h"

#include "gaudi/counters/counter_page.h"
#include "gaudi/counters/snapshot.h"

#include <array>

namespace gaudi::uct {

using namespace ucx;

namespace {

struct CardFile {
    const char *name;
    std::uint64_t (*value)(const CardSnapshot &card);
};

constexpr auto kCardFiles = std::to_array<CardFile>({
    {"direct_copies", [](const CardSnapshot &card) { return card.direct_copies(); }},
    {"direct_bytes", [](const CardSnapshot &card) { return card.direct_bytes(); }},
    {"staged_copies", [](const CardSnapshot &card) { return card.staged_copies(); }},
    {"staged_bytes", [](const CardSnapshot &card) { return card.staged_bytes(); }},
    {"exports", [](const CardSnapshot &card) { return card.exports; }},
    {"exported_bytes", [](const CardSnapshot &card) { return card.exported_bytes; }},
    {"submissions", [](const CardSnapshot &card) { return card.submissions; }},
    {"host_mapping_hits", [](const CardSnapshot &card) { return card.mapping_hits(); }},
    {"host_mapping_misses", [](const CardSnapshot &card) { return card.mapping_misses(); }},
    {"memory_held_bytes", [](const CardSnapshot &card) { return card.memory_held_bytes; }},
    {"memory_used_bytes", [](const CardSnapshot &card) { return card.memory_used_bytes; }},
    {"deferred_unmaps", [](const CardSnapshot &card) { return card.deferred_unmaps; }},
    {"deferred_unmaps_pending", [](const CardSnapshot &card) { return card.deferred_unmaps_pending; }},
    {"failed_transfers", [](const CardSnapshot &card) { return card.failed_transfers; }},
    {"failed_allocations", [](const CardSnapshot &card) { return card.failed_allocations; }},
    {"failed_exports", [](const CardSnapshot &card) { return card.failed_exports; }},
    {"resets", [](const CardSnapshot &card) { return card.resets; }},
});

struct ProcessFile {
    const char *name;
    const Counter &(*counter)();
};

constexpr auto kProcessFiles = std::to_array<ProcessFile>({
    {"refused_copies", []() -> const Counter & { return counters().refused_copies; }},
    {"mapped_host_bytes", []() -> const Counter & { return counters().mapped_host_bytes; }},
});

void print(const Host &host, ucs_string_buffer *text, std::uint64_t value) {
    host.call().ucs_string_buffer_appendf(text, "%llu\n", static_cast<unsigned long long>(value));
}

void show_process_file(void *files, ucs_string_buffer *text, void *, std::uint64_t file) {
    print(static_cast<const CounterFiles *>(files)->host, text, value_of(kProcessFiles[file].counter()));
}

void show_card_file(void *card, ucs_string_buffer *text, void *files, std::uint64_t file) {
    const CardCounters &entry = counters().cards[static_cast<const Card *>(card)->slot()];
    // The first session writes the card's identity into the entry, and then this.
    const bool used = entry.sessions.load(std::memory_order_acquire) != 0;
    print(static_cast<const CounterFiles *>(files)->host, text,
          kCardFiles[file].value(used ? take_snapshot(entry) : CardSnapshot{}));
}

/// UCX calls it when the directory is first listed.
void add_files(void *object) {
    auto &files = *static_cast<CounterFiles *>(object);
    const Functions &call = files.host.call();
    for (std::size_t i = 0; i < kProcessFiles.size(); ++i)
        call.ucs_vfs_obj_add_ro_file(&files, show_process_file, nullptr, i, "%s", kProcessFiles[i].name);
    for (const auto &card : files.cards.all()) {
        if (card->slot() >= CounterPage::kCards)
            continue;
        call.ucs_vfs_obj_add_dir(&files, card.get(), "card%u", card->module_id());
        for (std::size_t i = 0; i < kCardFiles.size(); ++i)
            call.ucs_vfs_obj_add_ro_file(card.get(), show_card_file, &files, i, "%s", kCardFiles[i].name);
    }
}

} // namespace

void add_counter_files(CounterFiles &files) {
    const Functions &call = files.host.call();
    if (!call.ucs_vfs_obj_add_dir || !call.ucs_vfs_obj_add_ro_file || !call.ucs_vfs_obj_set_dirty ||
        !call.ucs_string_buffer_appendf)
        return;
    call.ucs_vfs_obj_add_dir(nullptr, &files, "gaudi");
    call.ucs_vfs_obj_set_dirty(&files, add_files);
}

} // namespace gaudi::uct
