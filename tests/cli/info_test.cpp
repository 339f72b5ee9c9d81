// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"

#include "thunk/owners.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr std::uint64_t kMiB = 1 << 20;

/// A test with a software server of its own, set up by variables and without `ucx_gaudi run`.
class Info : public ::testing::Test {
protected:
    Info() {
        char name[] = "/dev/shm/cli-info-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        ::setenv("SOFTGAUDI_DIR", m_dir.c_str(), 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        for (const char *variable :
             {"UCX_PLUGIN_PATH", "LD_LIBRARY_PATH", "GAUDI_MAPPING_TABLE", "HABANA_VISIBLE_MODULES"})
            ::unsetenv(variable);
    }
    ~Info() override { fs::remove_all(m_dir); }

    static Json json() {
        const Result got = result({"info", "--json"});
        EXPECT_EQ(got.code, 0);
        EXPECT_EQ(got.err, "");
        return Json::parse(got.out);
    }

private:
    std::string m_dir;
};

TEST_F(Info, text_lists_libraries_modules_and_cards) {
    const Result got = result({"info"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, "");
    EXPECT_THAT(got.out, HasSubstr("libhl-thunk:     " SOFTGAUDI_LIBRARY ", version "));
    EXPECT_THAT(got.out, HasSubstr("\n                 SOFTWARE: "));
    EXPECT_THAT(got.out, HasSubstr("\nmodules:         " + fs::path(SOFTGAUDI_DIRECTORY).parent_path().string() +
                                   "/ucx-gaudi\n"));
    EXPECT_THAT(got.out, HasSubstr("\ncards:           8; the number of a card is its module id, in every command, "
                                   "setting and message\n"));
    EXPECT_THAT(got.out, HasSubstr("\ncard  bus id        model           memory     used   free       state        "
                                   "holder\n0     0000:34:00.0  gaudi2 (HL225)  97536 MiB  0 MiB  97536 MiB  "
                                   "operational  -\n"));
    EXPECT_THAT(got.out, HasSubstr("\nfirmware:        cards 0-7: softgaudi\n"));
    EXPECT_THAT(got.out, HasSubstr("\ncompletion:      cards 0-7: flag: " SOFTGAUDI_DIRECTORY
                                   "/ucx-gaudi-verified/verified-softgaudi.json says that the order held for 60 s\n"));
    EXPECT_THAT(got.out, HasSubstr("\nexport:          cards 0-7: as dma-bufs\n"));
    EXPECT_THAT(got.out, HasSubstr("\nzero copy:       cards 0-7: no: "));
}

TEST_F(Info, json_has_every_field_of_eight_cards) {
    const Json out = json();
    EXPECT_EQ(out.at("schema"), 1);
    EXPECT_EQ(out.at("version"), UCX_GAUDI_VERSION);
    EXPECT_EQ(out.at("software"), true);
    EXPECT_EQ(out.at("libhl_thunk").at("path"), SOFTGAUDI_LIBRARY);
    EXPECT_THAT(out.at("libhl_thunk").at("version").get<std::string>(), HasSubstr("softgaudi"));
    ASSERT_EQ(out.at("cards").size(), 8u);
    for (unsigned i = 0; i < 8; ++i) {
        const Json &card = out.at("cards")[i];
        EXPECT_EQ(card.at("index"), i);
        EXPECT_EQ(card.at("module_id"), i); // the order is by module id
        EXPECT_EQ(card.at("model"), "gaudi2");
        EXPECT_EQ(card.at("card_name"), "HL225");
        EXPECT_EQ(card.at("memory_total_bytes"), 97536 * kMiB);
        EXPECT_EQ(card.at("memory_free_bytes"), 97536 * kMiB);
        EXPECT_EQ(card.at("memory_used_bytes"), 0);
        EXPECT_EQ(card.at("firmware"), "softgaudi");
        EXPECT_EQ(card.at("completion"), "flag");
        EXPECT_THAT(card.at("completion_record").get<std::string>(), ::testing::EndsWith("verified-softgaudi.json"));
        EXPECT_EQ(card.at("state"), "operational");
        EXPECT_EQ(card.at("in_use"), false);
        EXPECT_EQ(card.at("holders"), Json::array());
    }
    EXPECT_EQ(out.at("cards")[3].at("bus_id"), "0000:19:00.0");
}

TEST_F(Info, gaudi3_is_named) {
    ::setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    ::setenv("SOFTGAUDI_CARDS", "1", 1);
    const Json out = json();
    ASSERT_EQ(out.at("cards").size(), 1u);
    EXPECT_EQ(out.at("cards")[0].at("model"), "gaudi3");
    EXPECT_GT(out.at("cards")[0].at("memory_total_bytes"), 100000 * kMiB);
}

TEST_F(Info, card_in_use_names_its_process) {
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const auto card = gaudi::thunk::DeviceFd::open(**library, "0000:19:00.0");
    ASSERT_TRUE(card) << card.error().text;
    const auto memory = gaudi::thunk::allocate(card->get(), 768 * kMiB);
    ASSERT_TRUE(memory) << memory.error().text;

    const Json out = json();
    for (const Json &one : out.at("cards")) {
        const bool held = one.at("bus_id") == "0000:19:00.0";
        EXPECT_EQ(one.at("in_use"), held);
        EXPECT_EQ(one.at("holders").size(), held ? 1u : 0u);
        EXPECT_EQ(one.at("memory_free_bytes"), (97536 - (held ? 768 : 0)) * kMiB);
        if (held) {
            EXPECT_EQ(one.at("holders")[0].at("pid"), ::getpid());
            EXPECT_EQ(one.at("holders")[0].at("command"), "cli_info_test");
        }
    }
    EXPECT_THAT(result({"info"}).out,
                HasSubstr("  operational  pid " + std::to_string(::getpid()) + " (cli_info_test)\n"));
}

TEST_F(Info, card_in_use_by_an_unknown_process_says_so) {
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    auto card = gaudi::thunk::DeviceFd::open(**library, "0000:19:00.0");
    ASSERT_TRUE(card) << card.error().text;
    auto memory = gaudi::thunk::allocate(card->get(), 768 * kMiB);
    ASSERT_TRUE(memory) << memory.error().text;
    auto mapping = gaudi::thunk::map_device(*memory);
    ASSERT_TRUE(mapping) << mapping.error().text;
    const auto exported = card->get().export_dmabuf(mapping->get(), 768 * kMiB);
    ASSERT_TRUE(exported) << exported.error().text;
    // The export alone keeps the card in use, and nothing shows which process holds it.
    mapping->detach();
    memory->detach();
    ASSERT_TRUE(card->close());
    const Json out = json();
    EXPECT_EQ(out.at("cards")[3].at("in_use"), true);
    EXPECT_EQ(out.at("cards")[3].at("holders"), Json::array());
    EXPECT_THAT(result({"info"}).out, HasSubstr("  operational  another process\n"));
}

TEST_F(Info, failed_query_is_shown_as_unknown) {
    ::setenv("SOFTGAUDI_FAULTS", "get_device_status_info@0=EIO;get_dram_usage@0=EIO", 1);
    const Json out = json();
    std::map<std::string, int> states;
    for (const Json &card : out.at("cards")) {
        ++states[card.at("state").get<std::string>()];
        EXPECT_EQ(card.at("memory_free_bytes").is_null(), card.at("state") != "operational");
    }
    EXPECT_EQ(states, (std::map<std::string, int>{{"operational", 7}, {"unknown (EIO)", 1}}));
    EXPECT_THAT(result({"info"}).out, ContainsRegex("97536 MiB  unknown +unknown +unknown .EIO.  -\n"));
}

TEST_F(Info, missing_library_is_no_error) {
    ::unsetenv("GAUDI_THUNK");
    const Result text = result({"info"});
    EXPECT_EQ(text.code, 0);
    EXPECT_EQ(text.err, "");
    EXPECT_THAT(text.out, HasSubstr("libhl-thunk:     not found\n"));
    EXPECT_THAT(text.out, HasSubstr("\ncards:           there is no Gaudi card\n"));
    EXPECT_THAT(text.out, Not(HasSubstr("SOFTWARE")));
    const Json out = json();
    EXPECT_EQ(out.at("libhl_thunk"), nullptr);
    EXPECT_EQ(out.at("software"), false);
    EXPECT_EQ(out.at("cards"), Json::array());
}

TEST_F(Info, library_without_cards_is_no_error) {
    ::setenv("SOFTGAUDI_CARDS", "0", 1);
    const Result text = result({"info"});
    EXPECT_EQ(text.code, 0);
    EXPECT_THAT(text.out, HasSubstr("SOFTWARE"));
    EXPECT_THAT(text.out, HasSubstr("\ncards:           there is no Gaudi card\n"));
}

TEST_F(Info, variable_that_leaves_no_card_is_named) {
    const auto expect = [](const std::string &start) {
        const std::string sentence =
            "there is no Gaudi card: " + start + " selects none of the modules 0, 1, 2, 3, 4, 5, 6, 7";
        EXPECT_THAT(result({"info"}).out, HasSubstr("\ncards:           " + sentence + "\n"));
        EXPECT_EQ(json().at("why_no_card"), sentence);
    };
    EXPECT_EQ(json().at("why_no_card"), nullptr);
    ::setenv("HABANA_VISIBLE_MODULES", "99", 1);
    expect("HABANA_VISIBLE_MODULES=99");
    ::unsetenv("HABANA_VISIBLE_MODULES");
    ::setenv("GAUDI_MAPPING_TABLE", "[]", 1);
    expect("GAUDI_MAPPING_TABLE=[]");
}

/// What is wrong with the machine is shown, and is no failure of the command.
void shows(const std::string &key, const std::string &sentence, const std::string &problem) {
    EXPECT_THAT(result({"info"}).out, HasSubstr("\n" + key + sentence));
    const Result json = result({"info", "--json"});
    EXPECT_EQ(json.code, 0);
    EXPECT_EQ(json.err, "");
    const Json out = Json::parse(json.out);
    EXPECT_EQ(out.at("cards"), Json::array());
    EXPECT_THAT(out.at("problems").get<Words>(), ::testing::Contains(::testing::StartsWith(problem)));
}

TEST_F(Info, bad_mapping_table_is_shown) {
    ::setenv("GAUDI_MAPPING_TABLE", "[3]", 1);
    shows("cards:           ", "GAUDI_MAPPING_TABLE: entry 0 is not an object\n", "GD027: GAUDI_MAPPING_TABLE: ");
}

TEST_F(Info, missing_library_of_gaudi_thunk_is_shown) {
    ::setenv("GAUDI_THUNK", "/no/such/libhl-thunk.so", 1);
    shows("libhl-thunk:     ", "GAUDI_THUNK=/no/such/libhl-thunk.so: ", "GD020: GAUDI_THUNK=/no/such");
}

TEST_F(Info, full_output_device_is_an_error) {
    Command command({"-c", "'" UCX_GAUDI_COMMAND "' info >/dev/full"}, "/bin/sh");
    EXPECT_EQ(command.wait(), 1);
    EXPECT_EQ(command.err().rest(), "ucx_gaudi: cannot write to stdout: No space left on device\n");
}

TEST_F(Info, mapping_table_sets_the_order) {
    ::setenv("GAUDI_MAPPING_TABLE",
             R"([{"index":1,"module_id":0,"bus_id":"0000:34:00.0"},{"index":0,"module_id":3,"bus_id":"0000:19:00.0"}])",
             1);
    const Json out = json();
    ASSERT_EQ(out.at("cards").size(), 2u);
    EXPECT_EQ(out.at("cards")[0].at("module_id"), 3);
    EXPECT_EQ(out.at("cards")[1].at("module_id"), 0);
    const std::string text = result({"info"}).out;
    EXPECT_THAT(text,
                HasSubstr("2; the number of a card is its module id, in every command; settings and messages of UCX "
                          "have the index, by GAUDI_MAPPING_TABLE\n"));
    EXPECT_THAT(text, ContainsRegex("\ncard  index  bus id .*\n3     0      0000:19:00.0 "));
}

TEST_F(Info, cards_are_numbered_by_module_where_some_are_hidden) {
    ::setenv("HABANA_VISIBLE_MODULES", "6,2", 1);
    const Json out = json();
    ASSERT_EQ(out.at("cards").size(), 2u);
    EXPECT_EQ(out.at("cards")[0].at("index"), 2);
    EXPECT_EQ(out.at("cards")[1].at("index"), 6);
    EXPECT_THAT(result({"info"}).out, ContainsRegex("\n2     0000:1a.*\n6     0000:9b.*\n"));
}

TEST_F(Info, modules_and_plugin_path_are_listed) {
    const fs::path modules = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path() / "lib" / "ucx-gaudi";
    Json out = json();
    EXPECT_EQ(out.at("modules").at("directory"), modules.string());
    EXPECT_THAT(out.at("modules").at("files").get<Words>(), ::testing::Contains("libuct_gaudi.so.0.0.0"));
    EXPECT_EQ(out.at("modules").at("in_plugin_path"), false);
    ::setenv("UCX_PLUGIN_PATH", ("/elsewhere:" + modules.string() + "/").c_str(), 1);
    EXPECT_EQ(json().at("modules").at("in_plugin_path"), true);
}

} // namespace
} // namespace cli
