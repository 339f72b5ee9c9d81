// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi bench as users run it, on softgaudi.
#include "../command.h"

#include "thunk/owners.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

namespace cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kOpens = "ucx_gaudi: bench opens card 0 and copies memory of its own; closing a card resets it\n";

/// A test with two software cards of its own.
class Bench : public ::testing::Test {
protected:
    Bench() {
        char name[] = "/dev/shm/cli-bench-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        ::setenv("SOFTGAUDI_DIR", m_dir.c_str(), 1);
        ::setenv("SOFTGAUDI_CARDS", "2", 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        for (const char *variable :
             {"HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "GAUDI_MAPPING_TABLE", "SOFTGAUDI_PACE"})
            ::unsetenv(variable);
    }
    ~Bench() override { fs::remove_all(m_dir); }

    std::string file(const std::string &name = "report.json") const { return m_dir + "/" + name; }
    /// One small row, unless the options say more.
    static Result bench(Words options, const std::string &test = "host_to_device_memcpy") {
        Words words = {"bench", "-t", test, "--sizes", "4K", "--samples", "5"};
        words.insert(words.end(), options.begin(), options.end());
        return result(words);
    }
    static Json card(std::size_t index = 0) {
        return Json::parse(result({"info", "--json"}).out).at("cards").at(index);
    }
    Json report() const { return Json::parse(std::ifstream(file())); }
    void write(const std::string &text) const { std::ofstream(file()) << text; }

private:
    std::string m_dir;
};

TEST_F(Bench, list_names_tests_and_opens_nothing) {
    const Result got = result({"bench", "--list"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, "");
    EXPECT_THAT(got.out, StartsWith("host_to_device_memcpy                  host memory to a card\n"));
    EXPECT_THAT(got.out, HasSubstr("\nrdma_write_device_to_device "));
    EXPECT_FALSE(fs::exists(file("cards"))); // no server was made
}

TEST_F(Bench, says_first_what_it_does_and_that_it_is_software) {
    const Result got = bench({});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.err, kOpens); // and no progress bar, which is for terminals
    EXPECT_THAT(got.out, StartsWith("SOFTWARE: the cards are those of softgaudi"));
    EXPECT_THAT(got.out, HasSubstr("\nhost_to_device_memcpy: host to card 0 (SOFTWARE)\n"));
    EXPECT_THAT(got.out, HasSubstr("\n     4 KiB "));
    EXPECT_EQ(card().at("in_use"), false);
}

TEST_F(Bench, json_takes_the_place_of_the_text) {
    const Result got = bench({"--json"});
    EXPECT_EQ(got.code, 0) << got.err;
    const Json all = Json::parse(got.out);
    EXPECT_EQ(all.at("software"), true);
    EXPECT_EQ(all.at("clock"), "host");
    EXPECT_EQ(all.at("settings").at("samples"), 5);
    EXPECT_EQ(all.at("results")[0].at("size_bytes"), 4096);
    EXPECT_GE(all.at("results")[0].at("latency_us").at("samples"), 5);
    EXPECT_GT(all.at("results")[0].at("bandwidth_gb_per_s_median"), 0.0);
    EXPECT_TRUE(all.at("comparison").is_null());
}

TEST_F(Bench, virtual_clock_gives_the_same_latency_again) {
    ::setenv("SOFTGAUDI_PACE", "virtual:down:25,up:25,card:1000,submit:5,map:20", 1);
    double median[2] = {};
    for (double &one : median) {
        const Result got = bench({"--json"});
        ASSERT_EQ(got.code, 0) << got.err;
        const Json all = Json::parse(got.out);
        EXPECT_EQ(all.at("clock"), "virtual");
        one = all.at("results")[0].at("latency_us").at("p50");
    }
    EXPECT_NEAR(median[0], 5 + 4096 / 25e3, 0.1); // microseconds of the pace
    EXPECT_NEAR(median[1] / median[0], 1, 0.02);
}

TEST_F(Bench, cards_that_are_named_are_all_measured) {
    const Result got = bench({"--card", "1,module:0", "--json", file()}, "device_to_device_memcpy");
    EXPECT_EQ(got.code, 0) << got.err;
    std::set<std::string> routes;
    const Json all = report();
    for (const Json &row : all.at("results"))
        routes.insert(row.at("route"));
    EXPECT_EQ(routes, (std::set<std::string>{"card 0 to card 1", "card 1 to card 0"}));
    EXPECT_THAT(got.err, StartsWith("ucx_gaudi: bench opens card 0, 1 and "));
}

TEST_F(Bench, wrong_data_are_found) {
    ::setenv("SOFTGAUDI_FAULTS", "command_submission#60+=skip", 1); // behind the self-test of the engine
    const Result got = bench({"--json", file()});
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, kOpens + "ucx_gaudi: host_to_device_memcpy (host to card 0, 4 KiB): other bytes arrived than "
                                "were sent\n");
    EXPECT_THAT(got.out, HasSubstr("     4 KiB  WRONG DATA: other bytes arrived than were sent\n"));
    EXPECT_EQ(report().at("results")[0].at("data_correct"), false);
    EXPECT_TRUE(report().at("results")[0].at("burst_us").is_null());
}

TEST_F(Bench, card_that_is_reset_ends_the_run_with_the_reason) {
    ::setenv("SOFTGAUDI_FAULTS", "command_submission#60=reset", 1);
    const Result got = bench({"--json", file()});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.err, StartsWith(kOpens + "ucx_gaudi: host_to_device_memcpy (host to card 0), 4 KiB failed: "));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 2) << got.err;
    EXPECT_THAT(got.err, EndsWith("; the results are those up to then\n"));
    EXPECT_EQ(report().at("interrupted"), true) << "the results so far are written";
}

