// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi doctor and dump as users run them, on softgaudi and softhca.
#include "../command.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

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
    EXPECT_THAT(got.out, HasSubstr("FAIL  GD061  softhca0 answers 524 (ENOTSUPP, an errno of the kernel)"));
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
    EXPECT_THAT(result({"doctor", "--from", file("cut.json")}).err, HasSubstr("is no file of ucx_gaudi dump"));
    EXPECT_EQ(result({"doctor", "--active", "--from", file("cut.json")}).code, 2);
    EXPECT_EQ(result({"doctor", "--unknown"}).code, 2);
    const Result unwritable = result({"dump", "-o", file("no/such/place")});
    EXPECT_EQ(unwritable.code, 1);
    EXPECT_THAT(unwritable.err, HasSubstr("cannot write "));
}

} // namespace
} // namespace cli
