// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi doctor and dump as users run them, on softgaudi and softhca.
#include "../command.h"
#include "../fake_ucx.h"
#include "thunk/owners.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <dlfcn.h>

#include <fstream>

namespace cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Doctor : public ::testing::Test {
protected:
    Doctor() {
        char name[] = "/dev/shm/cli-doctor-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        for (const char *variable : {"UCX_PLUGIN_PATH", "LD_LIBRARY_PATH", "GAUDI_MAPPING_TABLE", "GAUDI_THUNK"})
            ::unsetenv(variable);
        ::setenv("UCX_GAUDI_DOCTOR_TEST", "1", 1); // one that is collected, for dump
    }
    ~Doctor() override { fs::remove_all(m_dir); }

    static Result doctor(Words options, Words server = {"--cards", "2"}) {
        options.insert(options.begin(), {UCX_GAUDI_COMMAND, "doctor"});
        return result(run(std::move(server), std::move(options)));
    }
    std::string file(const std::string &name) const { return m_dir + "/" + name; }

private:
    std::string m_dir;
};

/// A server without `ucx_gaudi run`, for tests that hold its cards themselves.
class Held : public Doctor {
protected:
    Held() {
        ::setenv("SOFTGAUDI_DIR", file("").c_str(), 1);
        ::setenv("SOFTGAUDI_CARDS", "1", 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        ::setenv("GAUDI_ENGINES", "/none", 1); // fewer UCX to look at
    }
    ~Held() override {
        for (const char *variable : {"SOFTGAUDI_DIR", "SOFTGAUDI_CARDS", "GAUDI_THUNK", "GAUDI_ENGINES"})
            ::unsetenv(variable);
    }
};

const Words kWithHca = {"--cards", "2", "--hca", "--ucx", "nixl-1.23", "--topology"};

TEST_F(Doctor, software_server_has_no_fault) {
    const Result got = doctor({"--strict"}, kWithHca);
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_EQ(got.err, kSoftwareWithHca);
    EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
    EXPECT_THAT(got.out, Not(HasSubstr("FAIL")));
    EXPECT_THAT(got.out, HasSubstr("OK    GD061  each RDMA device registers dma-bufs\n"));
    EXPECT_THAT(got.out, HasSubstr("SKIP  GD032  the cards are software (softgaudi): no PCIe traffic\n"));
    EXPECT_THAT(got.out, ContainsRegex("0 warnings, 0 failed, [0-9]+ skipped; SOFTWARE: "));
}

TEST_F(Doctor, active_makes_round_trips_and_says_so_first) {
    const Result got = doctor({"--active"}, kWithHca);
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_THAT(got.err,
                HasSubstr("--active opens card 0, 1 and copies memory of its own; closing a card resets it\n"));
    EXPECT_THAT(got.out, HasSubstr("OK    GD090  6 round trips, every byte arrived\n")); // within and by two NICs
}

TEST_F(Doctor, active_names_what_fails) {
    const Result got = doctor({"--active"}, {"--cards", "1", "--faults", "command_submission=skip"});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("FAIL  GD090  card 0: other bytes came back than were sent\n"));
}

TEST_F(Doctor, nic_without_dmabufs_is_named_with_its_errno) {
    ::setenv("SOFTHCA_FAULTS", "reg_dmabuf_mr=524", 1);
    const Result got = doctor({}, kWithHca);
    ::unsetenv("SOFTHCA_FAULTS");
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("FAIL  GD061  softhca0, softhca1 answer 524 (ENOTSUPP, an errno of the kernel)"));
}

TEST_F(Doctor, setting_that_shuts_out_is_a_failure) {
    ::setenv("UCX_TLS", "rc,sm", 1);
    const Result got = doctor({});
    ::unsetenv("UCX_TLS");
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out,
                HasSubstr("FAIL  GD050  UCX_TLS=rc,sm (environment) leaves gaudi_cpy out: UCX cannot copy card "
                          "memory\n             fix: export UCX_TLS=rc,sm,gaudi_cpy\n"));
}

TEST_F(Doctor, setting_of_a_file_is_named_with_the_file) {
    ::setenv("UCX_CONFIG_DIR", file("").c_str(), 1);
    std::ofstream(file("ucx.conf")) << "UCX_MODULES=^gaudi\n";
    const Result got = doctor({});
    ::unsetenv("UCX_CONFIG_DIR");
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out,
                ContainsRegex("FAIL  GD053  UCX_MODULES=.gaudi \\(.*/ucx.conf\\) leaves the module gaudi out"));
}

TEST_F(Doctor, warning_fails_only_with_strict) {
    ::setenv("UCX_MEMTYPE_CACHE", "n", 1);
    const Result lenient = doctor({}, kWithHca), strict = doctor({"--strict"}, kWithHca);
    ::unsetenv("UCX_MEMTYPE_CACHE");
    EXPECT_EQ(lenient.code, 0) << lenient.out;
    EXPECT_THAT(lenient.out, HasSubstr("WARN  GD054  "));
    EXPECT_EQ(strict.code, 1);
}