TEST_F(Bench, card_in_use_is_refused_with_its_holder) {
    const auto library = gaudi::thunk::Library::load(SOFTGAUDI_LIBRARY);
    ASSERT_TRUE(library) << library.error().text;
    const std::string first = card().at("bus_id"), second = card(1).at("bus_id");
    const auto held = gaudi::thunk::DeviceFd::open(**library, first);
    ASSERT_TRUE(held) << held.error().text;
    const std::string use =
        "card 0 (" + first + ") is in use by pid " + std::to_string(::getpid()) + " (cli_bench_test)";
    const Result named = bench({"--card", "0"});
    EXPECT_EQ(named.code, 1);
    EXPECT_EQ(named.err, "ucx_gaudi: " + use + "; end that program, or choose another card with --card\n");
    EXPECT_EQ(named.out, "");

    const Result other = bench({});
    EXPECT_EQ(other.code, 0);
    EXPECT_EQ(other.err, "ucx_gaudi: bench opens card 1 and copies memory of its own; closing a card resets it\n"
                         "ucx_gaudi: " +
                             use + ": bench leaves it alone\n");

    const auto rest = gaudi::thunk::DeviceFd::open(**library, second);
    ASSERT_TRUE(rest) << rest.error().text;
    const Result none = bench({});
    EXPECT_EQ(none.code, 1);
    EXPECT_THAT(none.err, StartsWith("ucx_gaudi: no card is free: " + use + "; card 1 "));
}

TEST_F(Bench, test_without_a_second_card_is_refused_or_skipped) {
    ::setenv("SOFTGAUDI_CARDS", "1", 1);
    const Result alone = bench({}, "host_to_all_memcpy");
    EXPECT_EQ(alone.code, 1);
    EXPECT_EQ(alone.err, "ucx_gaudi: host_to_all_memcpy cannot be run: it takes two cards that are free\n");
    const Result beside = bench({"-t", "device_to_device_memcpy"});
    EXPECT_EQ(beside.code, 0);
    EXPECT_THAT(beside.out, HasSubstr("\nskipped: device_to_device_memcpy: it takes two cards that are free\n"));
}

TEST_F(Bench, gaudi3_without_a_nic_is_refused_with_the_reason) {
    ::setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    const Result got = bench({});
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err,
              "ucx_gaudi: host_to_device_memcpy cannot be run: card 0 takes no copies from users: this generation "
              "has no command submission for them\n");
}

TEST_F(Bench, mistakes_are_refused_in_a_sentence) {
    for (const Words &words :
         {Words{"--samples", "4"}, Words{"--samples", "many"}, Words{"--bogus"}, Words{"surplus"}}) {
        const Result got = bench(words);
        EXPECT_EQ(got.code, 2);
        EXPECT_THAT(got.err, HasSubstr("; see ucx_gaudi bench --help\n"));
    }
    const auto refused = [](const Words &options, int code, const std::string &sentence) {
        Words words = {"bench", "--quick"};
        words.insert(words.end(), options.begin(), options.end());
        const Result got = result(words);
        EXPECT_EQ(got.code, code);
        EXPECT_EQ(got.err, "ucx_gaudi: " + sentence + "\n");
        EXPECT_EQ(got.out, "") << "the run has begun";
    };
    refused({"-t", "memcpy"}, 2, "there is no test 'memcpy'; ucx_gaudi bench --list has their names");
    refused({"--sizes", "8,4X"}, 2, "'4X' is not a size: 1 to 1G bytes, with K, M or G as in 64K");
    refused({"--size", "2G"}, 2, "'2G' is not a size: 1 to 1G bytes, with K, M or G as in 64K");
    refused({"--json", "/nonexistent/a"}, 1, "cannot write /nonexistent/a: No such file or directory");
    refused({"--plot", "/nonexistent/a"}, 1, "cannot write /nonexistent/a: No such file or directory");
    refused({"--compare", "/nonexistent/a"}, 1, "cannot read /nonexistent/a: No such file or directory");
    const Result unknown = bench({"--card", "9"});
    EXPECT_EQ(unknown.code, 1);
    EXPECT_THAT(unknown.err, StartsWith("ucx_gaudi: "));
    EXPECT_THAT(unknown.err, HasSubstr("9"));
}

