// SPDX-License-Identifier: BSD-3-Clause
// Which cards there are, in which order, and what finding them costs.
#include "gaudi.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class CardsTest : public GaudiTest {
protected:
    static std::vector<std::uint32_t> list_modules() {
        std::vector<std::uint32_t> found;
        for (const auto &card : cards().all())
            found.push_back(card->module_id());
        return found;
    }
    static std::string refusal() {
        const auto found = Cards::get();
        return found ? "it was accepted" : found.error().text;
    }
};

TEST_F(CardsTest, order_is_by_module_id) {
    EXPECT_THAT(list_modules(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    for (unsigned i = 0; i < 8; ++i)
        EXPECT_EQ(card(i).number(), i);
    EXPECT_EQ(card(0).bus_id(), "0000:34:00.0");
    EXPECT_EQ(card(0).page_size(), kPage);
    EXPECT_TRUE(has_copy_path(card(0)));
}

TEST_F(CardsTest, discovery_opens_no_card) {
    for (const auto &known : cards().all()) {
        const Counters counters(*known);
        EXPECT_EQ(counters["opens"], 0u);
        EXPECT_EQ(counters.calls("open"), 0u);
        EXPECT_FALSE(counters.in_use());
        EXPECT_FALSE(known->is_open());
        const auto other = thunk::DeviceFd::open(cards().library(), known->bus_id());
        EXPECT_TRUE(other) << "another process can open it: " << other.error().text;
    }
}

TEST_F(CardsTest, list_is_made_once_per_process) {
    EXPECT_EQ(&cards(), &cards());
    for (const auto &known : cards().all())
        EXPECT_EQ(Counters(*known).calls("get_hw_ip_info"), 1u) << "discovery runs once";
}

TEST_F(CardsTest, mapping_table_selects_and_orders) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 2, "module_id": 3, "bus_id": "0000:19:00.0"},
                                   {"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    EXPECT_THAT(list_modules(), ElementsAre(6, 0, 3));
    EXPECT_EQ(card(1).number(), 1u);
    EXPECT_EQ(card(1).bus_id(), "0000:34:00.0");
}

TEST_F(CardsTest, mapping_table_numbers_the_cards) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 5, "module_id": 3, "bus_id": "0000:19:00.0"},
                                   {"index": 3, "module_id": 6, "bus_id": "0000:9b:00.0"}])");
    EXPECT_THAT(list_modules(), ElementsAre(6, 3));
    EXPECT_EQ(value(cards().named("3"))->module_id(), 6u);
    EXPECT_EQ(value(cards().named("module:3"))->number(), 5u);
    const auto found = cards().named("6");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().text,
              "there is no card '6': give an index of GAUDI_MAPPING_TABLE (3, 5), module:N or a bus id");
}

TEST_F(CardsTest, empty_mapping_table_selects_none_and_is_reported) {
    set("GAUDI_MAPPING_TABLE", "[]");
    EXPECT_TRUE(cards().empty());
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().text,
              "there is no Gaudi card: GAUDI_MAPPING_TABLE=[] selects none of the modules 0, 1, 2, 3, 4, 5, 6, 7");
}

TEST_F(CardsTest, bad_mapping_table_is_refused_for_good) {
    set("GAUDI_MAPPING_TABLE", "[{\"index\": 0}");
    EXPECT_EQ(refusal(), "GAUDI_MAPPING_TABLE is not JSON");
    unsetenv("GAUDI_MAPPING_TABLE");
    EXPECT_EQ(refusal(), "GAUDI_MAPPING_TABLE is not JSON");
}

TEST_F(CardsTest, unknown_bus_id_is_refused_with_its_entry) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 3, "bus_id": "0000:19:00.0"},
                                   {"index": 7, "module_id": 2, "bus_id": "0000:ff:00.0"}])");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("index 7"), HasSubstr("no card at 0000:ff:00.0")));
}

TEST_F(CardsTest, wrong_module_id_is_refused_with_the_right_one) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 4, "module_id": 2, "bus_id": "0000:19:00.0"}])");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("index 4"), HasSubstr("the card at 0000:19:00.0 is module 3, not 2")));
}

TEST_F(CardsTest, visible_modules_restrict_the_list) {
    set("HABANA_VISIBLE_MODULES", "5,1,9");
    EXPECT_THAT(list_modules(), ElementsAre(1, 5));
    EXPECT_EQ(card(1).number(), 5u) << "a number is the module id, however many cards are hidden";
    EXPECT_EQ(value(cards().named("5"))->module_id(), 5u);
    for (const char *hidden : {"0", "module:0"}) {
        const auto found = cards().named(hidden);
        ASSERT_FALSE(found) << hidden;
        EXPECT_EQ(found.error().text, "there is no card '" + std::string(hidden) +
                                          "': give a module id (1, 5; HABANA_VISIBLE_MODULES=5,1,9 hides the others), "
                                          "module:N or a bus id");
    }
}

