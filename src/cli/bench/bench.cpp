// SPDX-License-Identifier: BSD-3-Clause
#include "bench.h"

#include "cli/doctor/collect.h"
#include "cli/report_file.h"
#include "cli/utc_time.h"
#include "cli/verify/interrupt.h"
#include "cli/write_stdout.h"
#include "compare.h"
#include "free_cards.h"
#include "gaudi/copy/engine_slot.h"
#include "measure.h"
#include "nearest_nic.h"
#include "os/format.h"
#include "plot.h"
#include "progress_bar.h"
#include "results_json.h"
#include "sizes.h"
#include "table.h"
#include "tests.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace gaudi::cli {
namespace {

using namespace bench;

constexpr int kFailed = 1, kUsage = 2;
// The tests take turns, so that the samples of each row come from all of the run: what disturbs the machine for a while
// shows as noise.
constexpr unsigned kRounds = 5;
constexpr unsigned kSamples = 100, kQuickSamples = 10;
constexpr const char *kSizes = "8,64,512,4K,64K,1M,16M,64M", *kQuickSizes = "8,4K,1M";

int refuse(const std::string &sentence, int code = kFailed) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return code;
}

/// What a run is about to do.
struct Plan {
    std::vector<PlannedTest> tests;
    std::vector<Results::Skipped> skipped;

    /// The cards that will be opened.
    std::vector<Card *> cards() const {
        std::vector<Card *> all;
        for (const PlannedTest &planned : tests)
            for (Card *card : planned.cards)
                if (std::ranges::find(all, card) == all.end())
                    all.push_back(card);
        std::ranges::sort(all, {}, &Card::module_id);
        return all;
    }
};

/// NICs, cards and their places.
doctor::Facts collect_places() {
    const doctor::Machine machine;
    doctor::Facts facts;
    doctor::collect_nics(facts);
    doctor::collect_nic_places(machine, facts.nics);
    facts.pci_cards = doctor::collect_pci_cards(machine);
    facts.topology.numa_nodes = doctor::collect_numa_nodes(machine);
    return facts;
}

Plan make_plan(const std::vector<const Test *> &tests, const std::vector<Card *> &cards, bool once) {
    Plan plan;
    std::optional<doctor::Facts> places;
    for (const Test *test : tests) {
        const auto skip = [&](const std::string &reason) { plan.skipped.push_back({test->name, reason}); };
        if (test->by_nic && !places)
            places = collect_places();
        const auto chosen = choose_cards(*test, cards, once);
        if (chosen.empty())
            skip("it takes two cards that are free");
        for (const std::vector<Card *> &group : chosen) {
            if (test->by_nic) {
                const auto nic = find_nearest_nic(*places, group.back()->bus_id()); // of two cards that it writes to
                if (!nic) {
                    skip(nic.error());
                    break;
                }
                plan.tests.push_back({test, group, *nic});
                continue;
            }
            const auto bare = std::ranges::find_if(group, [](Card *card) { return !has_copy_path(*card); });
            if (bare != group.end())
                skip(
                    os::format("card {} takes no copies from users: this generation has no command submission for them",
                               (*bare)->module_id()));
            else
                plan.tests.push_back({test, group, {}});
        }
    }
    return plan;
}

/// Says what will be done to cards before it is done.
void announce(const Plan &plan, const std::vector<std::string> &left_alone) {
    std::vector<std::uint32_t> numbers;
    for (const Card *card : plan.cards())
        numbers.push_back(card->module_id());
    os::print(stderr, "ucx_gaudi: bench opens card {} and copies memory of its own; closing a card resets it\n",
              os::join(numbers, ", "));
    for (const std::string &use : left_alone)
        os::print(stderr, "ucx_gaudi: {}: bench leaves it alone\n", use);
}

std::string find_processor() {
    const auto text = doctor::Machine().read("/proc/cpuinfo");
    const std::size_t at = text ? text->find("model name") : std::string::npos;
    if (at == std::string::npos)
        return "unknown";
    const std::size_t begin = text->find(": ", at), end = text->find('\n', at);
    return begin < end ? text->substr(begin + 2, end - begin - 2) : "unknown";
}

