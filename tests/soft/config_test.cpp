// SPDX-License-Identifier: BSD-3-Clause
// The values of SOFTGAUDI_*: accepted, or refused with a sentence that quotes the variable and the wrong text.
#include "config.h"

#include "soft.h"

#include <gmock/gmock.h>

using namespace softgaudi;
using testing::AllOf;
using testing::HasSubstr;

namespace {

using Action = FaultRule::Action;
using Mode = Pace::Mode;

TEST(ParsePace, empty_text_is_unpaced) {
    const auto pace = parse_pace("");
    ASSERT_TRUE(pace);
    EXPECT_EQ(pace->mode, Mode::unpaced);
    EXPECT_FALSE(pace->is_timed());
}

TEST(ParsePace, null_sets_no_figures) {
    ASSERT_TRUE(parse_pace("null"));
    EXPECT_EQ(parse_pace("null")->mode, Mode::null);
    EXPECT_FALSE(parse_pace("null")->is_timed());
    EXPECT_FALSE(parse_pace("null,down:3"));
    EXPECT_EQ(parse_pace("null:8")->moved_first, 8u << 20);
    for (const char *bad : {"null:", "null:x", "null:-1", "null:8,down:3"})
        EXPECT_FALSE(parse_pace(bad)) << bad;
}

TEST(ParsePace, figures_are_read_as_gb_per_s_and_us) {
    const auto pace = parse_pace("down:25,up:20,card:500,submit:1.5,map:40");
    ASSERT_TRUE(pace);
    EXPECT_EQ(pace->mode, Mode::real);
    EXPECT_DOUBLE_EQ(pace->down_ns_per_byte, 1.0 / 25);
    EXPECT_DOUBLE_EQ(pace->up_ns_per_byte, 1.0 / 20);
    EXPECT_DOUBLE_EQ(pace->card_ns_per_byte, 1.0 / 500);
    EXPECT_EQ(pace->submit_ns, 1500u);
    EXPECT_EQ(pace->map_ns, 40000u);
}

TEST(ParsePace, missing_figures_cost_nothing) {
    const auto pace = parse_pace("up:2");
    ASSERT_TRUE(pace);
    EXPECT_EQ(pace->down_ns_per_byte, 0);
    EXPECT_EQ(pace->submit_ns, 0u);
}

TEST(ParsePace, virtual_prefix_selects_virtual_clock) {
    const auto pace = parse_pace("virtual:down:4");
    ASSERT_TRUE(pace);
    EXPECT_EQ(pace->mode, Mode::virtual_clock);
    EXPECT_DOUBLE_EQ(pace->down_ns_per_byte, 0.25);
    EXPECT_EQ(parse_pace("virtual:")->mode, Mode::virtual_clock);
}

TEST(ParsePace, wrong_text_is_quoted_in_the_error) {
    for (const char *bad : {"down", "down:", "down:fast", "down:0", "up:-1", "card:inf", "submit:nan", "submit:-2",
                            "down:1x", "down:1:2"}) {
        const auto pace = parse_pace(bad);
        ASSERT_FALSE(pace) << bad;
        EXPECT_THAT(pace.error(), AllOf(HasSubstr("SOFTGAUDI_PACE"), HasSubstr(bad)));
    }
    EXPECT_THAT(parse_pace("up:1,sideways:3").error(), HasSubstr("'sideways'"));
    EXPECT_THAT(parse_pace("virtual:up:zero").error(), HasSubstr("'up:zero'"));
    EXPECT_FALSE(parse_pace("virtual"));
}

TEST(ParsePace, cost_beyond_the_clock_is_refused) {
    EXPECT_FALSE(parse_pace("submit:1e30"));
    EXPECT_FALSE(parse_pace("map:1e30"));
    EXPECT_FALSE(parse_pace("down:1e-300"));
}

TEST(ParseFaults, empty_text_has_no_rules) {
    ASSERT_TRUE(parse_faults(""));
    EXPECT_TRUE(parse_faults("")->empty());
    EXPECT_TRUE(parse_faults(";;")->empty());
}

TEST(ParseFaults, rule_without_number_matches_every_call) {
    const auto rules = parse_faults("device_memory_alloc=ENOMEM");
    ASSERT_TRUE(rules);
    ASSERT_EQ(rules->size(), 1u);
    const FaultRule &rule = rules->front();
    EXPECT_EQ(rule.function, "device_memory_alloc");
    EXPECT_FALSE(rule.device);
    EXPECT_EQ(rule.first, 1u);
    EXPECT_TRUE(rule.onwards);
    EXPECT_EQ(rule.action, Action::fail);
    EXPECT_EQ(rule.error, ENOMEM);
}

TEST(ParseFaults, card_and_call_number_are_read) {
    const auto rules = parse_faults("hlthunk_open@3#2=EIO;wait_for_cs@7#5+=delay:250");
    ASSERT_TRUE(rules);
    ASSERT_EQ(rules->size(), 2u);
    EXPECT_EQ(rules->at(0).function, "open");
    EXPECT_EQ(rules->at(0).device, 3u);
    EXPECT_EQ(rules->at(0).first, 2u);
    EXPECT_FALSE(rules->at(0).onwards);
    EXPECT_EQ(rules->at(1).device, 7u);
    EXPECT_EQ(rules->at(1).first, 5u);
    EXPECT_TRUE(rules->at(1).onwards);
    EXPECT_EQ(rules->at(1).action, Action::delay);
    EXPECT_EQ(rules->at(1).delay_us, 250u);
}

TEST(ParseFaults, every_action_is_read_and_errno_may_be_a_number) {
    EXPECT_EQ(parse_faults("command_submission=hang")->front().action, Action::hang);
    EXPECT_EQ(parse_faults("command_submission=hang")->front().timeout_ns, 0u);
    EXPECT_EQ(parse_faults("command_submission=hang:20")->front().timeout_ns, 20'000'000u);
    EXPECT_EQ(parse_faults("command_submission_timeout=skip")->front().action, Action::skip);
    EXPECT_EQ(parse_faults("*=reset")->front().action, Action::reset);
    EXPECT_EQ(parse_faults("open=lose")->front().action, Action::lose);
    EXPECT_EQ(parse_faults("open=5")->front().error, EIO);
    EXPECT_EQ(parse_faults("open=EHWPOISON")->front().error, EHWPOISON);
    EXPECT_EQ(parse_faults("open=ENOTSUPP")->front().error, 524);
}

TEST(ParseFaults, wrong_text_is_quoted_in_the_error) {
    for (const char *bad : {"open",
                            "=EIO",
                            "open=",
                            "open=BROKEN",
                            "open=-5",
                            "open=0",
                            "open#0=EIO",
                            "open#=EIO",
                            "open#x=EIO",
                            "open@8=EIO",
                            "open@=EIO",
                            "open@a=EIO",
                            "open=delay",
                            "open=delay:",
                            "open=delay:-1",
                            "open#+=EIO",
                            "@1=EIO",
                            "teleport=EIO",
                            "open=hang",
                            "*=hang",
                            "open=skip",
                            "open=hang:1",
                            "command_submission=hang:",
                            "command_submission=hang:0"}) {
        const auto rules = parse_faults(bad);
        ASSERT_FALSE(rules) << bad;
        EXPECT_THAT(rules.error(), AllOf(HasSubstr("SOFTGAUDI_FAULTS"), HasSubstr(bad)));
    }
    EXPECT_THAT(parse_faults("open=EIO;close=WRONG").error(), HasSubstr("'close=WRONG'"));
}

TEST(ParseQuirks, each_quirk_is_read) {
    EXPECT_FALSE(parse_quirks("")->mainline);
    EXPECT_FALSE(parse_quirks("")->posted);
    EXPECT_TRUE(parse_quirks("mainline")->mainline);
    EXPECT_FALSE(parse_quirks("mainline")->posted);
    EXPECT_TRUE(parse_quirks("posted,mainline")->mainline);
    EXPECT_TRUE(parse_quirks("posted,mainline")->posted);
    EXPECT_FALSE(parse_quirks("posted,mainline")->fallback);
    EXPECT_TRUE(parse_quirks("fallback")->fallback);
    EXPECT_TRUE(parse_quirks("early_flag")->early_flag);
    EXPECT_TRUE(parse_quirks("nested")->nested);
    EXPECT_TRUE(parse_quirks("kill")->kill);
    EXPECT_EQ(parse_quirks("kill")->window_s, 30u);
}

TEST(ParseQuirks, kill_takes_the_seconds_before_the_reset) {
    EXPECT_TRUE(parse_quirks("kill:2")->kill);
    EXPECT_EQ(parse_quirks("posted,kill:2")->window_s, 2u);
    for (const char *wrong : {"kill:", "kill:soon", "kill:-1"})
        EXPECT_THAT(parse_quirks(wrong).error(), AllOf(HasSubstr("SOFTGAUDI_QUIRKS"), HasSubstr(wrong)));
}

TEST(ParseQuirks, wrong_text_is_quoted_in_the_error) {
    const auto quirks = parse_quirks("posted,strange");
    ASSERT_FALSE(quirks);
    EXPECT_THAT(quirks.error(), AllOf(HasSubstr("SOFTGAUDI_QUIRKS"), HasSubstr("'strange'")));
}

TEST(ParseBar, number_is_mebibytes) {
    EXPECT_EQ(*parse_bar(""), UINT64_MAX);
    EXPECT_EQ(*parse_bar("256"), uint64_t{256} << 20);
    for (const char *wrong : {"0", "-1", "1G", "many"})
        EXPECT_THAT(parse_bar(wrong).error(), AllOf(HasSubstr("SOFTGAUDI_BAR"), HasSubstr(wrong)));
}

class ReadConfig : public soft::SoftTest {
protected:
    static void refused(const char *variable, const std::string &value) {
        soft::set(variable, value);
        const auto config = read_config();
        ASSERT_FALSE(config) << variable << '=' << value;
        EXPECT_THAT(config.error(), AllOf(HasSubstr(variable), HasSubstr(value)));
        EXPECT_EQ(config.error().find('\n'), std::string::npos) << "one sentence";
    }
};

TEST_F(ReadConfig, empty_environment_gives_eight_gaudi2_cards) {
    const auto config = read_config();
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->model.name, gaudi2().name);
    EXPECT_EQ(config->cards, 8u);
    EXPECT_EQ(config->dir, dir());
    EXPECT_EQ(config->pace.mode, Mode::unpaced);
    EXPECT_TRUE(config->faults.empty());
}

