// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"
#include "fake_ucx.h"
#include "untruths.h"

#include <gmock/gmock.h>

#include <sys/inotify.h>

#include <algorithm>
#include <fstream>

namespace cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kTree = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path().string();

// ---- what it hands on -------------------------------------------------------------------------------------------

TEST(Run, exit_code_is_that_of_the_program) {
    EXPECT_EQ(result(run({}, {"true"})).code, 0);
    EXPECT_EQ(result(run({}, shell("exit 42"))).code, 42);
    EXPECT_EQ(result(run({}, shell("kill -9 $$"))).code, 128 + SIGKILL);
    EXPECT_EQ(result(run({}, shell("kill -TERM $$"))).code, 128 + SIGTERM);
}

TEST(Run, arguments_and_streams_pass_unchanged) {
    const Result got = result(run({}, {"/bin/echo", "--version", "a  b", "--", "-v", ""}));
    EXPECT_EQ(got.out, "--version a  b -- -v \n");
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_EQ(result(run({}, shell("echo two >&2"))).err, kSoftware + "two\n");
}

TEST(Run, failed_start_prints_the_reason) {
    const Result missing = result(run({}, {"no-such-program"}));
    EXPECT_EQ(missing.code, 127);
    EXPECT_EQ(missing.err, kSoftware + "ucx_gaudi: cannot run 'no-such-program': No such file or directory\n");
    const Result refused = result(run({}, {"/etc/passwd"}));
    EXPECT_EQ(refused.code, 126);
    EXPECT_EQ(refused.err, kSoftware + "ucx_gaudi: cannot run '/etc/passwd': Permission denied\n");
}

// ---- what it sets -----------------------------------------------------------------------------------------------

std::string variable(const char *name, Words options = {}) {
    std::string out = result(run(std::move(options), shell(std::string("echo \"$") + name + "\""))).out;
    EXPECT_THAT(out, EndsWith("\n"));
    out.pop_back();
    return out;
}

TEST(Run, variables_name_the_parts_of_the_product) {
    ::unsetenv("UCX_PLUGIN_PATH");
    EXPECT_EQ(variable("UCX_PLUGIN_PATH"), kTree + "/lib/ucx-gaudi");
    EXPECT_EQ(variable("GAUDI_THUNK"), kTree + "/lib/softgaudi/libhl-thunk.so");
    EXPECT_THAT(variable("SOFTGAUDI_DIR"), StartsWith("/dev/shm/ucx_gaudi-run-"));
    EXPECT_THAT(variable("LD_LIBRARY_PATH"), StartsWith(kTree + "/lib/softgaudi"));
}

TEST(Run, own_paths_precede_those_of_the_user) {
    ::setenv("UCX_PLUGIN_PATH", "/one:/two", 1);
    ::setenv("LD_LIBRARY_PATH", "/three", 1);
    EXPECT_EQ(variable("UCX_PLUGIN_PATH"), kTree + "/lib/ucx-gaudi:/one:/two");
    EXPECT_EQ(variable("LD_LIBRARY_PATH"), kTree + "/lib/softgaudi:/three");
}

void unset_open_mpi() {
    for (const char *name : {"OMPI_MCA_pml", "OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_opal_common_ucx_devices"})
        ::unsetenv(name);
}

TEST(Run, open_mpi_takes_ucx_unless_the_user_chose) {
    unset_open_mpi();
    EXPECT_EQ(variable("OMPI_MCA_pml"), "ucx");
    EXPECT_EQ(variable("OMPI_MCA_opal_common_ucx_tls"), "any");
    EXPECT_EQ(variable("OMPI_MCA_opal_common_ucx_devices"), "any");
    ::setenv("OMPI_MCA_pml", "ob1", 1);
    ::setenv("OMPI_MCA_opal_common_ucx_tls", "rc", 1);
    EXPECT_EQ(variable("OMPI_MCA_pml"), "ob1");
    EXPECT_EQ(variable("OMPI_MCA_opal_common_ucx_tls"), "rc");
    EXPECT_EQ(variable("OMPI_MCA_opal_common_ucx_devices"), "any");
}

