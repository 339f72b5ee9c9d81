// SPDX-License-Identifier: BSD-3-Clause
// The page of counters: when it appears, who may read it, and when it vanishes.
#include "gaudi.h"

#include "gaudi/counters/counter_directory.h"
#include "gaudi/counters/counter_page.h"
#include "gaudi/counters/snapshot.h"

#include <gmock/gmock.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <functional>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

bool s_disk_full = false;

} // namespace

/// In place of the C library's: a file system without room.
extern "C" int fallocate(int fd, int, off_t offset, off_t length) {
    if (s_disk_full) {
        errno = ENOSPC;
        return -1;
    }
    return ftruncate(fd, offset + length);
}

namespace {

class CounterPageTest : public GaudiTest {
protected:
    CounterPageTest() { set("GAUDI_COUNTERS_DIR", directory()); }
    ~CounterPageTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory(), ignored);
    }

    std::string directory() const { return dir() + "-counters"; }

    /// The processes whose pages are there; removes stale ones.
    std::vector<ProcessSnapshot> processes() const {
        std::vector<ProcessSnapshot> found;
        const auto opened = CounterDirectory::open(false);
        if (!opened)
            return found;
        opened->for_each(1000, [&](int file, const std::string &) {
            CounterPage page;
            EXPECT_EQ(pread(file, static_cast<void *>(&page), sizeof page, 0), ssize_t{sizeof page});
            found.push_back(take_snapshot(page));
        });
        return found;
    }
    std::vector<std::uint32_t> pids() const {
        std::vector<std::uint32_t> found;
        for (const ProcessSnapshot &process : processes())
            found.push_back(process.pid);
        return found;
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory()), {}));
    }
    static std::uint32_t own_pid() { return static_cast<std::uint32_t>(getpid()); }

    /// A child that runs `step`, reports over a pipe that it has, and waits.
    class Child {
    public:
        explicit Child(const std::function<void()> &step) {
            int ready[2];
            EXPECT_EQ(pipe(ready), 0);
            m_pid = fork();
            if (m_pid == 0) {
                alarm(60);
                step();
                EXPECT_EQ(write(ready[1], "r", 1), 1);
                while (true)
                    pause();
            }
            close(ready[1]);
            char byte = 0;
            EXPECT_EQ(read(ready[0], &byte, 1), 1);
            close(ready[0]);
        }
        ~Child() { end(); }
        std::uint32_t pid() const { return static_cast<std::uint32_t>(m_pid); }
        void end() {
            if (m_pid > 0) {
                kill(m_pid, SIGKILL);
                waitpid(m_pid, nullptr, 0);
            }
            m_pid = -1;
        }

    private:
        pid_t m_pid = -1;
    };
};

TEST_F(CounterPageTest, appears_with_the_first_session) {
    EXPECT_FALSE(cards().empty());
    EXPECT_FALSE(std::filesystem::exists(directory())) << "discovery publishes nothing";
    ASSERT_TRUE(is_ok(card(2).open()));
    ASSERT_THAT(processes(), SizeIs(1));
    const ProcessSnapshot self = processes().front();
    EXPECT_EQ(self.pid, own_pid());
    EXPECT_EQ(self.command, program_invocation_short_name);
    EXPECT_TRUE(self.software);
    ASSERT_THAT(self.cards, SizeIs(1)) << "only cards that were opened";
    EXPECT_EQ(self.cards[0].module_id, card(2).module_id());
    EXPECT_EQ(self.cards[0].bus_id, card(2).bus_id());
    EXPECT_EQ(self.cards[0].memory_total_bytes, card(2).info().dram_size);
    ASSERT_TRUE(is_ok(card(1).open()));
    EXPECT_EQ(files(), 1u) << "one page for all cards";
    EXPECT_THAT(why_not_published(), IsEmpty());
}