TEST_F(ReadConfig, every_variable_is_read) {
    soft::set("SOFTGAUDI_MODEL", "gaudi3");
    soft::set("SOFTGAUDI_CARDS", "2");
    soft::set("SOFTGAUDI_QUIRKS", "posted");
    soft::set("SOFTGAUDI_PACE", "null");
    soft::set("SOFTGAUDI_PIN", "require");
    soft::set("SOFTGAUDI_FAULTS", "open=EIO");
    const auto config = read_config();
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->model.name, gaudi3().name);
    EXPECT_EQ(config->cards, 2u);
    EXPECT_TRUE(config->quirks.posted);
    EXPECT_EQ(config->pace.mode, Mode::null);
    EXPECT_TRUE(config->pin_required);
    EXPECT_EQ(config->faults.size(), 1u);
}

TEST_F(ReadConfig, unknown_model_is_refused) { refused("SOFTGAUDI_MODEL", "gaudi9"); }

TEST_F(ReadConfig, too_many_cards_are_refused) {
    for (const char *cards : {"9", "-1", "two", "4 ", "0x2", "99999999999999999999"})
        refused("SOFTGAUDI_CARDS", cards);
}

TEST_F(ReadConfig, zero_cards_are_accepted) {
    soft::set("SOFTGAUDI_CARDS", "0");
    ASSERT_TRUE(read_config());
    EXPECT_EQ(read_config()->cards, 0u);
}

