// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_PROFILE: the file is read, or refused with a sentence. What cards do with the facts in it is seen by `ucx_gaudi
// verify` (tests/cli/verify_test.cpp).
#include "config.h"

#include "soft.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace softgaudi;
using testing::HasSubstr;

namespace {

using Json = nlohmann::json;

class Profile : public soft::SoftTest {
protected:
    Profile() { soft::set("SOFTGAUDI_PROFILE", file()); }

    std::string file() const { return dir() + "/profile.json"; }
    void write(const std::string &text) const { std::ofstream(file()) << text; }
    /// The report of a Gaudi2, changed.
    tl::expected<Config, std::string> read(const Json &change) const {
        Json report = {{"schema", 1},
                       {"card",
                        {{"generation", "gaudi2"},
                         {"memory_bytes", 127 * soft::kPage},
                         {"memory_base", gaudi2().dram.begin},
                         {"page_bytes", soft::kPage},
                         {"edma_mask", 255}}},
                       {"behaviour", Json::object()},
                       {"notes", {{"kernel", "not read"}}}};
        report.merge_patch(change);
        write(report.dump());
        return read_config();
    }
    tl::expected<Config, std::string> read_fact(const char *step, const char *name, const Json &value) const {
        return read({{"behaviour", {{step, {{name, value}}}}}});
    }
    void expect_refused(const tl::expected<Config, std::string> &config, const std::string &why) const {
        ASSERT_FALSE(config) << why;
        EXPECT_EQ(config.error(), "SOFTGAUDI_PROFILE=" + file() + ": " + why);
    }
};

TEST_F(Profile, healthy_gaudi2_is_the_default) {
    const auto config = read(Json::object());
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->model.dram.begin, gaudi2().dram.begin);
    EXPECT_EQ(config->model.dram.end, gaudi2().dram.end);
    EXPECT_EQ(config->model.dram_fw.begin, gaudi2().dram_fw.begin);
    EXPECT_EQ(config->model.dram_bytes, gaudi2().dram_bytes);
    EXPECT_EQ(config->model.dram_page, gaudi2().dram_page);
    EXPECT_EQ(config->model.edma_mask, gaudi2().edma_mask);
    EXPECT_TRUE(config->behaviour.bad_queues.empty());
    EXPECT_FALSE(config->quirks.early_flag || config->quirks.posted || config->quirks.mainline);
}

TEST_F(Profile, generation_chooses_the_model) {
    const auto config =
        read({{"card", {{"generation", "gaudi3"}, {"memory_bytes", uint64_t{4} << 30}, {"page_bytes", 32 << 20}}}});
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->model.name, gaudi3().name);
    EXPECT_EQ(config->model.pages(), 128u);
}

TEST_F(Profile, file_that_cannot_be_read_is_refused) {
    expect_refused(read_config(), "cannot read it: No such file or directory");
    mkdir(file().c_str(), 0700);
    expect_refused(read_config(), "cannot read it: Is a directory");
}

TEST_F(Profile, file_of_another_form_is_refused) {
    for (const char *text : {"", "{", "no JSON"}) {
        write(text);
        expect_refused(read_config(), "is not JSON");
    }
    for (const char *text : {"[]", "1", "null", "{}", R"({"schema": 2})", R"({"schema": "1"})"}) {
        write(text);
        expect_refused(read_config(), "is no report of ucx_gaudi verify with schema 1");
    }
}

TEST_F(Profile, report_without_a_part_is_refused) {
    expect_refused(read({{"card", nullptr}}), "card: expected an object");
    expect_refused(read({{"behaviour", nullptr}}), "behaviour: expected an object");
    expect_refused(read({{"card", {{"generation", nullptr}}}}), "card.generation: expected gaudi2 or gaudi3");
    for (const char *key : {"memory_bytes", "memory_base", "page_bytes", "edma_mask"})
        for (const Json &wrong : {Json(), Json("1"), Json(-1), Json(1.5), Json(true)})
            expect_refused(read({{"card", {{key, wrong}}}}), std::string("card.") + key + ": expected a number");
}