TEST_F(Doctor, machine_without_library_and_cards_is_no_crash) {
    ::setenv("GAUDI_THUNK", file("none.so").c_str(), 1);
    const Result got = result({"doctor"});
    ::unsetenv("GAUDI_THUNK");
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, ContainsRegex("FAIL  GD020  .*none.so"));
    EXPECT_THAT(got.out, HasSubstr("SKIP  GD023  no libhl-thunk was found\n"));
}

TEST_F(Doctor, wrong_mapping_table_is_named) {
    ::setenv("GAUDI_MAPPING_TABLE", "{", 1);
    const Result got = doctor({});
    ::unsetenv("GAUDI_MAPPING_TABLE");
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, ContainsRegex("FAIL  GD027  .*GAUDI_MAPPING_TABLE"));
}

TEST_F(Doctor, module_that_does_not_load_is_named_with_the_loaders_words) {
    fs::create_directory(file("modules"));
    std::ofstream(file("modules/libuct_gaudi.so.0")) << "no library";
    ::setenv("UCX_PLUGIN_PATH", file("modules").c_str(), 1);
    ::setenv("LD_LIBRARY_PATH", UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib", 1);
    const Result got = result({"doctor"});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, ContainsRegex("FAIL  GD046  a module does not load: .*libuct_gaudi.so.0: file too short"));
}

TEST_F(Doctor, only_active_opens_cards) {
    const std::string self = "'" UCX_GAUDI_COMMAND "' ";
    const auto opens_after = [&](const std::string &commands) {
        const Result got = result(run({"--cards", "2"}, shell(commands + "exec softgaudi_stat --json")));
        EXPECT_EQ(got.code, 0) << got.err;
        const auto out = nlohmann::json::parse(got.out);
        std::uint64_t opens = 0;
        for (const auto &card : out.at("cards"))
            opens += card.at("opens").get<std::uint64_t>();
        return opens;
    };
    ::setenv("PATH", (fs::path(UCX_GAUDI_COMMAND).parent_path().string() + ":" + std::getenv("PATH")).c_str(), 1);
    EXPECT_EQ(opens_after(self + "doctor >&2; " + self + "info >&2; " + self + "dump >&2; "), 0U);
    EXPECT_EQ(opens_after(self + "doctor --active >&2; "), 2U);
}

TEST_F(Doctor, faults_of_ucx_are_all_named_in_one_run) {
    add_fake_ucx(file("old/lib"), FAKE_UCX_OLD);
    add_fake_ucx(file("new/lib"));
    ::setenv("LD_LIBRARY_PATH", (file("old/lib") + ":" + file("new/lib")).c_str(), 1);
    ::setenv("UCX_PLUGIN_PATH", file("none").c_str(), 1);
    const Result got = result({"doctor"});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, ContainsRegex("OK    GD040  usable UCX: .*1.22.0 .LD_LIBRARY_PATH"));
    EXPECT_THAT(got.out,
                ContainsRegex("WARN  GD041  programs that are linked to UCX get .*/old/lib/.*older than 1.22"));
    EXPECT_THAT(got.out, ContainsRegex("WARN  GD042  . UCX are in reach of programs: .*1.21.0 in .*/old/lib/.*"
                                       "1.22.0 in .*/new/lib/"));
    EXPECT_THAT(got.out, ContainsRegex("FAIL  GD044  .*/new/lib/.* does not load the modules: UCX_PLUGIN_PATH=.*/none "
                                       ".environment. has none for it"));
    EXPECT_THAT(got.out, ContainsRegex("WARN  GD045  UCX skips .*/none: this directory does not exist"));
}

TEST_F(Doctor, old_and_second_thunk_are_named) {
    fs::create_directory(file("copy"));
    fs::copy_file(OLD_THUNK, file("copy/libhl-thunk.so"));
    ::setenv("LD_LIBRARY_PATH", file("copy").c_str(), 1);
    ::setenv("GAUDI_THUNK", OLD_THUNK, 1);
    const Result old = result({"doctor"});
    EXPECT_THAT(old.out,
                ContainsRegex("WARN  GD021  .* lacks hlthunk_device_mapped_memory_export_dmabuf_fd, .*: no memory "
                              "is exported"));
    EXPECT_THAT(old.out, ContainsRegex("WARN  GD022  several libhl-thunk are in reach: .*/copy/libhl-thunk.so"));
    ::setenv("GAUDI_THUNK", FAKE_UCX, 1);
    EXPECT_THAT(result({"doctor"}).out, ContainsRegex("FAIL  GD020  .* it has no hlthunk_"));
}

TEST_F(Doctor, limits_and_namespaces_are_named) {
    Command command(
        {"-r", "-p", "-f", "/bin/sh", "-c", "ulimit -n 256; ulimit -l 64; exec '" UCX_GAUDI_COMMAND "' doctor"},
        "/usr/bin/unshare");
    const std::string out = command.out().rest();
    EXPECT_THAT(out, HasSubstr("OK    GD015  a pid namespace of its own"));
    EXPECT_THAT(out, HasSubstr("WARN  GD070  the limit of locked memory is 64 KiB"));
    EXPECT_THAT(out, HasSubstr("WARN  GD071  only 256 files may be open"));
    command.wait();
}