TEST(Run, options_become_variables_of_softgaudi) {
    ::setenv("SOFTGAUDI_CARDS", "1", 1);
    EXPECT_EQ(variable("SOFTGAUDI_CARDS"), "1"); // kept, where no option is given
    EXPECT_EQ(variable("SOFTGAUDI_CARDS", {"--cards", "3"}), "3");
    EXPECT_EQ(variable("SOFTGAUDI_MODEL", {"--model", "gaudi3"}), "gaudi3");
    EXPECT_EQ(variable("SOFTGAUDI_PACE", {"--pace", "down:25,up:25"}), "down:25,up:25");
    EXPECT_EQ(variable("SOFTGAUDI_FAULTS", {"--faults", "open@1#1=EAGAIN"}), "open@1#1=EAGAIN");
    EXPECT_EQ(variable("SOFTGAUDI_QUIRKS", {"--quirks", "mainline,posted"}), "mainline,posted");
    const std::string profile = "/dev/shm/cli-run-test-profile-" + std::to_string(::getpid());
    write_profile(profile, Json::object());
    EXPECT_EQ(variable("SOFTGAUDI_PROFILE", {"--profile", fs::relative(profile)}), profile);
    fs::remove(profile);
}

TEST(Run, verbose_prints_variables_and_command) {
    ::unsetenv("UCX_PLUGIN_PATH");
    ::unsetenv("LD_LIBRARY_PATH");
    unset_open_mpi();
    const Result got = result(run({"-v", "--cards", "2"}, shell("echo \"$SOFTGAUDI_DIR\"")));
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err,
              kSoftware + "UCX_PLUGIN_PATH=" + kTree + "/lib/ucx-gaudi\n" +
                  "OMPI_MCA_pml=ucx\nOMPI_MCA_opal_common_ucx_tls=any\nOMPI_MCA_opal_common_ucx_devices=any\n" +
                  "GAUDI_THUNK=" + kTree + "/lib/softgaudi/libhl-thunk.so\n" + "SOFTGAUDI_DIR=" + got.out +
                  "SOFTGAUDI_CARDS=2\n" + "LD_LIBRARY_PATH=" + kTree + "/lib/softgaudi\n" +
                  "/bin/sh -c 'echo \"$SOFTGAUDI_DIR\"'\n");
}

// ---- directories ------------------------------------------------------------------------------------------------

/// What `run` made for a program, by the SOFTGAUDI_DIR that it saw.
fs::path made(const std::string &server) {
    fs::path path = fs::path(server).parent_path();
    EXPECT_THAT(path.filename().string(), StartsWith("ucx_gaudi-run-"));
    return path;
}

TEST(Run, directory_is_new_and_removed_afterwards) {
    const Result first = result(run({}, shell("echo $SOFTGAUDI_DIR; ls $SOFTGAUDI_DIR; touch $SOFTGAUDI_DIR/left")));
    const Result second = result(run({}, shell("echo $SOFTGAUDI_DIR; ls $SOFTGAUDI_DIR")));
    EXPECT_NE(first.out, second.out);
    EXPECT_EQ(std::count(second.out.begin(), second.out.end(), '\n'), 1) << second.out;
    EXPECT_FALSE(fs::exists(made(first.out)));
    EXPECT_FALSE(fs::exists(made(second.out)));
}

TEST(Run, directory_is_removed_after_the_program_is_killed) {
    const Result got = result(run({}, shell("echo $SOFTGAUDI_DIR; kill -9 $$")));
    EXPECT_EQ(got.code, 128 + SIGKILL);
    EXPECT_FALSE(fs::exists(made(got.out)));
}

TEST(Run, directory_is_removed_after_a_failed_start) {
    const Result got = result(run({"-v"}, {"no-such-program"}));
    const std::size_t at = got.err.find("SOFTGAUDI_DIR=") + 14;
    EXPECT_FALSE(fs::exists(made(got.err.substr(at, got.err.find('\n', at) - at))));
}