/// All but the rows.
Results begin_results(const Cards &cards, const Plan &plan) {
    Results results;
    results.version = UCX_GAUDI_VERSION;
    results.time = format_utc_time();
    results.library = cards.library().path();
    results.library_version = cards.library().version().value_or("unknown");
    results.software = results.library_version.find("softgaudi") != std::string::npos;
    results.virtual_clock = results.software && Clock::is_virtual_named();
    utsname names{};
    ::uname(&names);
    results.host = names.nodename;
    results.kernel = names.release;
    results.processor = find_processor();
    for (const Card *card : plan.cards())
        results.cards.push_back({card->module_id(), card->bus_id(), card->versions().model, card->versions().driver,
                                 card->versions().firmware});
    results.skipped = plan.skipped;
    return results;
}

Row begin_row(const PlannedTest &planned, std::uint64_t size) {
    Row row;
    row.test = planned.test->name;
    row.route = describe_route(planned);
    for (const Card *card : planned.cards)
        row.cards.push_back(card->module_id());
    row.nic = planned.nic;
    row.size = size;
    return row;
}

/// A test and the samples of its rows.
struct TestRun {
    const PlannedTest &planned;
    std::string name; // for messages
    std::vector<Sampler> samplers;
};

/// Takes a part of the samples of each row of a test. Ends early when the user interrupts.
OrSentence<void> measure_round(Cards &cards, TestRun &run, std::uint64_t length, std::uint64_t samples, bool checked,
                               ProgressBar &progress) {
    progress.show(run.name);
    const auto route = make_route(cards, run.planned, length);
    if (!route)
        return Sentence(os::format("{} cannot be run: {}", run.name, route.error()));
    for (Sampler &sampler : run.samplers) {
        const std::string what = os::format("{}, {}", run.name, format_size(sampler.row().size));
        progress.show(what);
        if (auto taken = sampler.take(**route, samples, checked); !taken) {
            for (Card *card : run.planned.cards) // a card in reset takes its mappings with it
                card->close_if_lost();
            return Sentence(os::format("{} failed: {}", what, taken.error()));
        }
        if (verify::is_interrupted())
            break;
        progress.count_step();
    }
    return {};
}

/// Measures all rows of all tests. A run that is interrupted, or fails, has those rows that were measured at least once.
OrSentence<void> measure_all(Cards &cards, const Plan &plan, Results &results) {
    std::uint64_t length = 0;
    for (const std::uint64_t size : results.sizes)
        length = std::max(length, size * choose_window(size));
    Clock clock;
    if (results.virtual_clock) {
        auto opened = Clock::open_virtual(*plan.tests.front().cards.front());
        if (!opened)
            return Sentence(opened.error());
        clock = *opened;
    }
    std::vector<TestRun> runs;
    for (const PlannedTest &planned : plan.tests) {
        runs.push_back({planned, os::format("{} ({})", planned.test->name, describe_route(planned)), {}});
        for (const std::uint64_t size : results.sizes)
            runs.back().samplers.emplace_back(begin_row(planned, size), planned.test->has_latency(), clock);
    }
    OrSentence<void> failed_or_done;
    ProgressBar progress(plan.tests.size() * results.sizes.size() * kRounds);
    for (std::uint64_t round = 0; round < kRounds; ++round)
        for (TestRun &run : runs) {
            if (verify::is_interrupted() || !failed_or_done)
                break;
            const std::uint64_t samples = results.samples * (round + 1) / kRounds - results.samples * round / kRounds;
            const bool checked = round == 0 || round == kRounds - 1;
            failed_or_done = measure_round(cards, run, length, samples, checked, progress);
        }
    for (TestRun &run : runs)
        for (Sampler &sampler : run.samplers)
            if (Row row = sampler.finish(); row.burst_us || !row.data_correct)
                results.rows.push_back(std::move(row));
    return failed_or_done;
}

/// The files that a run writes at its end; that they can be written is known before.
struct Outputs {
    std::optional<ReportFile> json, plot;
};

