// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi explain as users run it, on softgaudi and softhca.
#include "../command.h"
#include "thunk/owners.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sched.h>

#include <fstream>
#include <iterator>

namespace cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char *kNewer = "nixl-1.23"; // hashed names
constexpr const char *kOlder = "nixl-1.22";

class Explain : public ::testing::Test {
protected:
    Explain() {
        for (const char *variable : {"UCX_PLUGIN_PATH", "LD_LIBRARY_PATH", "GAUDI_MAPPING_TABLE", "GAUDI_THUNK"})
            ::unsetenv(variable);
    }
    ~Explain() override {
        for (const char *variable : {"UCX_IB_GPU_DIRECT_RDMA", "SOFTHCA_FAULTS", "UCX_TLS"})
            ::unsetenv(variable);
    }

    static Words words(Words explained) {
        explained.insert(explained.begin(), {UCX_GAUDI_COMMAND, "explain"});
        return explained;
    }
    static Result explain(Words explained, Words server = {"--cards", "2"}) {
        return result(run(std::move(server), words(std::move(explained))));
    }
    static nlohmann::json parsed(Words explained, Words server = {"--cards", "2"}) {
        explained.emplace_back("--json");
        const Result got = explain(std::move(explained), std::move(server));
        auto json = nlohmann::json::parse(got.out, nullptr, false);
        EXPECT_TRUE(json.is_object()) << got.out << got.err;
        return json;
    }
};

const Words kWithHca = {"--cards", "2", "--hca"};

TEST_F(Explain, rdma_between_cards_is_zero_copy) {
    const Result got = explain({"gaudi:0", "remote:gaudi:1", "1M"}, kWithHca); // the UCX that is found
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.err, HasSubstr("explain opens card 0, 1 and copies memory of its own; closing a card resets it\n"));
    EXPECT_THAT(got.out, StartsWith("zero copy: 0 of 1,048,576 bytes go through host memory\n"));
    EXPECT_THAT(got.out,
                HasSubstr("path       gaudi:0 -> rc_verbs/softhca0:1, rc_verbs/softhca1:1 -> remote:gaudi:1\n"));
    EXPECT_THAT(got.out, HasSubstr("protocol   rendezvous zero-copy read from remote\n"));
    EXPECT_THAT(got.out, HasSubstr("data       every byte arrived\n"));
    EXPECT_THAT(got.out,
                ContainsRegex("\n  > [0-9]+..inf  zero-copy read from remote +50% on rc_verbs/softhca0:1 and"));
    EXPECT_THAT(got.out, HasSubstr("\nSOFTWARE: "));
    EXPECT_THAT(got.out, Not(HasSubstr("cause:")));
}

TEST_F(Explain, put_and_get_of_both_versions_are_zero_copy) {
    for (const char *ucx : {kOlder, kNewer})
        for (const char *operation : {"put", "get"}) {
            const auto json = parsed({"host", "remote:gaudi:0", "64K", "--op", operation, "--ucx", ucx}, kWithHca);
            EXPECT_EQ(json["verdict"], "zero_copy") << json;
            EXPECT_EQ(json["protocol"], "zero-copy");
            EXPECT_EQ(json["host_bytes"], 0);
            EXPECT_EQ(json["data_intact"], true);
            EXPECT_EQ(json["ucx"]["version"], std::string(ucx) == kOlder ? "1.22.0" : "1.23.0");
        }
}

TEST_F(Explain, without_a_nic_the_bytes_are_staged) {
    const auto json = parsed({"gaudi:0", "remote:gaudi:1", "1M", "--ucx", kNewer});
    EXPECT_EQ(json["verdict"], "staged") << json;
    EXPECT_EQ(json["host_bytes"], 1 << 20);
    EXPECT_EQ(json["copies"]["up_bytes"], 1 << 20);
    EXPECT_EQ(json["copies"]["down_bytes"], 1 << 20);
    EXPECT_THAT(json["path"].get<std::string>(), StartsWith("gaudi:0 -> host memory -> tcp/"));
    EXPECT_EQ(json["cause"]["id"], "GD060");
    EXPECT_EQ(json["data_intact"], true);
}