TEST(Run, ending_signal_is_passed_on_and_the_directory_removed) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        Command command(run({}, shell("trap 'echo told; exit 7' TERM INT HUP; echo $SOFTGAUDI_DIR; "
                                      "while :; do sleep 0.02; done")));
        const std::string server = command.out().line();
        EXPECT_TRUE(fs::exists(server));
        command.kill(signal);
        EXPECT_EQ(command.out().line(), "told");
        EXPECT_EQ(command.wait(), 128 + signal);
        EXPECT_FALSE(fs::exists(made(server)));
    }
}

TEST(Run, signal_that_ends_the_program_ends_the_run) {
    Command command(run({}, {"/bin/sh", "-c", "echo $SOFTGAUDI_DIR; exec sleep 1000"}));
    const std::string server = command.out().line();
    command.kill(SIGTERM);
    EXPECT_EQ(command.wait(), 128 + SIGTERM);
    EXPECT_FALSE(fs::exists(made(server)));
}

TEST(Run, other_signal_is_passed_on_and_keeps_the_exit_code) {
    Command command(run({}, shell("trap 'echo told; exit 7' USR1; echo ready; while :; do sleep 0.02; done")));
    EXPECT_EQ(command.out().line(), "ready");
    command.kill(SIGUSR1);
    EXPECT_EQ(command.out().line(), "told");
    EXPECT_EQ(command.wait(), 7);
}