OrSentence<Outputs> open_outputs(const BenchOptions &options) {
    Outputs outputs;
    const auto open = [](const std::string &path, std::optional<ReportFile> &into) {
        if (path.empty())
            return OrSentence<void>();
        auto opened = ReportFile::open(path);
        if (!opened)
            return OrSentence<void>(Sentence(opened.error()));
        into = std::move(*opened);
        return OrSentence<void>();
    };
    auto opened = open(options.json, outputs.json);
    if (opened)
        opened = open(options.plot, outputs.plot);
    if (!opened)
        return Sentence(opened.error());
    return outputs;
}

/// Writes what follows the rows; false where that fails.
bool write_results(const BenchOptions &options, const Outputs &outputs, const Results &results,
                   const Comparison *comparison) {
    if (options.with_json && options.json.empty()) {
        if (!write_stdout(format_json(results, comparison)))
            return false;
    } else if (std::string text =
                   format_skipped(results) + (comparison ? format_comparison(*comparison, results.software) : "");
               !write_stdout(text)) {
        return false;
    }
    if (outputs.json)
        if (const auto written = outputs.json->write(format_json(results, comparison)); !written)
            return refuse(written.error()) == 0;
    if (outputs.plot)
        if (const auto written = outputs.plot->write(draw(results)); !written)
            return refuse(written.error()) == 0;
    return true;
}

} // namespace

int run_bench(const BenchOptions &options) {
    if (options.list)
        return write_stdout(format_test_list()) ? 0 : kFailed;
    const auto tests = choose_tests(options.tests);
    if (!tests)
        return refuse(tests.error(), kUsage);
    const auto sizes = parse_sizes(!options.sizes.empty() ? options.sizes : options.quick ? kQuickSizes : kSizes);
    if (!sizes)
        return refuse(sizes.error(), kUsage);
    const auto before = options.compare.empty() ? OrSentence<Results>() : read_results(options.compare);
    if (!before)
        return refuse(before.error());
    const auto outputs = open_outputs(options);
    if (!outputs)
        return refuse(outputs.error());
    const auto cards = Cards::get();
    if (!cards)
        return refuse(cards.error().text);
    std::vector<std::string> left_alone;
    const auto free = find_free_cards(**cards, options.cards, left_alone);
    if (!free)
        return refuse(free.error());
    const Plan plan = make_plan(*tests, *free, options.cards.empty());
    if (plan.tests.empty())
        return refuse(os::format("{} cannot be run: {}", plan.skipped.front().test, plan.skipped.front().reason));

    Results results = begin_results(**cards, plan);
    results.sizes = *sizes;
    results.quick = options.quick;
    results.samples = options.samples.value_or(options.quick ? kQuickSamples : kSamples);
    if (!options.compare.empty()) // before minutes of work
        if (const auto comparable = compare(*before, results, options.compare); !comparable)
            return refuse(comparable.error());
    announce(plan, left_alone);
    verify::note_interrupts();
    const bool with_text = !options.with_json || !options.json.empty();
    if (with_text && !write_stdout(format_heading(results)))
        return kFailed;
    const auto measured = measure_all(**cards, plan, results);
    if (with_text && !write_stdout(format_rows(results)))
        return kFailed;
    results.interrupted = verify::is_interrupted() || !measured;
    const auto comparison =
        options.compare.empty() ? OrSentence<Comparison>() : compare(*before, results, options.compare);
    if (!write_results(options, *outputs, results, options.compare.empty() ? nullptr : &*comparison))
        return kFailed;
    if (!measured)
        return refuse(os::format("{}; the results are those up to then", measured.error()));
    if (results.interrupted)
        return refuse("interrupted: the results are those up to then", 128 + verify::interrupting_signal());
    int code = 0;
    for (const Row &row : results.rows)
        if (!row.data_correct)
            code = refuse(os::format("{} ({}, {}): other bytes arrived than were sent", row.test, row.route,
                                     format_size(row.size)));
    const bool slower =
        std::ranges::any_of(comparison->rows, [](const ComparedRow &row) { return row.change == Change::slower; });
    return slower ? kFailed : code;
}

} // namespace gaudi::cli
