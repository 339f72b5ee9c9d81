// SPDX-License-Identifier: BSD-3-Clause
// Pages of counters as top and metrics read them: no field of one is trusted.
#include "cli/counter_snapshot.h"
#include "cli/top/snapshot_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>

using namespace gaudi;
using namespace gaudi::cli;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

namespace {

using Page = std::vector<std::byte>;

std::size_t index(Path path) { return static_cast<std::size_t>(path); }

/// A page with two cards, changed by `change`.
template <class Change>
Page make_page(Change change) {
    auto page = std::make_unique<CounterPage>();
    page->magic = CounterPage::kMagic;
    page->layout = CounterPage::kLayout;
    page->size = sizeof(CounterPage);
    page->process = 4711;
    page->command = {"trainer"};
    page->library = {"1.22.0"};
    for (const unsigned slot : {0u, 3u}) {
        CardCounters &card = page->cards[slot];
        card.bus_id = {"0000:33:00.0"};
        card.module_id = slot;
        card.sessions = 1;
        card.copies[index(Path::down)] = 5;
        card.copies[index(Path::down_mapped)] = 2;
        card.bytes[index(Path::down)] = 500;
        card.bytes[index(Path::staged_up)] = 30;
        card.copies[index(Path::staged_up)] = 3;
        card.bytes[index(Path::relayed_in)] = 7;
        card.bytes[index(Path::self_test)] = 1 << 20;
        card.exported_bytes = 4096;
    }
    change(*page);
    Page bytes(sizeof(CounterPage));
    std::memcpy(bytes.data(), static_cast<const void *>(page.get()), bytes.size());
    return bytes;
}
Page make_page() {
    return make_page([](CounterPage &) {});
}

TEST(CounterSnapshot, page_has_its_process_and_cards) {
    const auto process = read_page(make_page());
    ASSERT_TRUE(process) << process.error();
    EXPECT_EQ(process->pid, 4711u);
    EXPECT_EQ(process->command, "trainer");
    EXPECT_FALSE(process->software);
    ASSERT_THAT(process->cards, SizeIs(2));
    const CardSnapshot &card = process->cards[1];
    EXPECT_EQ(card.module_id, 3u);
    EXPECT_EQ(card.direct_bytes(), 500u);
    EXPECT_EQ(card.direct_copies(), 7u);
    EXPECT_EQ(card.staged_bytes(), 30u) << "bytes on their way from another card count there";
    EXPECT_EQ(card.mapping_hits(), 5u);
    EXPECT_EQ(card.mapping_misses(), 2u);
    EXPECT_EQ(process->total().exported_bytes, 8192u);
}

TEST(CounterSnapshot, page_of_every_wrong_length_is_refused) {
    Page page = make_page();
    page.emplace_back();
    EXPECT_FALSE(read_page(page));
    for (page.resize(sizeof(CounterPage) - 1); !page.empty(); page.pop_back())
        ASSERT_FALSE(read_page(page)) << page.size();
    EXPECT_FALSE(read_page(page));
}

TEST(CounterSnapshot, forged_header_is_refused_with_the_reason) {
    const auto refusal = [](auto change) { return read_page(make_page(change)).error(); };
    EXPECT_THAT(refusal([](CounterPage &page) { page.magic[3] = 'x'; }), HasSubstr("does not begin"));
    EXPECT_THAT(refusal([](CounterPage &page) { page.layout = 2; }), HasSubstr("layout 2, this one reads 1"));
    EXPECT_THAT(refusal([](CounterPage &page) { page.size = 17; }), HasSubstr("says 17"));
}

TEST(CounterSnapshot, text_without_an_end_or_with_control_characters_is_cleaned) {
    const auto process = read_page(make_page([](CounterPage &page) {
        page.command.fill('\033');
        page.library.fill('a');
        page.cards[0].bus_id.fill('\n');
        page.cards[3].bus_id = {"\xc2\x9b"
                                "a\x9b"
                                "b\xc3\xa4"}; // CSI as UTF-8 and as a bare byte, and a letter
    }));
    ASSERT_TRUE(process);
    EXPECT_EQ(process->command, std::string(32, '?'));
    EXPECT_EQ(process->library, std::string(64, 'a'));
    EXPECT_EQ(process->cards[0].bus_id, std::string(16, '?'));
    EXPECT_EQ(process->cards[1].bus_id, "??a?b\xc3\xa4");
}

TEST(CounterSnapshot, any_bytes_can_be_shown) {
    std::mt19937 random(18);
    const Page good = make_page();
    for (unsigned round = 0; round < 100; ++round) {
        Page page = good;
        for (auto i = random() % 200; i > 0; --i)
            page[random() % page.size()] = static_cast<std::byte>(random());
        std::memcpy(page.data(), good.data(), 16); // the header is tested above
        const auto process = read_page(page);
        if (!process) {
            EXPECT_THAT(process.error(), HasSubstr(" twice"));
            continue;
        }
        const CounterSnapshot snapshot{{*process}, {}};
        EXPECT_FALSE(top::format_table(snapshot, &snapshot, 1).empty());
        EXPECT_TRUE(nlohmann::json::accept(top::format_json(snapshot)));
        const std::string metrics = top::format_metrics(snapshot);
        EXPECT_TRUE(std::all_of(metrics.begin(), metrics.end(), [](char letter) {
            return letter == '\n' || (letter >= 0x20 && letter < 0x7f);
        })) << metrics;
    }
}

TEST(CounterSnapshot, page_with_a_card_twice_is_refused) {
    const auto process = read_page(make_page([](CounterPage &page) { page.cards[3].module_id = 0; }));
    EXPECT_EQ(process.error(), "it has card 0 twice");
}

TEST(CounterSnapshot, processes_of_two_pid_namespaces_have_series_of_their_own) {
    CounterSnapshot snapshot{{*read_page(make_page()), *read_page(make_page())}, {}};
    snapshot.processes[0].page = "4711-1.000000001";
    snapshot.processes[1].page = "4711-2.000000001";
    std::istringstream lines(top::format_metrics(snapshot));
    std::set<std::string> series;
    for (std::string line; std::getline(lines, line);) {
        const bool is_new = line.starts_with("# ") || series.insert(line.substr(0, line.rfind(' '))).second;
        EXPECT_TRUE(is_new) << line;
    }
    EXPECT_GT(series.size(), 50u);
}

TEST(CounterSnapshot, labels_are_escaped) {
    const auto process = read_page(make_page([](CounterPage &page) { page.command = {"a\"b\\c"}; }));
    EXPECT_THAT(top::format_metrics({{*process}, {}}), HasSubstr(R"(pid="4711",command="a\"b\\c")"));
}

TEST(CounterSnapshot, rate_is_that_of_the_time_between) {
    const auto before = read_page(make_page());
    const auto after = read_page(make_page([](CounterPage &page) {
        page.cards[0].bytes[index(Path::up)] = 8 << 20;
        page.cards[3].bytes[index(Path::staged_down)] = 2 << 20;
    }));
    const CounterSnapshot earlier{{*before}, {}};
    EXPECT_THAT(top::format_table({{*after}, {}}, &earlier, 2), HasSubstr("4.0 MiB/s direct, 1.0 MiB/s staged"));
    EXPECT_THAT(top::format_table({{*before}, {}}, nullptr), Not(HasSubstr("/s")));
}

class CounterFiles : public ::testing::Test {
protected:
    CounterFiles() {
        char name[] = "/dev/shm/counter-files-XXXXXX";
        m_directory = mkdtemp(name);
        setenv("GAUDI_COUNTERS_DIR", m_directory.c_str(), 1);
    }
    ~CounterFiles() override {
        for (const int fd : m_open)
            close(fd);
        std::filesystem::remove_all(m_directory);
    }
    /// As a living process has it: locked.
    void write_file(const std::string &name, const Page &page, bool locked = true) {
        const int fd = open((m_directory / name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        ASSERT_EQ(write(fd, page.data(), page.size()), static_cast<ssize_t>(page.size()));
        ASSERT_EQ(flock(fd, locked ? LOCK_EX : LOCK_UN), 0);
        m_open.push_back(fd);
    }

    std::filesystem::path m_directory;
    std::vector<int> m_open;
};

TEST_F(CounterFiles, missing_directory_is_no_process) {
    setenv("GAUDI_COUNTERS_DIR", (m_directory / "none").c_str(), 1);
    const auto snapshot = take_counters();
    ASSERT_TRUE(snapshot) << snapshot.error();
    EXPECT_THAT(snapshot->processes, IsEmpty());
    EXPECT_THAT(take_counters_of(4711).error(), HasSubstr("has published no counters"));
}

TEST_F(CounterFiles, directory_that_others_may_enter_is_refused) {
    ASSERT_EQ(chmod(m_directory.c_str(), 0755), 0);
    EXPECT_THAT(take_counters().error(), HasSubstr("other users may enter it"));
}

constexpr const char *kOne = "1-5.000000000", *kTwo = "2-5.000000000";

TEST_F(CounterFiles, unlocked_page_is_removed) {
    write_file(kOne, make_page());
    write_file(kTwo, make_page(), false);
    const auto snapshot = take_counters();
    ASSERT_TRUE(snapshot);
    EXPECT_THAT(snapshot->processes, SizeIs(1));
    EXPECT_TRUE(std::filesystem::exists(m_directory / kOne));
    EXPECT_FALSE(std::filesystem::exists(m_directory / kTwo));
    EXPECT_EQ(take_counters_of(4711)->cards.size(), 2u);
}

TEST_F(CounterFiles, files_that_are_no_pages_are_kept) {
    Page other = make_page();
    other[0] = std::byte{'x'};
    write_file(kOne, other, false);
    const std::vector<std::string> names = {"thesis.txt", "1-5.0000000000", "1-5.00000000", "-5.000000000",
                                            "1-5,000000000"};
    for (const std::string &name : names)
        write_file(name, make_page(), false);
    const auto snapshot = take_counters();
    ASSERT_TRUE(snapshot);
    EXPECT_THAT(snapshot->processes, IsEmpty());
    EXPECT_THAT(snapshot->skipped, IsEmpty());
    EXPECT_TRUE(std::filesystem::exists(m_directory / kOne));
    for (const std::string &name : names)
        EXPECT_TRUE(std::filesystem::exists(m_directory / name)) << name;
}

TEST_F(CounterFiles, unreadable_page_is_skipped_with_one_sentence) {
    write_file(kOne, make_page());
    Page short_page = make_page();
    short_page.resize(100);
    write_file(kTwo, short_page);
    const auto snapshot = take_counters();
    ASSERT_TRUE(snapshot);
    EXPECT_THAT(snapshot->processes, SizeIs(1));
    EXPECT_THAT(snapshot->skipped, ElementsAre(HasSubstr("/2-5.000000000 is skipped: it has 100 bytes")));
}

TEST_F(CounterFiles, what_is_no_file_is_left_alone) {
    ASSERT_EQ(mkfifo((m_directory / "fifo").c_str(), 0600), 0);
    ASSERT_EQ(symlink("/etc/passwd", (m_directory / "link").c_str()), 0);
    ASSERT_EQ(mkdir((m_directory / "directory").c_str(), 0700), 0);
    const auto snapshot = take_counters();
    ASSERT_TRUE(snapshot);
    EXPECT_THAT(snapshot->processes, IsEmpty());
    for (const char *name : {"fifo", "link", "directory"})
        EXPECT_EQ(std::filesystem::symlink_status(m_directory / name).type() == std::filesystem::file_type::not_found,
                  false)
            << name;
}

} // namespace
