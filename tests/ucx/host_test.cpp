// SPDX-License-Identifier: BSD-3-Clause
// Host on real UCX libraries.
#include "ucx/host.h"

#include "engine.h"
#include "ucx/log.h"
#include "ucx/objects.h"
#include "ucx/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gaudi::ucx {
namespace {

using testing::HasSubstr;

Host &host_of(const Engine &engine) {
    const Result<Host *> host = Host::find(::dlsym(engine.ucs(), "ucs_malloc"));
    EXPECT_TRUE(host) << host.error().text;
    return **host;
}

TEST(Host, every_ucx_has_every_required_function) {
    set_environment("warn");
    for (const Engine &engine : {Engine::rapids(), Engine::nixl_1_22(), Engine::nixl_1_23()}) {
        Host &host = host_of(engine);
        const Result<void> uct = host.find_uct();
        ASSERT_TRUE(uct) << uct.error().text;
#define EXPECT_RESOLVED(name) EXPECT_NE(host.call().name, nullptr) << #name;
        GAUDI_UCX_UCS_REQUIRED(EXPECT_RESOLVED)
        GAUDI_UCX_UCM_REQUIRED(EXPECT_RESOLVED)
        GAUDI_UCX_UCM_OPTIONAL(EXPECT_RESOLVED)
        GAUDI_UCX_UCT_REQUIRED(EXPECT_RESOLVED)
#undef EXPECT_RESOLVED
        EXPECT_EQ(reinterpret_cast<void *>(host.call().uct_md_close), ::dlsym(engine.uct(), "uct_md_close"));
    }
}

TEST(Host, tables_of_every_ucx_are_proved) {
    set_environment("warn");
    const std::pair<Engine, Tables> engines[] = {{Engine::rapids(), Tables::v1_22_0},
                                                 {Engine::nixl_1_22(), Tables::v1_22_x},
                                                 {Engine::nixl_1_23(), Tables::v1_23}};
    for (const auto &[engine, expected] : engines) {
        Host &host = host_of(engine);
        ASSERT_TRUE(host.find_uct());
        testing::internal::CaptureStdout();
        const Result<Tables> tables = prove_tables(host.call());
        EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
        ASSERT_TRUE(tables) << tables.error().text;
        EXPECT_EQ(*tables, expected) << host.name();
    }
}

TEST(Host, same_ucx_is_the_same_host) {
    set_environment("warn");
    const Engine rapids = Engine::rapids();
    const Engine nixl = Engine::nixl_1_23();
    Host &first = host_of(rapids);
    Host &second = host_of(nixl);
    EXPECT_NE(&first, &second);
    EXPECT_EQ(&first, &host_of(rapids));
    EXPECT_EQ(&first, *Host::find(::dlsym(rapids.ucs(), "ucs_free")));
    EXPECT_THAT(first.name(), HasSubstr("UCX 1.22.0 ("));
    EXPECT_THAT(second.name(), HasSubstr("UCX 1.23.0 ("));
    EXPECT_NE(first.call().ucs_global_opts, second.call().ucs_global_opts);
}

TEST(Host, second_claim_is_refused) {
    set_environment("warn");
    Host &host = host_of(Engine::rapids());
    EXPECT_TRUE(host.claim_uct());
    EXPECT_FALSE(host.claim_uct());
}

TEST(Host, log_follows_the_level_and_format_of_ucx) {
    set_environment("info");
    Host &host = host_of(Engine::rapids());
    testing::internal::CaptureStdout();
    GAUDI_UCX_LOG(host, INFO, "card %d of %s", 7, "eight");
    GAUDI_UCX_LOG(host, DEBUG, "not %s", "this");
    host.log(UCS_LOG_LEVEL_DEBUG, "file.cpp", 1, "function", "nor this");
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(text, HasSubstr("host_test.cpp"));
    EXPECT_THAT(text, HasSubstr("UCX  INFO  card 7 of eight\n"));
    EXPECT_EQ(text.find("this"), std::string::npos);
}

TEST(Host, arguments_of_a_line_below_the_level_are_not_evaluated) {
    set_environment("warn");
    Host &host = host_of(Engine::rapids());
    int evaluated = 0;
    GAUDI_UCX_LOG(host, DEBUG, "%d", ++evaluated);
    EXPECT_EQ(evaluated, 0);
}

TEST(Host, parsers_read_the_values_of_their_types) {
    set_environment("warn");
    Host &host = host_of(Engine::rapids());
    const auto parse = [](const ucs_config_parser &parser, const char *text, void *value) {
        EXPECT_EQ(parser.read(text, value, parser.arg), 1) << text;
        char shown[64] = "";
        EXPECT_GT(parser.write(shown, sizeof(shown), value, parser.arg), 0) << text;
        char help[256] = "";
        parser.help(help, sizeof(help), parser.arg);
        EXPECT_STRNE(help, "");
        return std::string(shown);
    };
    char *string = nullptr;
    EXPECT_EQ(parse(host.string_parser(), "text", &string), "text");
    host.string_parser().release(&string, nullptr);
    unsigned natural = 0;
    EXPECT_EQ(parse(host.uint_parser(), "3", &natural), "3");
    unsigned choice = 0;
    parse(host.ternary_parser(), "try", &choice);
    EXPECT_EQ(choice, UCS_TRY);
    EXPECT_EQ(host.ternary_parser().read("auto", &choice, nullptr), 0);
    std::size_t size = 0;
    parse(host.memunits_parser(), "64K", &size);
    EXPECT_EQ(size, 65536U);
    parse(host.memunits_parser(), "inf", &size);
    EXPECT_EQ(size, UCS_MEMUNITS_INF);
    double real = 0;
    parse(host.time_parser(), "5us", &real);
    EXPECT_NEAR(real, 5e-6, 1e-12);
    parse(host.bandwidth_parser(), "10MBs", &real);
    EXPECT_EQ(real, 10.0 * (1 << 20));
    parse(host.bandwidth_parser(), "auto", &real);
    EXPECT_EQ(real, UCS_CONFIG_DBL_AUTO);
    static const char *const names[] = {"driver", "flag", nullptr};
    EXPECT_EQ(parse(host.enum_parser(names), "flag", &choice), "flag");
    EXPECT_EQ(choice, 1U);
    static const ucs_config_key_field keys[] = {{"up", "to host", 0}, {"down", "from host", 8}, {nullptr, nullptr, 0}};
    const ucs_config_key_value_param both{host.time_parser(), keys};
    double values[2] = {};
    parse(host.key_value_parser(&both), "up:1s,down:2s", values);
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[1], 2);
}

TEST(Host, table_parser_puts_a_table_into_a_table) {
    set_environment("warn");
    Host &host = host_of(Engine::rapids());
    ASSERT_TRUE(host.find_uct());
    const ucs_config_parser parser = host.table_parser(host.call().uct_iface_config_table);
    EXPECT_EQ(parser.read, host.call().ucs_config_sscanf_table);
    EXPECT_EQ(parser.write, nullptr);
    EXPECT_EQ(parser.arg, host.call().uct_iface_config_table);
}

TEST(Host, allocated_memory_is_zeroed_and_freed_by_ucx) {
    set_environment("warn");
    Host &host = host_of(Engine::rapids());
    int *numbers = host.allocate<int>(4, "numbers");
    ASSERT_NE(numbers, nullptr);
    EXPECT_EQ(numbers[3], 0);
    host.call().ucs_free(numbers);
}

TEST(Host, caller_in_no_library_is_refused) {
    int on_stack = 0;
    EXPECT_FALSE(Host::find(nullptr));
    EXPECT_FALSE(Host::find(&on_stack));
}

} // namespace
} // namespace gaudi::ucx
