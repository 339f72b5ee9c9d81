// SPDX-License-Identifier: BSD-3-Clause
// Which cards there are, in which order, and what finding them costs.
#include "gaudi.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class CardsTest : public GaudiTest {
protected:
    static std::vector<std::uint32_t> modules() {
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

TEST_F(CardsTest, they_are_ordered_by_module_id) {
    EXPECT_THAT(modules(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    for (unsigned i = 0; i < 8; ++i)
        EXPECT_EQ(card(i).index(), i);
    EXPECT_EQ(card(0).bus_id(), "0000:34:00.0");
    EXPECT_EQ(card(0).page_size(), kPage);
    EXPECT_TRUE(card(0).can_copy());
}

TEST_F(CardsTest, discovery_opens_no_card) {
    for (const auto &known : cards().all()) {
        const Counters counters(*known);
        EXPECT_EQ(counters["opens"], 0u);
        EXPECT_EQ(counters.calls("open"), 0u);
        EXPECT_FALSE(counters.in_use());
        EXPECT_FALSE(known->is_open());
        const auto other = thunk::DeviceFd::open(cards().library(), known->bus_id());
        EXPECT_TRUE(other) << "somebody else can have it: " << other.error().text;
    }
}

TEST_F(CardsTest, there_is_one_list_per_process) {
    EXPECT_EQ(&cards(), &cards());
    for (const auto &known : cards().all())
        EXPECT_EQ(Counters(*known).calls("get_hw_ip_info"), 1u) << "looked at once";
}

TEST_F(CardsTest, the_mapping_table_selects_and_orders) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 2, "module_id": 3, "bus_id": "0000:19:00.0"},
                                   {"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    EXPECT_THAT(modules(), ElementsAre(6, 0, 3));
    EXPECT_EQ(card(1).index(), 1u);
    EXPECT_EQ(card(1).bus_id(), "0000:34:00.0");
}

TEST_F(CardsTest, empty_mapping_table_selects_none_and_is_named) {
    set("GAUDI_MAPPING_TABLE", "[]");
    EXPECT_TRUE(cards().empty());
    const auto usual = cards().usual();
    ASSERT_FALSE(usual);
    EXPECT_EQ(usual.error().text,
              "there is no Gaudi card: GAUDI_MAPPING_TABLE=[] names none of module 0, 1, 2, 3, 4, 5, 6, 7");
}

TEST_F(CardsTest, a_bad_mapping_table_is_one_sentence_and_stays_one) {
    set("GAUDI_MAPPING_TABLE", "[{\"index\": 0}");
    EXPECT_EQ(refusal(), "GAUDI_MAPPING_TABLE is not JSON");
    unsetenv("GAUDI_MAPPING_TABLE");
    EXPECT_EQ(refusal(), "GAUDI_MAPPING_TABLE is not JSON");
}

TEST_F(CardsTest, an_unknown_bus_id_is_named_with_its_entry) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 3, "bus_id": "0000:19:00.0"},
                                   {"index": 7, "module_id": 2, "bus_id": "0000:ff:00.0"}])");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("index 7"), HasSubstr("no card at 0000:ff:00.0")));
}

TEST_F(CardsTest, a_wrong_module_id_is_named_with_the_right_one) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 4, "module_id": 2, "bus_id": "0000:19:00.0"}])");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("index 4"), HasSubstr("the card at 0000:19:00.0 is module 3, not 2")));
}

TEST_F(CardsTest, visible_modules_restrict) {
    set("HABANA_VISIBLE_MODULES", "5,1,9");
    EXPECT_THAT(modules(), ElementsAre(1, 5));
    EXPECT_EQ(card(1).index(), 1u);
}

TEST_F(CardsTest, visible_modules_restrict_the_mapping_table_too) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    set("HABANA_VISIBLE_MODULES", "0");
    EXPECT_THAT(modules(), ElementsAre(0));
}