TEST_F(Held, busy_card_is_named_and_left_alone) {
    // The holder has two UCX loaded, and not the module.
    for (const char *name : {"a", "b"}) {
        add_fake_ucx(file(name));
        ASSERT_NE(::dlopen((file(name) + "/libucs.so.0").c_str(), RTLD_NOW), nullptr) << ::dlerror();
    }
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const auto card = gaudi::thunk::DeviceFd::open(**library, "0000:19:00.0");
    ASSERT_TRUE(card) << card.error().text;
    const Result got = result({"doctor", "--active"});
    const std::string holder = "pid " + std::to_string(::getpid()) + " (cli_doctor_test)";
    EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: --active leaves card 0 alone: it is in use\n"));
    EXPECT_THAT(got.err, Not(HasSubstr("--active opens")));
    EXPECT_THAT(got.out, HasSubstr("WARN  GD025  in use: card 0 by " + holder));
    EXPECT_THAT(got.out,
                HasSubstr("WARN  GD047  two UCX in one process do not share transports, caches or memory hooks: " +
                          holder + " has "));
    EXPECT_THAT(got.out, HasSubstr("SKIP  GD090  there is no free card\n"));
}

TEST_F(Held, replay_creates_no_server) {
    const std::string dump = file("dump.json");
    ASSERT_EQ(result({"dump", "--json", "-o", dump}).code, 0);
    fs::create_directory(file("replay"));
    ::setenv("SOFTGAUDI_DIR", file("replay").c_str(), 1);
    for (const char *command : {"doctor", "info"}) {
        const Result got = result({command, "--from", dump});
        EXPECT_THAT(got.out, HasSubstr("SOFTWARE"));
        EXPECT_EQ(got.err, "");
    }
    EXPECT_TRUE(fs::is_empty(file("replay")));
}

TEST_F(Doctor, control_characters_of_others_do_not_reach_the_terminal) {
    auto facts = nlohmann::json::parse(std::ifstream(FIXTURES "/two-ucx.json"));
    facts["cards"][0]["holders"][0]["command"] = "evil\x1b[2J\n";
    std::ofstream(file("evil.json")) << facts;
    for (const char *command : {"doctor", "info"})
        EXPECT_THAT(result({command, "--from", file("evil.json")}).out, HasSubstr("pid 48213 (evil?[2J?)"));
}

TEST_F(Doctor, dump_tells_the_same_elsewhere) {
    const std::string dump = file("dump.json");
    const Result written = result(run(kWithHca, {UCX_GAUDI_COMMAND, "dump", "--active", "--output", dump}));
    ASSERT_EQ(written.code, 0) << written.err;
    EXPECT_EQ(written.out, "");
    const Result elsewhere = result({"doctor", "--from", dump});
    EXPECT_EQ(elsewhere.code, 0) << elsewhere.out;
    EXPECT_EQ(elsewhere.err, "");
    EXPECT_THAT(elsewhere.out, HasSubstr("OK    GD090  6 round trips"));
    EXPECT_THAT(elsewhere.out, HasSubstr("OK    GD023  2 cards, all operational\n"));
    const Result json = result({"doctor", "--json", "--from", dump});
    const auto parsed = nlohmann::json::parse(json.out);
    EXPECT_EQ(parsed["schema"], 1);
    EXPECT_EQ(parsed["software"], true);
    EXPECT_EQ(parsed["checks"][0]["id"], "GD001");
    EXPECT_EQ(parsed["checks"][0]["verdict"], "OK");
}

TEST_F(Doctor, wrong_input_is_refused_with_a_sentence) {
    const Result missing = result({"doctor", "--from", file("none.json")});
    EXPECT_EQ(missing.code, 1);
    EXPECT_THAT(missing.err, ContainsRegex("^ucx_gaudi: cannot read .*none.json: No such file or directory\n$"));
    std::ofstream(file("cut.json")) << R"({"schema": 1, "cards": [)";
    for (const char *command : {"doctor", "info"}) {
        const Result cut = result({command, "--from", file("cut.json")});
        EXPECT_EQ(cut.code, 1);
        EXPECT_EQ(cut.out, "");
        EXPECT_EQ(cut.err,
                  "ucx_gaudi: " + file("cut.json") + " is no file of ucx_gaudi dump: it ends too early, at byte 24\n");
        EXPECT_EQ(result({command, "--from", file("")}).err,
                  "ucx_gaudi: cannot read " + file("") + ": Is a directory\n");
    }
    EXPECT_EQ(result({"doctor", "--active", "--from", file("cut.json")}).code, 2);
    EXPECT_EQ(result({"doctor", "--unknown"}).code, 2);
    const Result unwritable = result({"dump", "-o", file("no/such/place")});
    EXPECT_EQ(unwritable.code, 1);
    EXPECT_THAT(unwritable.err, HasSubstr("cannot write "));
}

} // namespace
} // namespace cli