TEST_F(CounterPageTest, is_private_to_the_user) {
    umask(0);
    ASSERT_TRUE(is_ok(card().open()));
    struct stat found {};
    ASSERT_EQ(stat(directory().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
    for (const auto &entry : std::filesystem::directory_iterator(directory())) {
        ASSERT_EQ(stat(entry.path().c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 07777, 0600u);
    }
}

TEST_F(CounterPageTest, memory_of_a_card_is_counted) {
    const std::uint64_t one = value(allocate(card(), {.length = kMiB})),
                        other = value(allocate(card(), {.length = kGiB}));
    CardSnapshot counted = processes().at(0).cards.at(0);
    EXPECT_EQ(counted.memory_used_bytes, kMiB + kGiB);
    EXPECT_EQ(counted.memory_held_bytes, usage_of(card()).block_bytes);
    EXPECT_TRUE(free_on(card(), other));
    counted = processes().at(0).cards.at(0);
    EXPECT_EQ(counted.memory_used_bytes, kMiB);
    EXPECT_EQ(counted.memory_held_bytes, usage_of(card()).block_bytes);
    EXPECT_TRUE(free_on(card(), one));
    EXPECT_FALSE(allocate(card(), {.length = 200 * kGiB}));
    counted = processes().at(0).cards.at(0);
    EXPECT_EQ(counted.memory_used_bytes, 0u);
}

TEST_F(CounterPageTest, vanishes_with_a_killed_process) {
    Child child([] { value(card(1).open()); });
    EXPECT_THAT(pids(), ElementsAre(child.pid()));
    child.end();
    EXPECT_EQ(files(), 1u) << "a killed process cannot remove its file";
    EXPECT_THAT(pids(), IsEmpty());
    EXPECT_EQ(files(), 0u) << "the reader has";
}

TEST_F(CounterPageTest, stale_files_are_removed_by_the_next_process) {
    Child([] { value(card(1).open()); }).end();
    ASSERT_EQ(files(), 1u);
    ASSERT_TRUE(is_ok(card().open()));
    EXPECT_EQ(files(), 1u);
    EXPECT_THAT(pids(), ElementsAre(own_pid()));
}

TEST_F(CounterPageTest, is_removed_at_exit) {
    const pid_t child = fork();
    if (child == 0) {
        value(card(1).open());
        exit(files() == 1 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(files(), 0u);
}

TEST_F(CounterPageTest, forked_child_does_not_count_in_its_parents) {
    CardCounters &parents = value(card().open())->counters();
    count_up(parents.exports, 3);
    const Child child([&] {
        EXPECT_EQ(value_of(counters().refused_copies), 0u);
        count_up(parents.exports, 100); // as an object of the parent's session might
        count_up(counters().refused_copies);
    });
    EXPECT_EQ(value_of(parents.exports), 3u);
    EXPECT_EQ(value_of(counters().refused_copies), 0u);
    EXPECT_THAT(pids(), ElementsAre(own_pid())) << "a child without a card has none";
}

TEST_F(CounterPageTest, forked_child_starts_over_without_a_card_too) {
    count_up(counters().refused_copies);
    const pid_t child = fork();
    if (child == 0)
        _exit(value_of(counters().refused_copies) == 0 ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(value_of(counters().refused_copies), 1u);
}

TEST_F(CounterPageTest, forked_child_that_opens_a_card_has_its_own) {
    value(card().open());
    const Child child([] { count_up(value(card(1).open())->counters().exports, 5); });
    EXPECT_THAT(pids(), ::testing::UnorderedElementsAre(own_pid(), child.pid()));
    for (const ProcessSnapshot &process : processes()) {
        ASSERT_THAT(process.cards, SizeIs(1));
        EXPECT_EQ(process.cards[0].exports, process.pid == own_pid() ? 0u : 5u);
        EXPECT_EQ(process.cards[0].module_id, card(process.pid == own_pid() ? 0 : 1).module_id());
    }
}

TEST_F(CounterPageTest, forked_child_does_not_keep_it_alive) {
    int grandchild[2];
    ASSERT_EQ(pipe(grandchild), 0);
    Child child([&] {
        value(card().open());
        if (fork() == 0) {
            // By the grandchild: only then has its handler of fork() let go of the page.
            const pid_t inner = getpid();
            EXPECT_EQ(write(grandchild[1], &inner, sizeof inner), ssize_t{sizeof inner});
            while (true)
                pause();
        }
    });
    pid_t inner = 0;
    ASSERT_EQ(read(grandchild[0], &inner, sizeof inner), ssize_t{sizeof inner});
    EXPECT_THAT(pids(), ElementsAre(child.pid()));
    child.end();
    EXPECT_THAT(pids(), IsEmpty());
    kill(inner, SIGKILL);
}

TEST_F(CounterPageTest, exec_ends_it) {
    int input[2], output[2];
    ASSERT_EQ(pipe(input), 0);
    ASSERT_EQ(pipe(output), 0);
    const pid_t child = fork();
    if (child == 0) {
        value(card().open());
        dup2(input[0], STDIN_FILENO);
        dup2(output[1], STDOUT_FILENO);
        execlp("cat", "cat", nullptr);
        _exit(1);
    }
    char byte = 'x';
    ASSERT_EQ(write(input[1], &byte, 1), 1);
    ASSERT_EQ(read(output[0], &byte, 1), 1); // cat runs
    EXPECT_EQ(files(), 1u);
    EXPECT_THAT(pids(), IsEmpty());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

class UnusableDirectory : public CounterPageTest {
protected:
    /// The process counts and works, and says why it is not shown.
    static void expect_refusal(const char *why) {
        const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
        EXPECT_THAT(why_not_published(), HasSubstr(why));
        EXPECT_EQ(value_of(counters().cards[0].memory_used_bytes), kMiB);
        EXPECT_TRUE(free_on(card(), memory));
    }
};

TEST_F(UnusableDirectory, open_to_other_users_is_refused) {
    ASSERT_EQ(mkdir(directory().c_str(), 0700), 0);
    ASSERT_EQ(chmod(directory().c_str(), 0750), 0);
    expect_refusal("other users may enter it");
    EXPECT_EQ(files(), 0u);
}

TEST_F(UnusableDirectory, of_another_user_is_refused) {
    if (geteuid() == 0) {
        ASSERT_EQ(mkdir(directory().c_str(), 0700), 0);
        ASSERT_EQ(chown(directory().c_str(), 65534, 65534), 0);
    } else {
        set("GAUDI_COUNTERS_DIR", "/usr");
    }
    expect_refusal("another user's");
}

TEST_F(UnusableDirectory, behind_a_symbolic_link_is_refused) {
    const std::string real = directory() + "-real";
    ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
    ASSERT_EQ(symlink(real.c_str(), directory().c_str()), 0);
    expect_refusal("cannot be used");
    std::filesystem::remove(real);
}

TEST_F(UnusableDirectory, on_no_file_system_is_refused) {
    set("GAUDI_COUNTERS_DIR", "/nonexistent/shm/ucx-gaudi");
    expect_refusal("No such file or directory");
}

TEST_F(UnusableDirectory, without_room_is_refused) {
    s_disk_full = true;
    expect_refusal("No space left on device");
    EXPECT_EQ(files(), 0u);
}

TEST_F(UnusableDirectory, beyond_the_limit_of_file_sizes_is_refused) {
    const rlimit none{0, RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    publish_counters("1.0"); // without a card, which the software server could not make
    EXPECT_THAT(why_not_published(), HasSubstr("File too large"));
    count_up(counters().refused_copies);
    EXPECT_EQ(value_of(counters().refused_copies), 1u);
    EXPECT_EQ(files(), 0u);
}

TEST_F(UnusableDirectory, of_the_parent_says_nothing_of_the_child) {
    set("GAUDI_COUNTERS_DIR", "/nonexistent/shm/ucx-gaudi");
    expect_refusal("No such file or directory");
    const pid_t child = fork();
    if (child == 0)
        _exit(why_not_published().empty() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(UnusableDirectory, that_is_empty_turns_pages_off) {
    set("GAUDI_COUNTERS_DIR", "");
    expect_refusal("GAUDI_COUNTERS_DIR is empty");
}

} // namespace