// Its sender expects zero copy, because it does not know that the receiver is a card.
TEST_F(Explain, receiver_decides_over_the_senders_words) {
    const auto json = parsed({"host", "remote:gaudi:0", "64K", "--ucx", kNewer});
    EXPECT_THAT(json["protocol"].get<std::string>(), HasSubstr("zero-copy"));
    EXPECT_EQ(json["verdict"], "staged") << json;
    EXPECT_EQ(json["host_bytes"], 64 << 10);
}

TEST_F(Explain, nic_without_dmabufs_is_the_cause) {
    ::setenv("SOFTHCA_FAULTS", "reg_dmabuf_mr=524", 1);
    const Result got = explain({"gaudi:0", "remote:gaudi:1", "1M", "--ucx", kNewer}, kWithHca);
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, StartsWith("staged: 1,048,576 of 1,048,576 bytes go through host memory\n"));
    EXPECT_THAT(got.out, ContainsRegex("\ncause: softhca0.* answers? 524 .*\\(GD061\\)\nfix: install a newer driver"));
}

TEST_F(Explain, registration_that_fails_is_no_transfer_and_is_named) {
    ::setenv("SOFTHCA_FAULTS", "reg_dmabuf_mr#2+=EPERM", 1);
    const Result got = explain({"gaudi:0", "remote:gaudi:1", "1M", "--ucx", kNewer}, kWithHca);
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, StartsWith("no transfer: "));
    EXPECT_THAT(got.out, ContainsRegex("\ncause: an RDMA NIC does not register the card's dma-buf: .*not permitted"));
}

TEST_F(Explain, setting_is_the_cause) {
    ::setenv("UCX_IB_GPU_DIRECT_RDMA", "n", 1);
    const auto json = parsed({"gaudi:0", "remote:gaudi:1", "1M", "--ucx", kOlder}, kWithHca);
    EXPECT_EQ(json["verdict"], "staged") << json;
    EXPECT_EQ(json["cause"]["id"], "GD055");
    EXPECT_EQ(json["cause"]["fix"], "unset UCX_IB_GPU_DIRECT_RDMA");
}

TEST_F(Explain, card_that_does_not_export_is_the_cause) {
    const auto json = parsed({"gaudi:0", "remote:host", "1M", "--op", "put", "--ucx", kNewer},
                             {"--cards", "2", "--hca", "--faults", "device_mapped_memory_export_dmabuf_fd=EPERM"});
    EXPECT_EQ(json["verdict"], "staged") << json;
    EXPECT_THAT(json["cause"]["sentence"].get<std::string>(), HasSubstr("is not exported"));
}

TEST_F(Explain, ucx_without_gaudi_memory_is_not_let_near_a_card) {
    ::setenv("UCX_TLS", "rc", 1);
    const auto json = parsed({"gaudi:0", "remote:gaudi:1", "1M", "--ucx", kNewer}, kWithHca);
    EXPECT_EQ(json["verdict"], "failed") << json;
    EXPECT_EQ(json["cause"]["id"], "GD050");
}

TEST_F(Explain, small_message_is_below_the_threshold) {
    const auto json = parsed({"gaudi:0", "remote:gaudi:1", "64", "--op", "get", "--ucx", kNewer}, kWithHca);
    EXPECT_EQ(json["verdict"], "staged") << json;
    EXPECT_THAT(json["cause"]["sentence"].get<std::string>(), HasSubstr("64 bytes are below the 65"));
}

