// SPDX-License-Identifier: BSD-3-Clause
#include "counter_snapshot.h"

#include "gaudi/counters/counter_directory.h"
#include "os/format.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::cli {
namespace {

constexpr std::size_t kMostPages = 4096;

/// Read and not mapped: a file that shrinks meanwhile is short then, and no SIGBUS.
std::vector<std::byte> read_all(int file) {
    std::vector<std::byte> bytes(sizeof(CounterPage) + 1); // one more shows a file that is too long
    std::size_t got = 0;
    while (got < bytes.size()) {
        const ssize_t count = ::pread(file, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        got += static_cast<std::size_t>(count);
    }
    bytes.resize(got);
    return bytes;
}

} // namespace

bool CounterSnapshot::software() const {
    return std::any_of(processes.begin(), processes.end(),
                       [](const ProcessSnapshot &process) { return process.software; });
}

OrSentence<ProcessSnapshot> read_page(std::span<const std::byte> page) {
    CounterPage read_page;
    if (page.size() < offsetof(CounterPage, process))
        return Sentence(os::format("it has {} bytes and is no page of counters", page.size()));
    // Counters are plain 64-bit numbers in the file, and this copy has no other reader.
    std::memcpy(static_cast<void *>(&read_page), page.data(), std::min(page.size(), sizeof read_page));
    if (read_page.magic != CounterPage::kMagic)
        return Sentence("it does not begin as a page of counters does");
    if (read_page.layout != CounterPage::kLayout)
        return Sentence(os::format("another version of ucx-gaudi wrote it (layout {}, this one reads {})",
                                   read_page.layout, CounterPage::kLayout));
    if (read_page.size != sizeof read_page || page.size() != sizeof read_page)
        return Sentence(os::format("it has {} bytes and says {}, but a page has {}", page.size(), read_page.size,
                                   sizeof read_page));
    ProcessSnapshot process = take_snapshot(read_page);
    const auto twice = std::adjacent_find(
        process.cards.begin(), process.cards.end(),
        [](const CardSnapshot &one, const CardSnapshot &next) { return one.module_id == next.module_id; });
    if (twice != process.cards.end())
        return Sentence(os::format("it has card {} twice", twice->module_id));
    return process;
}

OrSentence<CounterSnapshot> take_counters() {
    CounterSnapshot snapshot;
    const auto directory = CounterDirectory::open(false);
    if (!directory && directory.error().code == ENOENT)
        return snapshot;
    if (!directory)
        return Sentence(directory.error().text);
    const bool complete = directory->for_each(kMostPages, [&](int file, const std::string &name) {
        auto process = read_page(read_all(file));
        if (process) {
            process->page = name;
            snapshot.processes.push_back(std::move(*process));
        } else {
            snapshot.skipped.push_back(
                os::format("{}/{} is skipped: {}", CounterDirectory::path(), name, process.error()));
        }
    });
    if (!complete)
        snapshot.skipped.push_back(
            os::format("{} has more than {} pages: the others are not shown", CounterDirectory::path(), kMostPages));
    std::sort(snapshot.processes.begin(), snapshot.processes.end(),
              [](const ProcessSnapshot &a, const ProcessSnapshot &b) { return a.pid < b.pid; });
    return snapshot;
}

OrSentence<ProcessSnapshot> take_counters_of(pid_t pid) {
    const auto all = take_counters();
    if (!all)
        return Sentence(all.error());
    for (const ProcessSnapshot &process : all->processes)
        if (process.pid == static_cast<std::uint32_t>(pid))
            return process;
    return Sentence(os::format("process {} has published no counters in {}", pid, CounterDirectory::path()));
}

} // namespace gaudi::cli