TEST_F(CardsTest, visible_modules_restrict_the_mapping_table) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    set("HABANA_VISIBLE_MODULES", "0");
    EXPECT_THAT(list_modules(), ElementsAre(0));
}

TEST_F(CardsTest, visible_modules_that_leave_no_card_are_reported) {
    set("HABANA_VISIBLE_MODULES", "99,8");
    EXPECT_TRUE(cards().empty());
    const std::string sentence =
        "there is no Gaudi card: HABANA_VISIBLE_MODULES=99,8 selects none of the modules 0, 1, 2, 3, 4, 5, 6, 7";
    EXPECT_EQ(cards().why_empty(), sentence);
    for (const char *name : {"0", "module:99"}) {
        const auto found = cards().named(name);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().text, sentence) << name;
    }
}

TEST_F(CardsTest, visible_modules_outside_the_mapping_table_are_reported) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    set("HABANA_VISIBLE_MODULES", "5");
    EXPECT_EQ(cards().why_empty(), "there is no Gaudi card: HABANA_VISIBLE_MODULES=5 selects none of the modules 6, 0");
}

TEST_F(CardsTest, machine_without_cards_blames_no_variable) {
    set("SOFTGAUDI_CARDS", "0");
    set("HABANA_VISIBLE_MODULES", "99");
    EXPECT_EQ(cards().why_empty(), "there is no Gaudi card");
}

TEST_F(CardsTest, visible_modules_all_selects_each_card) {
    set("HABANA_VISIBLE_MODULES", "all");
    EXPECT_EQ(cards().all().size(), 8u);
}

TEST_F(CardsTest, visible_module_that_is_no_number_is_refused) {
    set("HABANA_VISIBLE_MODULES", "0,one");
    EXPECT_EQ(refusal(), "HABANA_VISIBLE_MODULES: 'one' is not a module id");
}

TEST_F(CardsTest, machine_without_library_has_no_cards) {
    unsetenv("GAUDI_THUNK");
    EXPECT_TRUE(cards().empty());
    EXPECT_EQ(find_region(0x1001001800000000), nullptr);
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().text, "there is no Gaudi card");
}

TEST_F(CardsTest, missing_library_that_was_named_is_an_error) {
    set("GAUDI_THUNK", "/nowhere/libhl-thunk.so");
    EXPECT_THAT(refusal(), HasSubstr("/nowhere/libhl-thunk.so"));
}

TEST_F(CardsTest, server_without_cards_is_no_error) {
    set("SOFTGAUDI_CARDS", "0");
    EXPECT_TRUE(cards().empty());
}

TEST_F(CardsTest, card_is_found_by_number_module_or_bus_id) {
    EXPECT_EQ(value(cards().named("2")), &card(2));
    EXPECT_EQ(value(cards().named("module:7")), &card(7));
    EXPECT_EQ(value(cards().named("0000:19:00.0")), &card(3));
    EXPECT_EQ(cards().by_bus_id("0000:b4:00.0"), &card(4));
    EXPECT_EQ(cards().by_bus_id("b4:00.0"), nullptr);
    for (const char *wrong : {"8", "-1", "", "module:8", "module:", "0000:20:00.0", "1x"}) {
        const auto found = cards().named(wrong);
        ASSERT_FALSE(found) << wrong;
        EXPECT_THAT(found.error().text,
                    HasSubstr("there is no card '" + std::string(wrong) + "': give a module id (0, 1, 2, 3, "));
    }
}

TEST_F(CardsTest, gaudi3_has_no_copy_path) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    ASSERT_EQ(cards().all().size(), 8u);
    EXPECT_FALSE(has_copy_path(card()));
    EXPECT_EQ(card().page_size(), 32 * kMiB);
    EXPECT_EQ(card().block_size(), 512 * kMiB);
    EXPECT_FALSE(card().is_open()) << "the answer needs no open card";
    const auto engine = value(start_engine(card()));
    EXPECT_STREQ(engine->name(), "none");
    ASSERT_TRUE(engine->failed());
    EXPECT_EQ(engine->failure()->code, ENOTSUP);
    EXPECT_THAT(engine->failure()->text, HasSubstr("takes no command submissions"));
}

} // namespace