/// Waits until another process has removed an entry of /dev/shm.
void wait_until_removed(const fs::path &path) {
    const int events = ::inotify_init1(IN_CLOEXEC);
    ASSERT_GE(::inotify_add_watch(events, path.parent_path().c_str(), IN_DELETE), 0);
    pollfd wanted{events, POLLIN, 0};
    while (fs::exists(path)) {
        ASSERT_EQ(::poll(&wanted, 1, 60'000), 1) << path << " is not removed";
        char buffer[4096];
        ASSERT_GT(::read(events, buffer, sizeof buffer), 0);
    }
    ::close(events);
}

TEST(Run, directory_of_a_killed_run_is_removed_when_its_program_ends) {
    Command command(run({}, {"/bin/sh", "-c", "echo $$; echo $SOFTGAUDI_DIR; exec sleep 1000"}));
    const pid_t program = std::stoi(command.out().line());
    const fs::path left = made(command.out().line());
    command.kill(SIGKILL);
    EXPECT_EQ(command.wait(), -SIGKILL);
    EXPECT_EQ(result(run({}, {"true"})).code, 0);
    EXPECT_TRUE(fs::exists(left)) << "the program still uses it";
    ::kill(program, SIGKILL);
    wait_until_removed(left);
}

TEST(Run, killed_keeper_changes_no_exit_code) {
    // The other child of the run, by the fourth field of its stat; its name has no blanks.
    const Result got = result(run({}, shell("for one in /proc/[0-9]*; do read -r pid name state parent rest <$one/stat "
                                            "|| continue; "
                                            "if [ \"$parent\" = $PPID ] && [ $pid != $$ ]; then kill -9 $pid && echo "
                                            "killed; fi; done 2>/dev/null; echo $SOFTGAUDI_DIR; exit 5")));
    EXPECT_EQ(got.code, 5);
    ASSERT_THAT(got.out, ::testing::StartsWith("killed\n"));
    EXPECT_FALSE(fs::exists(made(got.out.substr(got.out.find('\n') + 1))));
}

TEST(Run, directory_with_a_similar_name_is_kept) {
    const std::string own = "/dev/shm/ucx_gaudi-run-999999999-aBcD12";
    const std::string others[] = {"/dev/shm/ucx_gaudi-run-mine-" + std::to_string(::getpid()),
                                  "/dev/shm/ucx_gaudi-run-" + std::to_string(::getpid()) + "-keep"};
    fs::create_directories(own + "/cards/GAUDI2-card0");
    std::ofstream(own + "/cards/GAUDI2-card0/accel") << "x";
    for (const std::string &other : others)
        fs::create_directory(other);
    EXPECT_EQ(result(run({}, {"true"})).code, 0);
    EXPECT_FALSE(fs::exists(own));
    for (const std::string &other : others) {
        EXPECT_TRUE(fs::exists(other));
        fs::remove(other);
    }
}

TEST(Run, shared_directory_is_kept) {
    const std::string shared = "/dev/shm/cli-run-test-" + std::to_string(::getpid());
    EXPECT_EQ(variable("SOFTGAUDI_DIR", {"--dir", shared}), shared);
    EXPECT_TRUE(fs::is_directory(shared));
    fs::current_path("/dev/shm"); // a relative one means the same to a program that goes elsewhere
    EXPECT_EQ(variable("SOFTGAUDI_DIR", {"--dir", fs::path(shared).filename().string()}), shared);
    fs::remove_all(shared);
}

// ---- refusals ---------------------------------------------------------------------------------------------------

void refuses(Words options, const std::string &sentence) {
    const Result got = result(run(std::move(options), {"true"}));
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: "), HasSubstr(sentence), Not(HasSubstr("softgaudi,"))));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
}

TEST(Run, unusable_shared_directory_is_refused) {
    refuses({"--dir", "/proc/x"}, "--dir /proc/x: must be on tmpfs");
    refuses({"--dir", "/dev/shm/no/such"}, "--dir /dev/shm/no/such: there is no directory /dev/shm/no\n");
    const std::string file = "/dev/shm/cli-run-test-file-" + std::to_string(::getpid());
    std::ofstream(file) << "x";
    refuses({"--dir", file}, "is not a directory");
    fs::remove(file);
}

TEST(Run, unknown_ucx_is_refused) {
    const std::string engines = "/dev/shm/cli-run-test-engines-" + std::to_string(::getpid());
    for (const char *name : {"rapids-1.9", "rapids-1.10"})
        add_fake_ucx(engines + "/" + name + "/libucx/lib");
    fs::create_directories(engines + "/nixl-7/nixl.libs");
    std::ofstream(engines + "/nixl-7/nixl.libs/libucs-0123abcd.so.0.0.0") << "x";
    fs::create_directories(engines + "/downloads");
    ::setenv("GAUDI_ENGINES", engines.c_str(), 1);
    refuses(
        {"--ucx", "1.99"},
        "--ucx 1.99: is neither a fetched UCX nor a directory; fetched are rapids, nixl-7, rapids-1.9, rapids-1.10\n");
    refuses({"--ucx", engines + "/downloads"}, "there is no libucs in it");
    EXPECT_THAT(variable("LD_LIBRARY_PATH", {"--ucx", "rapids"}), StartsWith(engines + "/rapids-1.10/libucx/lib:"));
    EXPECT_THAT(variable("LD_LIBRARY_PATH", {"--ucx", engines + "/rapids-1.9"}),
                StartsWith(engines + "/rapids-1.9/libucx/lib:"));
    fs::remove_all(engines);
    refuses({"--ucx", "rapids"}, "no UCX is fetched in '" + engines + "'");
}

TEST(Run, unusable_ucx_is_refused) {
    const fs::path builds = "/dev/shm/cli-run-test-unusable-" + std::to_string(::getpid());
    ::setenv("GAUDI_ENGINES", builds.c_str(), 1);
    add_fake_ucx(builds / "old" / "lib", FAKE_UCX_OLD);
    refuses({"--ucx", "old"},
            "--ucx old: UCX 1.21.0 in " + (builds / "old" / "lib").string() +
                " is older than 1.22 and does not load modules from UCX_PLUGIN_PATH; use 1.22 or later");
    add_fake_ucx(builds / "statistics" / "lib", FAKE_UCX_STATISTICS);
    refuses({"--ucx", "statistics"}, "was built with statistics, which the modules do not support; use one built "
                                     "without --enable-stats");
    add_fake_ucx(builds / "part" / "lib");
    fs::remove(builds / "part" / "lib" / "libucp.so.0");
    refuses({"--ucx", "part"}, "--ucx part: there is no libucp beside " +
                                   (builds / "part" / "lib" / "libucs.so.0").string() + "; use a whole UCX");
    add_fake_ucx(builds / "broken" / "lib");
    std::ofstream(builds / "broken" / "lib" / "libucp.so.0") << "x";
    refuses({"--ucx", "broken"}, "libucp.so.0 does not load: ");
    fs::remove_all(builds);
}

} // namespace
} // namespace cli
