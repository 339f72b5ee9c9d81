// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"

#include "thunk/owners.h"
#include "untruths.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

namespace cli {
namespace {

using ::testing::HasSubstr;
using Verdicts = std::map<std::string, std::string>; // by id

/// A test with two software cards of its own, and no records.
class Verify : public ::testing::Test {
protected:
    Verify() {
        char name[] = "/dev/shm/cli-verify-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        ::setenv("SOFTGAUDI_DIR", m_dir.c_str(), 1);
        ::setenv("SOFTGAUDI_CARDS", "2", 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        ::setenv("XDG_CACHE_HOME", (m_dir + "/cache").c_str(), 1);
        for (const char *variable : {"HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "GAUDI_MAPPING_TABLE"})
            ::unsetenv(variable);
    }
    ~Verify() override { fs::remove_all(m_dir); }

    std::string file() const { return m_dir + "/report.json"; }
    std::string profile() const { return m_dir + "/profile.json"; }
    void set_profile(const Json &change) const {
        write_profile(profile(), change);
        ::setenv("SOFTGAUDI_PROFILE", profile().c_str(), 1);
    }
    Result verify(Words options = {}) const {
        Words words = {"verify", "--json", file()};
        if (options.empty() || options.front() != "--soak")
            words.insert(words.end(), {"--soak", "0"});
        words.insert(words.end(), options.begin(), options.end());
        return result(words);
    }
    Json report() const { return Json::parse(std::ifstream(file())); }
    Verdicts verdicts() const {
        Verdicts found;
        const Json all = report();
        for (const Json &one : all.at("assumptions"))
            found[one.at("id")] = one.at("verdict");
        return found;
    }
    std::set<std::string> failed() const {
        std::set<std::string> found;
        const Verdicts all = verdicts();
        for (const auto &[id, verdict] : all)
            if (verdict == "failed")
                found.insert(id);
        return found;
    }
    bool has_record() const { return fs::exists(m_dir + "/cache/ucx-gaudi"); }

private:
    std::string m_dir;
};

TEST_F(Verify, short_soak_that_held_writes_no_record) {
    const Result got = verify({"--soak", "1"});
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_EQ(got.err, "");
    EXPECT_EQ(verdicts().at("A2"), "held");
    EXPECT_THAT(got.out, HasSubstr("\nno record is written: the soak took 1 s, and 60 s are needed\n"));
    EXPECT_TRUE(report().at("record").is_null());
    EXPECT_FALSE(has_record());
}

TEST_F(Verify, soak_of_no_seconds_is_left_out) {
    const Result got = verify({"--soak", "0"});
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_EQ(verdicts().at("A2"), "not testable here");
    EXPECT_THAT(got.out, HasSubstr("  saw: --soak 0 leaves it out\n"));
    EXPECT_FALSE(has_record());
}

TEST_F(Verify, failed_soak_writes_a_record_that_decides_the_default) {
    ::setenv("SOFTGAUDI_FAULTS", "command_submission#500=skip", 1);
    const Result got = verify({"--soak", "30"}); // it ends with the first one
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(failed(), std::set<std::string>{"A2"});
    EXPECT_THAT(got.out, HasSubstr("a completion flag came before its data: queue "));
    EXPECT_THAT(got.out, HasSubstr("\ncompletion by driver from now on: "));
    EXPECT_EQ(report().at("record").at("order_held"), false);
    ::unsetenv("SOFTGAUDI_FAULTS");
    EXPECT_THAT(result({"info"}).out, HasSubstr("driver: " + report().at("record").at("path").get<std::string>() +
                                                " says that a completion flag came before its data\n"));
}

TEST_F(Verify, variables_and_option_choose_the_card) {
    EXPECT_EQ(verify({"--card", "module:1"}).code, 0);
    EXPECT_EQ(report().at("card").at("module"), 1);
    ::setenv("HLS_MODULE_ID", "1", 1);
    EXPECT_EQ(verify().code, 0);
    EXPECT_EQ(report().at("card").at("module"), 1);
    ::unsetenv("HLS_MODULE_ID");
    ::setenv("HABANA_VISIBLE_MODULES", "0", 1);
    EXPECT_EQ(verify().code, 0);
    EXPECT_EQ(report().at("card").at("module"), 0);
    EXPECT_EQ(verdicts().at("A16"), "not testable here"); // there is no other card
    EXPECT_EQ(verify({"--card", "module:1"}).code, 1);
}

TEST_F(Verify, mistakes_are_refused_in_a_sentence) {
    for (const Words &words : {Words{"--soak", "-1"}, Words{"--soak", "many"}, Words{"--bogus"}, Words{"surplus"}}) {
        const Result got = verify(words);
        EXPECT_EQ(got.code, 2);
        EXPECT_THAT(got.err, HasSubstr("; see ucx_gaudi verify --help\n"));
    }
    const Result unknown = verify({"--card", "module:9"});
    EXPECT_EQ(unknown.code, 1);
    EXPECT_THAT(unknown.err, HasSubstr("module:9"));
    EXPECT_EQ(unknown.out, "");
    const Result unwritable = result({"verify", "--soak", "600", "--json", "/nonexistent/report.json"});
    EXPECT_EQ(unwritable.code, 1);
    EXPECT_EQ(unwritable.out, "") << "the run has begun";
    EXPECT_EQ(unwritable.err, "ucx_gaudi: cannot write /nonexistent/report.json: No such file or directory\n");
}

TEST_F(Verify, report_goes_to_the_output_behind_the_table) {
    const Result got = result({"verify", "--soak", "1", "--json", "/dev/stdout"});
    EXPECT_EQ(got.code, 0) << got.err;
    const std::size_t begin = got.out.find("\n{"), end = got.out.rfind("}\n");
    ASSERT_NE(begin, std::string::npos);
    EXPECT_EQ(Json::parse(got.out.substr(begin, end + 1 - begin)).at("card").at("module"), 0);
}

TEST_F(Verify, card_in_use_is_refused_with_its_holder) {
    ::setenv("SOFTGAUDI_CARDS", "1", 1);
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const auto card = gaudi::thunk::DeviceFd::open(**library, "0000:19:00.0");
    ASSERT_TRUE(card) << card.error().text;
    const Result got = verify();
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "ucx_gaudi: card module:0 (0000:19:00.0) is in use by pid " + std::to_string(::getpid()) +
                           " (cli_verify_test); end that program, or choose another card with --card; a card that "
                           "SynapseAI is to open takes --with-synapse\n");
}

TEST_F(Verify, free_card_is_chosen_beside_one_in_use) {
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const auto card = gaudi::thunk::DeviceFd::open(**library, "0000:1a:00.0"); // module 0
    ASSERT_TRUE(card) << card.error().text;
    EXPECT_EQ(verify().code, 0);
    EXPECT_EQ(report().at("card").at("module"), 1);
}

TEST_F(Verify, interrupt_frees_memory_and_closes_the_card) {
    for (const int signal : {SIGINT, SIGTERM}) {
        Command command({"verify", "--soak", "600", "--json", file()});
        while (!command.out().line().starts_with("import: "))
            ASSERT_FALSE(HasFailure());
        command.kill(signal);
        const std::string out = command.out().rest(), err = command.err().rest();
        EXPECT_EQ(command.wait(), 128 + signal);
        EXPECT_EQ(err, "ucx_gaudi: interrupted: the memory is freed and the card closed\n");
        EXPECT_EQ(report().at("interrupted"), true);
        EXPECT_EQ(verdicts().at("A2"), "not testable here");
        EXPECT_FALSE(has_record());
        const Json card = Json::parse(result({"info", "--json"}).out).at("cards")[0];
        EXPECT_EQ(card.at("in_use"), false);
        EXPECT_EQ(card.at("memory_free_bytes"), card.at("memory_total_bytes"));
    }
}

TEST_F(Verify, gaudi3_has_its_subset) {
    ::setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    const Result got = verify();
    EXPECT_EQ(got.code, 0) << got.out;
    const Verdicts found = verdicts();
    for (const char *id : {"A7", "A8", "A9", "A10", "A13", "A14", "A17", "A18", "A20", "A39", "A40"})
        EXPECT_EQ(found.at(id), "held") << id;
    for (const char *id : {"A1", "A2", "A3", "A4", "A5", "A6", "A12", "A16"})
        EXPECT_EQ(found.at(id), "not testable here") << id;
    EXPECT_FALSE(has_record());
}

TEST_F(Verify, synapse_step_holds_beside_the_stand_in) {
    ::setenv("LD_LIBRARY_PATH", STANDIN_DIRECTORY, 1);
    const Result got = verify({"--soak", "1", "--with-synapse"});
    EXPECT_EQ(got.code, 0) << got.out << got.err;
    for (const char *id : {"A2", "A21", "A22", "A26", "A27", "A29"})
        EXPECT_EQ(verdicts().at(id), "held") << id;
}

TEST_F(Verify, synapse_step_without_synapse_says_so) {
    ::unsetenv("LD_LIBRARY_PATH");
    const Result got = verify({"--with-synapse"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(verdicts().at("A22"), "not testable here");
    EXPECT_THAT(got.out, HasSubstr("libSynapse.so does not load: "));
}

TEST_F(Verify, wrong_answers_of_synapse_are_named) {
    ::setenv("LD_LIBRARY_PATH", STANDIN_DIRECTORY, 1);
    ::setenv("STANDIN_SPARES_A_PAGE", "1", 1);
    EXPECT_EQ(verify({"--with-synapse"}).code, 1);
    EXPECT_EQ(failed(), std::set<std::string>{"A29"});
    ::unsetenv("STANDIN_SPARES_A_PAGE");
    ::setenv("STANDIN_FAULT", "synDeviceGetInfoV2:1", 1);
    EXPECT_EQ(verify({"--with-synapse"}).code, 1);
    EXPECT_EQ(failed(), std::set<std::string>{"A22"});
}

class Untrue : public Verify, public ::testing::WithParamInterface<Untruth> {};

TEST_P(Untrue, assumption_is_named_as_failed) {
    set_profile(GetParam().change);
    const Result got = verify();
    EXPECT_EQ(got.code, 1) << got.out;
    EXPECT_EQ(failed(), GetParam().failed);
    const Json all = report();
    for (const Json &one : all.at("assumptions"))
        if (one.at("verdict") == "failed") {
            EXPECT_THAT(got.out, HasSubstr("  then (" + one.at("id").get<std::string>() +
                                           "): " + one.at("consequence").get<std::string>() + "\n"));
        }
    Json patched = all; // the report has the facts of the profile, so that it is one itself
    patched.merge_patch(GetParam().change);
    EXPECT_EQ(all, patched);
}

INSTANTIATE_TEST_SUITE_P(Verify, Untrue, ::testing::ValuesIn(untruths()),
                         [](const auto &one) { return one.param.name; });

/// A behaviour of softgaudi that another variable makes.
struct Cause {
    const char *name, *variable, *value;
    std::set<std::string> failed;
    const char *soak = "0";
};
void PrintTo(const Cause &cause, std::ostream *out) { *out << cause.name; }

class RoundTrip : public Verify, public ::testing::WithParamInterface<Cause> {};

TEST_P(RoundTrip, report_is_a_profile_that_gives_the_same_report) {
    ::setenv(GetParam().variable, GetParam().value, 1);
    verify({"--soak", GetParam().soak});
    const Verdicts seen = verdicts();
    const Json behaviour = report().at("behaviour"), card = report().at("card");
    EXPECT_EQ(failed(), GetParam().failed);
    ::unsetenv(GetParam().variable);
    fs::rename(file(), profile());
    ::setenv("SOFTGAUDI_PROFILE", profile().c_str(), 1);
    verify({"--soak", GetParam().soak});
    EXPECT_EQ(verdicts(), seen);
    EXPECT_EQ(report().at("behaviour"), behaviour);
    EXPECT_EQ(report().at("card"), card);
}

INSTANTIATE_TEST_SUITE_P(
    Verify, RoundTrip,
    ::testing::Values(Cause{"gaudi2", "SOFTGAUDI_MODEL", "gaudi2", {}},
                      Cause{"gaudi3", "SOFTGAUDI_MODEL", "gaudi3", {}},
                      Cause{"fallback", "SOFTGAUDI_QUIRKS", "fallback", {}},
                      Cause{"early_flag", "SOFTGAUDI_QUIRKS", "early_flag", {"A2"}, "30"}, // it ends with the first one
                      Cause{"short_bar", "SOFTGAUDI_BAR", "65280", {"A39"}},
                      Cause{"no_export", "SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EPERM", {"A9"}},
                      Cause{"no_submission", "SOFTGAUDI_FAULTS", "command_submission=EPERM", {"A1", "A5"}},
                      Cause{"no_wait", "SOFTGAUDI_FAULTS", "wait_for_cs#1=EINVAL", {"A19"}}),
    [](const auto &one) { return one.param.name; });

TEST_F(Verify, events_that_are_not_reported_are_named) {
    ::setenv("SOFTGAUDI_FAULTS", "notifier_create=EOPNOTSUPP", 1);
    EXPECT_EQ(verify().code, 1);
    EXPECT_EQ(failed(), std::set<std::string>{"A40"});
}

TEST_F(Verify, soak_finds_flags_that_an_idle_card_writes_in_order) {
    ::setenv("SOFTGAUDI_QUIRKS", "early_flag", 1);
    const Result got = verify({"--soak", "30"}); // it ends with the first one
    EXPECT_EQ(got.code, 1) << got.out;
    EXPECT_EQ(failed(), std::set<std::string>{"A2"});
    EXPECT_THAT(got.out, HasSubstr("\ncompletion by driver from now on: "));
}

} // namespace
} // namespace cli