TEST_F(Explain, within_a_process_the_card_copies) {
    const Result got = explain({"host", "gaudi:0", "1M", "--ucx", kNewer});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, StartsWith("zero copy: 0 of 1,048,576 bytes go through further host memory\n"));
    EXPECT_THAT(got.out, HasSubstr("copies     0 bytes from cards to host memory, 1,048,576 from there to cards\n"));
    EXPECT_THAT(got.out, HasSubstr("path       host -> gaudi_cpy/gaudi -> gaudi:0\n"));
}

TEST_F(Explain, cards_that_skip_copies_are_found_by_the_data) {
    const auto json = parsed({"host", "gaudi:0", "64M", "--op", "put", "--ucx", kNewer},
                             {"--cards", "1", "--faults", "command_submission#100+=skip"});
    EXPECT_EQ(json["data_intact"], false) << json;
}

/// Without `ucx_gaudi run`, so that the test itself can hold a card, and sees the processes of the command.
class ExplainOnServer : public Explain {
protected:
    ExplainOnServer() {
        char name[] = "/dev/shm/cli-explain-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        const fs::path built = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path();
        ::setenv("SOFTGAUDI_DIR", m_dir.c_str(), 1);
        ::setenv("SOFTGAUDI_CARDS", "2", 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        ::setenv("UCX_PLUGIN_PATH", (built / "lib/ucx-gaudi").c_str(), 1);
    }
    ~ExplainOnServer() override {
        for (const char *variable : {"SOFTGAUDI_DIR", "SOFTGAUDI_CARDS", "SOFTGAUDI_FAULTS"})
            ::unsetenv(variable);
        fs::remove_all(m_dir);
    }

    static Words between_cards() { return {"explain", "gaudi:0", "remote:gaudi:1", "4K", "--ucx", kNewer}; }
    /// The processes that the command has started for the transfer, once there are two.
    static std::vector<pid_t> sides_of(pid_t command) {
        const std::string file = "/proc/" + std::to_string(command) + "/task/" + std::to_string(command) + "/children";
        const auto end = std::chrono::steady_clock::now() + kPatience;
        while (std::chrono::steady_clock::now() < end) {
            std::vector<pid_t> found;
            std::ifstream children(file);
            for (pid_t pid = 0; children >> pid;) {
                std::ifstream line("/proc/" + std::to_string(pid) + "/cmdline");
                const std::string text{std::istreambuf_iterator<char>(line), {}};
                if (text.find("explain-side") != std::string::npos)
                    found.push_back(pid);
            }
            if (found.size() == 2)
                return found;
            ::sched_yield();
        }
        ADD_FAILURE() << "no two processes";
        return {};
    }
    /// Whether a process has ended, or is about to: nobody waits for it any more.
    static bool has_ended(pid_t pid) { return ::kill(pid, 0) != 0; }

private:
    std::string m_dir;
};

TEST_F(ExplainOnServer, busy_card_is_refused_with_its_holder) {
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const auto card = gaudi::thunk::DeviceFd::open(**library, "0000:19:00.0"); // module 1 of two
    ASSERT_TRUE(card) << card.error().text;
    const Result got = result(between_cards());
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "ucx_gaudi: card 1 is in use by pid " + std::to_string(::getpid()) +
                           " (cli_explain_tes): end it, or name another card\n");
    EXPECT_EQ(got.out, "");
}

TEST_F(ExplainOnServer, process_that_dies_ends_the_other) {
    ::setenv("SOFTGAUDI_FAULTS", "device_memory_alloc@1=delay:60000000", 1);
    Command command(between_cards());
    const auto sides = sides_of(command.pid());
    ASSERT_EQ(sides.size(), 2u);
    ASSERT_EQ(::kill(sides[1], SIGKILL), 0);
    EXPECT_EQ(command.wait(), 1);
    EXPECT_THAT(command.out().rest(),
                StartsWith("no transfer: a process of the transfer was ended by signal 9 (Killed)\n"));
    EXPECT_TRUE(has_ended(sides[0]));
}