TEST_F(Profile, impossible_sizes_are_refused) {
    for (const uint64_t base : {uint64_t{0}, uint64_t{1}, UINT64_MAX - 4095})
        expect_refused(read({{"card", {{"memory_base", base}}}}),
                       "card.memory_base: expected the address of a page with all of the card's range behind it");
    expect_refused(read({{"card", {{"edma_mask", 256}}}}), "card.edma_mask: expected 8 bits at most");
    expect_refused(read({{"card", {{"page_bytes", 0}}}}), "page_bytes: 0 is no page of 102273908736 bytes of memory");
    expect_refused(read({{"card", {{"memory_bytes", 4096}}}}),
                   "page_bytes: 805306368 is no page of 4096 bytes of memory");
    expect_refused(read({{"card", {{"page_bytes", 4096}}}}),
                   "card.memory_bytes: the model has 4096 pages at most, not 24969216");
    expect_refused(read_fact("memory", "page_bytes", 5000),
                   "page_bytes: 5000 is no page of 102273908736 bytes of memory");
    expect_refused(read_fact("memory", "first_mapping_offset_bytes", uint64_t{1} << 60),
                   "behaviour.memory.first_mapping_offset_bytes: it is outside the card's range");
    for (const Json &wrong : {Json(0), Json(65), Json("2")})
        expect_refused(read_fact("window", "most_in_flight", wrong),
                       "behaviour.window.most_in_flight: expected a number of submissions, 1 to 64");
    expect_refused(read_fact("window", "most_in_flight", 8),
                   "behaviour.window.refusal: expected the name of an errno beside most_in_flight");
}

TEST_F(Profile, unknown_fact_is_refused) {
    expect_refused(read_fact("memory", "pages", 1), "behaviour.memory.pages: the model knows no such fact");
    expect_refused(read_fact("dance", "steps", 1), "behaviour.dance.steps: the model knows no such fact");
    expect_refused(read({{"behaviour", {{"memory", 1}}}}), "behaviour.memory: expected an object");
    for (const char *queue : {"queue_", "queue_x", "queue_261", "queue_260"})
        expect_refused(read_fact("copies", queue, "success"),
                       std::string("behaviour.copies.") + queue + ": the model has no such queue");
}

TEST_F(Profile, wrong_value_is_refused) {
    const auto expect = [this](const char *step, const char *name, const Json &value, const char *expected) {
        expect_refused(read_fact(step, name, value),
                       std::string("behaviour.") + step + "." + name + ": expected " + expected);
    };
    for (const Json &value : {Json("EWRONG"), Json(5), Json(true), Json("wrong bytes")}) {
        expect("open", "second_open", value, "success or the name of an errno");
        expect("host", "odd_start", value, "success or the name of an errno");
        expect("copies", "submission", value, "success or the name of an errno");
        expect("memory", "hint", value, "honoured, ignored, or the name of an errno");
        expect("memory", "taken_hint", value, "elsewhere, or the name of an errno");
        expect("nic", "stale_with_flush", value == 5 ? Json(-5) : value, "a number");
        expect("nic", "stale_without_flush", value == 5 ? Json(-5) : value, "a number");
        expect("export", "longest_bytes", value == 5 ? Json(-5) : value, "a number of bytes");
        expect("soak", "flag_order_held", value == true ? Json("true") : value, "true or false");
    }
    expect("copies", "queue_0", "EWRONG", "success, wrong bytes, or the name of an errno");
}

TEST_F(Profile, errno_without_a_name_is_read) {
    EXPECT_EQ(read_fact("export", "whole", "errno 524")->behaviour.export_any, 524);
    EXPECT_EQ(read_fact("export", "whole", "ENOTSUPP")->behaviour.export_any, 524);
}

TEST_F(Profile, other_variables_win_or_combine) {
    const Json change = {
        {"behaviour", {{"export", {{"longest_bytes", soft::kPage}}}, {"soak", {{"flag_order_held", false}}}}}};
    soft::set("SOFTGAUDI_BAR", "256");
    soft::set("SOFTGAUDI_QUIRKS", "posted");
    soft::set("SOFTGAUDI_MODEL", "gaudi2");
    const auto config = read(change);
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->behaviour.bar_bytes, uint64_t{256} << 20);
    EXPECT_TRUE(config->quirks.posted);
    EXPECT_TRUE(config->quirks.early_flag);
    unsetenv("SOFTGAUDI_BAR");
    EXPECT_EQ(read(change)->behaviour.bar_bytes, soft::kPage);
    soft::set("SOFTGAUDI_MODEL", "gaudi3");
    expect_refused(read(change), "it is not of a gaudi3, as SOFTGAUDI_MODEL is");
}

TEST_F(Profile, each_quirk_has_its_fact) {
    EXPECT_TRUE(read_fact("descriptors", "others_are_named_cards", true)->quirks.fallback);
    EXPECT_TRUE(read_fact("nic", "export_offset_honoured", false)->quirks.mainline);
    EXPECT_TRUE(read_fact("nic", "stale_without_flush", 3)->quirks.posted);
    EXPECT_FALSE(read_fact("nic", "stale_with_flush", 3)->behaviour.flush_works);
}

} // namespace
