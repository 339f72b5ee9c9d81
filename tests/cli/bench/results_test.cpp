// SPDX-License-Identifier: BSD-3-Clause
// Results of ucx_gaudi bench as JSON, text and picture.
#include "cli/bench/plot.h"
#include "cli/bench/results_json.h"
#include "cli/bench/table.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace gaudi::cli::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Results sample() {
    Results results;
    results.version = "1.2.3";
    results.time = "2026-01-01T00:00:00Z";
    results.software = true;
    results.host = "alpha <&>";
    results.library_version = "9-softgaudi";
    results.samples = 10;
    results.sizes = {8, 4096};
    for (const std::uint64_t size : results.sizes) {
        Row row;
        row.test = "host_to_device_memcpy";
        row.route = "host to card 0";
        row.cards = {0};
        row.size = size;
        row.window = 64;
        row.burst_bytes = 64 * size;
        row.data_correct = true;
        row.latency_us = Statistics{10, 1, 2, 3, 4, 5};
        row.burst_us = Statistics{10, 10, 20, 32, 40, 50};
        results.rows.push_back(row);
    }
    results.skipped = {{"rdma_read_device", "there is no RDMA device"}};
    return results;
}

TEST(ResultsJson, file_gives_back_what_was_written) {
    const auto read = parse_results(format_json(sample(), nullptr), "old.json");
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->host, "alpha <&>");
    EXPECT_EQ(read->time, "2026-01-01T00:00:00Z");
    EXPECT_TRUE(read->software);
    ASSERT_EQ(read->rows.size(), 2u);
    EXPECT_EQ(read->rows[1].size, 4096u);
    EXPECT_EQ(read->rows[1].burst_bytes, 64u * 4096);
    EXPECT_EQ(read->rows[1].latency_us->samples, 10u);
    EXPECT_EQ(read->rows[1].latency_us->p99, 5);
    EXPECT_EQ(read->rows[1].burst_us->p0, 10);
    EXPECT_DOUBLE_EQ(read->rows[1].bandwidth_gb_per_s(), 8.192);
}

TEST(ResultsJson, fifo_is_read_when_its_writer_comes) {
    const std::string path = "/dev/shm/cli-bench-results-test-" + std::to_string(::getpid());
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::thread writer([&] { std::ofstream(path) << format_json(sample(), nullptr); });
    const auto read = read_results(path);
    writer.join();
    ::unlink(path.c_str());
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->rows.size(), 2u);
}

TEST(ResultsJson, truncated_file_is_refused_in_a_sentence) {
    const std::string text = format_json(sample(), nullptr);
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 3})
        EXPECT_EQ(parse_results(text.substr(0, length), "old.json").error(),
                  "old.json is no report of ucx_gaudi bench --json: it is not JSON, or cut off");
}

TEST(ResultsJson, foreign_file_is_refused_in_a_sentence) {
    for (const char *text : {"[]", "3", "\"x\"", "{}", R"({"schema": 1, "tool": "ucx_gaudi verify"})"})
        EXPECT_EQ(parse_results(text, "old.json").error(),
                  "old.json is no report of ucx_gaudi bench --json: it does not name ucx_gaudi bench as its tool")
            << text;
}

TEST(ResultsJson, file_with_a_wrong_field_is_refused) {
    const Json good = Json::parse(format_json(sample(), nullptr));
    const auto refused = [&](const char *pointer, const Json &value) {
        Json bad = good;
        bad[Json::json_pointer(pointer)] = value;
        return !parse_results(bad.dump(), "old.json");
    };
    EXPECT_TRUE(refused("/schema", 2));
    EXPECT_TRUE(refused("/software", "yes"));
    EXPECT_TRUE(refused("/host", 3));
    EXPECT_TRUE(refused("/results", 3));
    EXPECT_TRUE(refused("/results/0/size_bytes", "8"));
    EXPECT_TRUE(refused("/results/0/latency_us/p50", -1));
    EXPECT_TRUE(refused("/results/0/latency_us/p0", 2.5));
    EXPECT_TRUE(refused("/clock", 3));
    EXPECT_TRUE(refused("/results/0/burst_us/p75", 1));
    EXPECT_TRUE(refused("/results/0/burst_us", Json::object()));
    EXPECT_FALSE(refused("/results/0/latency_us", nullptr));
}

TEST(Table, rows_have_figures_with_units) {
    const std::string text = format_rows(sample());
    EXPECT_THAT(text, HasSubstr("\nhost_to_device_memcpy: host to card 0 (SOFTWARE)\n"));
    EXPECT_THAT(text, HasSubstr("     4 KiB       8.19 GB/s    38 %       1.00      3.00      5.00 us    33 %\n"));
    EXPECT_THAT(format_skipped(sample()), HasSubstr("skipped: rdma_read_device: there is no RDMA device\n"));
    EXPECT_THAT(format_heading(sample()), HasSubstr("SOFTWARE: "));
}

TEST(Table, hardware_is_not_called_software) {
    Results results = sample();
    results.software = false;
    EXPECT_THAT(format_heading(results) + format_rows(results), Not(HasSubstr("SOFTWARE")));
    EXPECT_THAT(draw(results), Not(HasSubstr("SOFTWARE")));
}

TEST(Table, wrong_data_take_the_place_of_figures) {
    Results results = sample();
    results.rows[0].data_correct = false;
    results.rows[0].latency_us.reset();
    results.rows[0].burst_us.reset();
    EXPECT_THAT(format_rows(results), HasSubstr("       8 B  WRONG DATA: other bytes arrived than were sent\n"));
    EXPECT_TRUE(Json::parse(format_json(results, nullptr)).at("results")[0].at("bandwidth_gb_per_s_median").is_null());
}

TEST(Plot, shows_both_figures_over_the_size) {
    const std::string picture = draw(sample());
    EXPECT_THAT(picture, HasSubstr(">SOFTWARE: measured on softgaudi"));
    EXPECT_THAT(picture, HasSubstr(">bandwidth, GB/s"));
    EXPECT_THAT(picture, HasSubstr(">latency, "));
    EXPECT_THAT(picture, HasSubstr(">4 KiB</text>"));
    EXPECT_THAT(picture, HasSubstr("alpha &lt;&amp;&gt;"));
}

TEST(Plot, run_without_figures_has_no_diagram) {
    Results results = sample();
    results.rows.clear();
    EXPECT_THAT(draw(results), Not(HasSubstr("nan")));
    EXPECT_THAT(draw(results), HasSubstr("</svg>"));
}

} // namespace
} // namespace gaudi::cli::bench
