// SPDX-License-Identifier: BSD-3-Clause
// GAUDI_MAPPING_TABLE and HABANA_VISIBLE_MODULES as text: what is accepted, and the message for what is not.
#include "gaudi/card/mapping_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using gaudi::parse_mapping_table;
using gaudi::parse_visible_modules;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

std::string refusal(std::string_view text) {
    const auto parsed = parse_mapping_table(text);
    return parsed ? "it was accepted" : parsed.error();
}

TEST(MappingTable, entries_are_ordered_by_index) {
    const auto table = parse_mapping_table(R"([{"index": 1, "module_id": 5, "bus_id": "0000:9b:00.0"},
                                               {"index": 0, "module_id": 3, "bus_id": "0000:19:00.0"}])");
    ASSERT_TRUE(table) << table.error();
    ASSERT_EQ(table->size(), 2u);
    EXPECT_EQ((*table)[0].index, 0u);
    EXPECT_EQ((*table)[0].module_id, 3u);
    EXPECT_EQ((*table)[0].bus_id, "0000:19:00.0");
    EXPECT_EQ((*table)[1].module_id, 5u);
}

TEST(MappingTable, empty_table_is_accepted) {
    const auto table = parse_mapping_table("[]");
    ASSERT_TRUE(table);
    EXPECT_TRUE(table->empty());
}

TEST(MappingTable, numeric_strings_and_unknown_keys_are_accepted) {
    const auto table = parse_mapping_table(R"([{"index": "2", "module_id": "7", "bus_id": "a", "numa": -1}])");
    ASSERT_TRUE(table) << table.error();
    EXPECT_EQ((*table)[0].index, 2u);
    EXPECT_EQ((*table)[0].module_id, 7u);
}

TEST(MappingTable, text_that_is_no_json_array_is_refused) {
    for (const char *text : {"", " ", "[", "[{]", "[1,]", "index=0", "[{\"index\": 0} trailing", "\xff\xfe"})
        EXPECT_EQ(refusal(text), "GAUDI_MAPPING_TABLE is not JSON") << text;
    for (const char *text : {"{}", "1", "null", "\"[]\"", R"({"index": 0, "module_id": 0, "bus_id": "a"})"})
        EXPECT_EQ(refusal(text), "GAUDI_MAPPING_TABLE is not a JSON array") << text;
}

TEST(MappingTable, wrong_entry_is_named) {
    const std::string good = R"([{"index": 0, "module_id": 0, "bus_id": "a"}, )";
    const auto second = [&](const std::string &entry) { return refusal(good + entry + "]"); };
    EXPECT_THAT(second("7"), HasSubstr("entry 1 is not an object"));
    EXPECT_THAT(second("[]"), HasSubstr("entry 1 is not an object"));
    EXPECT_THAT(second(R"({"module_id": 1, "bus_id": "b"})"), HasSubstr("entry 1 has no \"index\""));
    EXPECT_THAT(second(R"({"index": 1, "bus_id": "b"})"), HasSubstr("entry 1 has no \"module_id\""));
    EXPECT_THAT(second(R"({"index": 1, "module_id": 1})"), HasSubstr("\"bus_id\" of entry 1"));
    EXPECT_THAT(second(R"({"index": 1, "module_id": 1, "bus_id": 4})"), HasSubstr("\"bus_id\" of entry 1"));
    EXPECT_THAT(second(R"({"index": 1, "module_id": 1, "bus_id": ""})"), HasSubstr("\"bus_id\" of entry 1"));
}

TEST(MappingTable, invalid_number_is_quoted) {
    for (const char *bad : {"-1", "1.5", "true", "null", "[]", "\"\"", "\"one\"", "\"1 \"", "4294967296"}) {
        const std::string entry = std::string(R"([{"index": )") + bad + R"(, "module_id": 1, "bus_id": "b"}])";
        EXPECT_EQ(refusal(entry),
                  std::string("GAUDI_MAPPING_TABLE: \"index\" of entry 0 is ") + bad + ", not a number from 0 up");
    }
    EXPECT_THAT(refusal(R"([{"index": 0, "module_id": {"a": 1}, "bus_id": "b"}])"),
                HasSubstr("\"module_id\" of entry 0 is {\"a\":1}"));
}

TEST(MappingTable, repeated_value_is_refused) {
    const auto both = [](const char *second) {
        return refusal(R"([{"index": 0, "module_id": 3, "bus_id": "a"}, )" + std::string(second) + "]");
    };
    EXPECT_THAT(both(R"({"index": 0, "module_id": 2, "bus_id": "b"})"), HasSubstr("entry 1 repeats the index"));
    EXPECT_THAT(both(R"({"index": 1, "module_id": 3, "bus_id": "b"})"), HasSubstr("entry 1 repeats the module_id"));
    EXPECT_THAT(both(R"({"index": 1, "module_id": 2, "bus_id": "a"})"), HasSubstr("entry 1 repeats the bus_id"));
}

TEST(VisibleModules, list_is_parsed_with_and_without_spaces) {
    EXPECT_THAT(*parse_visible_modules("0"), ElementsAre(0));
    EXPECT_THAT(*parse_visible_modules("5,1,0"), ElementsAre(5, 1, 0));
    EXPECT_THAT(*parse_visible_modules(" 2 , 3"), ElementsAre(2, 3));
    EXPECT_TRUE(parse_visible_modules("")->empty());
}

TEST(VisibleModules, invalid_module_is_quoted) {
    for (const auto &[text, wrong] : {std::pair{"0,x", "x"},
                                      {"1,,2", ""},
                                      {"-1", "-1"},
                                      {"1-3", "1-3"},
                                      {"0x1", "0x1"},
                                      {"99999999999", "99999999999"},
                                      {" ", ""}}) {
        const auto parsed = parse_visible_modules(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error(), std::string("HABANA_VISIBLE_MODULES: '") + wrong + "' is not a module id");
    }
}

} // namespace