TEST_F(ReadConfig, error_of_any_variable_is_returned) {
    refused("SOFTGAUDI_PACE", "down:none");
    unsetenv("SOFTGAUDI_PACE");
    refused("SOFTGAUDI_PIN", "always");
    unsetenv("SOFTGAUDI_PIN");
    refused("SOFTGAUDI_FAULTS", "open=NOTHING");
    unsetenv("SOFTGAUDI_FAULTS");
    refused("SOFTGAUDI_QUIRKS", "wet");
}

TEST_F(ReadConfig, directory_outside_tmpfs_is_refused) { refused("SOFTGAUDI_DIR", "/proc/self"); }

TEST_F(ReadConfig, directory_that_cannot_be_created_is_refused) { refused("SOFTGAUDI_DIR", dir() + "/missing/deeper"); }

TEST_F(ReadConfig, file_as_directory_is_refused) {
    const std::string file = dir() + "/file";
    close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    refused("SOFTGAUDI_DIR", file);
}

TEST_F(ReadConfig, new_directory_has_mode_0700) {
    const std::string made = dir() + "/made";
    soft::set("SOFTGAUDI_DIR", made);
    ASSERT_TRUE(read_config());
    EXPECT_EQ(std::filesystem::status(made).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(ReadConfig, default_directory_is_private_and_on_tmpfs) {
    unsetenv("SOFTGAUDI_DIR");
    soft::set("XDG_RUNTIME_DIR", dir());
    const auto config = read_config();
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->dir, dir() + "/softgaudi");
    EXPECT_EQ(std::filesystem::status(config->dir).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(ReadConfig, default_directory_with_open_mode_is_refused) {
    unsetenv("SOFTGAUDI_DIR");
    soft::set("XDG_RUNTIME_DIR", dir());
    std::filesystem::create_directory(dir() + "/softgaudi");
    std::filesystem::permissions(dir() + "/softgaudi", std::filesystem::perms::all);
    const auto config = read_config();
    ASSERT_FALSE(config);
    EXPECT_EQ(
        config.error(),
        dir() + "/softgaudi: must be a directory of this user with mode 0700; set SOFTGAUDI_DIR to another directory");
}

TEST_F(ReadConfig, symlink_as_default_directory_is_refused) {
    unsetenv("SOFTGAUDI_DIR");
    soft::set("XDG_RUNTIME_DIR", dir());
    std::filesystem::create_directory(dir() + "/real");
    std::filesystem::permissions(dir() + "/real", std::filesystem::perms::owner_all);
    std::filesystem::create_directory_symlink(dir() + "/real", dir() + "/softgaudi");
    const auto config = read_config();
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error(), HasSubstr("/softgaudi: must be a directory of this user with mode 0700"));
}

} // namespace