TEST_F(CardsTest, visible_modules_that_leave_none_are_named) {
    set("HABANA_VISIBLE_MODULES", "99,8");
    EXPECT_TRUE(cards().empty());
    const std::string sentence =
        "there is no Gaudi card: HABANA_VISIBLE_MODULES=99,8 names none of module 0, 1, 2, 3, 4, 5, 6, 7";
    EXPECT_EQ(cards().why_empty(), sentence);
    for (const char *name : {"0", "module:99"}) {
        const auto found = cards().named(name);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().text, sentence) << name;
    }
}

TEST_F(CardsTest, visible_modules_outside_the_mapping_table_are_named_with_its_modules) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 6, "bus_id": "0000:9b:00.0"},
                                   {"index": 1, "module_id": 0, "bus_id": "0000:34:00.0"}])");
    set("HABANA_VISIBLE_MODULES", "5");
    EXPECT_EQ(cards().why_empty(), "there is no Gaudi card: HABANA_VISIBLE_MODULES=5 names none of module 6, 0");
}

TEST_F(CardsTest, no_variable_is_named_where_there_was_no_card_to_choose) {
    set("SOFTGAUDI_CARDS", "0");
    set("HABANA_VISIBLE_MODULES", "99");
    EXPECT_EQ(cards().why_empty(), "there is no Gaudi card");
}

TEST_F(CardsTest, all_modules_can_be_visible) {
    set("HABANA_VISIBLE_MODULES", "all");
    EXPECT_EQ(cards().all().size(), 8u);
}

TEST_F(CardsTest, visible_modules_that_are_no_numbers_are_refused) {
    set("HABANA_VISIBLE_MODULES", "0,one");
    EXPECT_EQ(refusal(), "HABANA_VISIBLE_MODULES: 'one' is not a module id");
}

TEST_F(CardsTest, no_library_is_no_cards_and_no_error) {
    unsetenv("GAUDI_THUNK");
    EXPECT_TRUE(cards().empty());
    EXPECT_EQ(cards().find(0x1001001800000000), nullptr);
    const auto usual = cards().usual();
    ASSERT_FALSE(usual);
    EXPECT_EQ(usual.error().text, "there is no Gaudi card");
}

TEST_F(CardsTest, a_library_that_was_named_and_is_not_there_is_an_error) {
    set("GAUDI_THUNK", "/nowhere/libhl-thunk.so");
    EXPECT_THAT(refusal(), HasSubstr("/nowhere/libhl-thunk.so"));
}

TEST_F(CardsTest, a_server_without_cards_is_no_error) {
    set("SOFTGAUDI_CARDS", "0");
    EXPECT_TRUE(cards().empty());
}

TEST_F(CardsTest, they_are_found_by_the_names_users_give_them) {
    EXPECT_EQ(value(cards().named("2")), &card(2));
    EXPECT_EQ(value(cards().named("module:7")), &card(7));
    EXPECT_EQ(value(cards().named("0000:19:00.0")), &card(3));
    EXPECT_EQ(cards().by_bus_id("0000:b4:00.0"), &card(4));
    EXPECT_EQ(cards().by_bus_id("b4:00.0"), nullptr);
    for (const char *wrong : {"8", "-1", "", "module:8", "module:", "0000:20:00.0", "1x"}) {
        const auto found = cards().named(wrong);
        ASSERT_FALSE(found) << wrong;
        EXPECT_THAT(found.error().text,
                    HasSubstr("there is no card '" + std::string(wrong) + "' (a number from 0 to 7"));
    }
}

TEST_F(CardsTest, the_next_generation_is_found_and_known_to_copy_nothing) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    ASSERT_EQ(cards().all().size(), 8u);
    EXPECT_FALSE(card().can_copy());
    EXPECT_EQ(card().page_size(), 32 * kMiB);
    EXPECT_EQ(card().block_size(), 512 * kMiB);
    const auto copier = card().copier();
    ASSERT_FALSE(copier);
    EXPECT_THAT(copier.error().text, HasSubstr("takes no copies"));
    EXPECT_FALSE(card().is_open());
}

} // namespace