TEST_F(Bench, stdout_that_takes_nothing_is_reported) {
    const Result got = result({"-c", UCX_GAUDI_COMMAND " bench --list >/dev/full"}, "/bin/sh");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "ucx_gaudi: cannot write to stdout: No space left on device\n");
}

TEST_F(Bench, earlier_run_is_compared_row_by_row) {
    ASSERT_EQ(bench({"--json", file()}).code, 0);
    Json old = report();
    for (auto &[name, figure] : old.at("results")[0].at("latency_us").items()) // far beyond what noise does here
        if (name != "samples")
            figure = figure.get<double>() * 1e6;
    write(old.dump());
    const Result got = bench({"--compare", file(), "--json", file("new.json")});
    EXPECT_THAT(got.out, HasSubstr("\nCompared with " + file() + " ("));
    const Json rows = Json::parse(std::ifstream(file("new.json"))).at("comparison").at("rows");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].at("figure"), "latency");
    EXPECT_EQ(rows[1].at("verdict"), "faster");
}

TEST_F(Bench, much_slower_row_fails_the_run) {
    ASSERT_EQ(bench({"--json", file()}).code, 0);
    Json old = report();
    for (auto &[name, figure] : old.at("results")[0].at("latency_us").items())
        if (name != "samples")
            figure = figure.get<double>() / 1e6;
    write(old.dump());
    const Result got = bench({"--compare", file()});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("  slower\n"));
}

TEST_F(Bench, foreign_and_truncated_files_are_refused_before_the_run) {
    ASSERT_EQ(bench({"--json", file()}).code, 0);
    std::string text = report().dump();
    write(text.substr(0, text.size() / 2));
    const Result truncated = bench({"--compare", file()});
    EXPECT_EQ(truncated.code, 1);
    EXPECT_EQ(truncated.err,
              "ucx_gaudi: " + file() + " is no report of ucx_gaudi bench --json: it is not JSON, or cut off\n");
    EXPECT_EQ(truncated.out, "");
    write(result({"info", "--json"}).out);
    EXPECT_EQ(bench({"--compare", file()}).err, "ucx_gaudi: " + file() +
                                                    " is no report of ucx_gaudi bench --json: it does not name "
                                                    "ucx_gaudi bench as its tool\n");
    EXPECT_EQ(bench({"--compare", "/dev/shm"}).code, 1);
    Json hardware = Json::parse(text);
    hardware["software"] = false;
    write(hardware.dump());
    const Result other = bench({"--compare", file()});
    EXPECT_EQ(other.code, 1);
    EXPECT_EQ(other.err, "ucx_gaudi: " + file() +
                             " was measured on hardware and this run on softgaudi: they cannot be compared\n");
}

class Ended : public Bench {
protected:
    /// Until m_long, which would last for minutes, has its card open.
    static void wait_until_open() {
        const auto limit = std::chrono::steady_clock::now() + kPatience;
        while (card().at("in_use") == false)
            ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
    const Words m_long = {"bench",  "-t",  "host_to_device_memcpy", "--sizes", "64K", "--samples", "100000",
                          "--json", file()};
};

TEST_F(Ended, interrupt_writes_results_and_closes_the_card) {
    for (const int signal : {SIGINT, SIGTERM}) {
        Command command(m_long);
        wait_until_open();
        command.kill(signal);
        const std::string out = command.out().rest(), err = command.err().rest();
        EXPECT_EQ(command.wait(), 128 + signal);
        EXPECT_EQ(err, kOpens + "ucx_gaudi: interrupted: the results are those up to then\n");
        EXPECT_EQ(report().at("interrupted"), true);
        EXPECT_EQ(card().at("in_use"), false);
        EXPECT_EQ(card().at("memory_free_bytes"), card().at("memory_total_bytes"));
        fs::remove(file());
    }
}

TEST_F(Ended, kill_leaves_no_open_card_and_no_file) {
    Command command(m_long);
    wait_until_open();
    command.kill(SIGKILL);
    EXPECT_EQ(command.wait(), -SIGKILL);
    EXPECT_EQ(card().at("in_use"), false);
    EXPECT_EQ(card().at("memory_free_bytes"), card().at("memory_total_bytes"));
    EXPECT_FALSE(fs::exists(file()));
}

} // namespace
} // namespace cli