TEST_F(ExplainOnServer, signal_ends_the_transfer_and_leaves_nothing) {
    ::setenv("SOFTGAUDI_FAULTS", "device_memory_alloc@1=delay:60000000", 1);
    Command command(between_cards());
    const auto sides = sides_of(command.pid());
    command.kill(SIGTERM);
    EXPECT_EQ(command.wait(), 128 + SIGTERM);
    for (const pid_t side : sides)
        EXPECT_TRUE(has_ended(side));
    ::unsetenv("SOFTGAUDI_FAULTS");
    const Result again = result(between_cards()); // the cards are free again
    EXPECT_EQ(again.code, 0) << again.err << again.out;
}

TEST_F(Explain, transfer_that_hangs_ends_with_a_sentence) {
    const Result got = explain({"gaudi:0", "remote:gaudi:1", "1M", "--timeout", "1", "--ucx", kNewer},
                               {"--cards", "2", "--faults", "device_memory_alloc@1=delay:60000000"});
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr("the transfer did not end within 1 s, so its processes were ended"));
}

TEST_F(Explain, wrong_words_are_refused) {
    const Words server = {"--cards", "2"};
    for (const Words &bad : {Words{"gaudi:x", "host", "4K"},
                             {"gaudi:0", "host", "4Q"},
                             {"host", "host", "4K"},
                             {"gaudi:0", "host"},
                             {"gaudi:0", "host", "4K", "--op", "send"},
                             {}}) {
        Words all = bad;
        all.insert(all.begin(), "explain");
        const Result got = result(all);
        EXPECT_EQ(got.code, 2);
        EXPECT_THAT(got.err, ContainsRegex("^ucx_gaudi: [^\n]*\n$"));
        EXPECT_EQ(got.out, "");
    }
    const Result missing = explain({"gaudi:7", "host", "4K", "--ucx", kNewer}, server);
    EXPECT_EQ(missing.code, 1);
    EXPECT_THAT(missing.err, HasSubstr("there is no card 7: the cards are 0, 1\n"));
    const Result other = explain({"gaudi:0", "host", "4K", "--ucx", "/nowhere"}, server);
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("/nowhere"));
    const Result large = explain({"gaudi:0", "host", "1000G", "--ucx", kNewer}, server);
    EXPECT_EQ(large.code, 1);
    EXPECT_THAT(large.err, HasSubstr("do not fit"));
}

TEST_F(Explain, old_protocols_are_refused) {
    ::setenv("UCX_PROTO_ENABLE", "No", 1);
    const Result got = explain({"gaudi:0", "host", "4K", "--ucx", kNewer});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.err, HasSubstr("UCX_PROTO_ENABLE=No (environment): "));
}

TEST_F(Explain, tls_without_a_transport_between_machines_is_refused) {
    for (const char *value : {"sm", "self,sm,gaudi_cpy"}) {
        ::setenv("UCX_TLS", value, 1);
        const Result got = explain({"gaudi:0", "remote:gaudi:1", "4K", "--ucx", kNewer});
        EXPECT_EQ(got.code, 1);
        EXPECT_THAT(got.err, HasSubstr(std::string("UCX_TLS=") + value +
                                       " (environment) has no transport between machines: add rc or tcp\n"));
    }
    ::setenv("UCX_TLS", "bogus", 1);
    const Result got = explain({"gaudi:0", "remote:gaudi:1", "4K", "--ucx", kNewer});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, Not(HasSubstr("no module of ucx-gaudi"))) << "UCX did not start, so that is not known";
}

TEST_F(Explain, full_disk_behind_stdout_is_reported) {
    const Result got = result(run({"--cards", "1"}, shell(std::string(UCX_GAUDI_COMMAND) +
                                                          " explain host gaudi:0 4K --ucx nixl-1.23 > /dev/full")));
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.err, HasSubstr("cannot write to stdout"));
}

} // namespace
} // namespace cli
