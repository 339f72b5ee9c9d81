// SPDX-License-Identifier: BSD-3-Clause
#include "verify.h"

#include "cli/doctor/collect.h"
#include "cli/report_file.h"
#include "gaudi/card/verification_record.h"
#include "interrupt.h"
#include "os/format.h"
#include "steps.h"
#include "summary.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace gaudi::cli {
namespace {

using namespace verify;

constexpr int kFailed = 1;

int refuse(const std::string &sentence) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return kFailed;
}

/// The card that the user names, else that of HLS_MODULE_ID, else the first that nothing uses. None is opened for that.
OrSentence<const Card *> choose_card(const Cards &cards, const std::string &name) {
    if (cards.empty())
        return Sentence(cards.why_empty());
    const char *module = std::getenv("HLS_MODULE_ID");
    const std::string wanted = !name.empty() ? name : module && *module ? os::format("module:{}", module) : "";
    if (!wanted.empty()) {
        const auto card = cards.named(wanted);
        if (!card)
            return Sentence(card.error().text);
        return *card;
    }
    if (const auto all = doctor::list_cards())
        for (const doctor::CardFacts &card : *all)
            if (!card.in_use)
                return cards.by_bus_id(card.bus_id);
    return cards.all().front().get();
}

/// " by pid 7 (python3)"; empty where this user may not see them.
std::string describe_holders(const Card &card) {
    if (const auto all = doctor::list_cards())
        for (const doctor::CardFacts &listed : *all)
            if (listed.bus_id == card.bus_id() && !listed.holders.empty())
                return os::format(" by {}", doctor::describe_holders(listed));
    return {};
}

/// The steps on a card that this program has opened itself.
OrSentence<std::optional<SoakResult>> check_own_card(Findings &findings, const Cards &cards, const Card &card,
                                                     const VerifyOptions &options) {
    const auto opened = thunk::DeviceFd::open(card.library(), card.bus_id());
    if (!opened && opened.error().code == EBUSY)
        return Sentence(os::format("card module:{} ({}) is in use{}; end that program, or choose another card with "
                                   "--card; a card that SynapseAI is to open takes --with-synapse",
                                   card.module_id(), card.bus_id(), describe_holders(card)));
    if (!opened)
        return Sentence(opened.error().text);
    const thunk::Device &device = opened->get();
    std::optional<SoakResult> soak;
    const auto go_on = [] { return !is_interrupted() && !is_abandoned(); };
    if (go_on())
        check_open(findings, card, device);
    if (go_on())
        check_descriptors(findings, card, device);
    if (go_on())
        check_memory(findings, card, device);
    if (go_on())
        check_export(findings, card, device);
    const auto block = DeviceBlock::make(device, Target::kMemoryBytes);
    if (!block)
        return Sentence(block.error().text);
    Target target{card, device, block->address()};
    if (go_on())
        check_copies(findings, target);
    if (go_on())
        check_host(findings, target);
    if (go_on())
        check_window(findings, target);
    if (go_on())
        check_nic(findings, target, options.nic);
    if (go_on())
        check_import(findings, cards, target);
    if (go_on())
        soak = check_soak(findings, target, options.soak_seconds);
    return soak;
}

} // namespace

int run_verify(const VerifyOptions &options) {
    std::optional<ReportFile> report;
    if (!options.json.empty()) { // before minutes of work
        auto opened = ReportFile::open(options.json);
        if (!opened)
            return refuse(opened.error());
        report = std::move(*opened);
    }
    const std::vector<doctor::UcxFacts> ucx =
        doctor::list_ucx(); // first, because it forks: no library of the vendor is loaded yet
    const auto cards = Cards::get();
    if (!cards)
        return refuse(cards.error().text);
    const auto card = choose_card(**cards, options.card);
    if (!card)
        return refuse(card.error());
    note_interrupts();

    Findings findings;
    Summary summary{options, **card, findings};
    const std::string version = (*card)->library().version().value_or("unknown");
    summary.software = version.find("softgaudi") != std::string::npos;
    if (summary.software)
        os::print(stdout, "SOFTWARE: this card is one of softgaudi, not hardware\n");
    findings.note("card", os::format("module:{} ({})", (*card)->module_id(), (*card)->bus_id()));
    findings.note("libhl-thunk", os::format("{}, version {}", (*card)->library().path(), version));
    check_machine(findings, **card, ucx.empty() ? "" : ucx.front().version);

    const auto soak = check_own_card(findings, **cards, **card, options);
    if (!soak && !options.with_synapse)
        return refuse(soak.error());
    if (options.with_synapse && !is_interrupted() && !is_abandoned())
        check_synapse(findings, **card, options.soak_seconds);
    else if (!options.with_synapse && !is_interrupted())
        skip_synapse(findings);

    summary.interrupted = is_interrupted();
    std::string refused_record;
    // A soak that was too short to rely on does not take the place of a longer one.
    if (soak && *soak && (!(*soak)->order_held || (*soak)->seconds >= VerificationRecord::kLeastSoakSeconds)) {
        const auto written = write_record({(*card)->versions(), (*soak)->order_held, (*soak)->seconds, {}});
        if (written) {
            summary.record = written->string();
            summary.record_order_held = (*soak)->order_held;
            summary.record_seconds = (*soak)->seconds;
        } else { // the report is worth more than the record
            refused_record = written.error().text;
        }
    }
    os::print(stdout, "{}", format_table(summary));
    if (!summary.record.empty()) {
        const CompletionDefault completion =
            choose_completion(find_records((*card)->library(), (*card)->versions()), (*card)->versions());
        os::print(stdout, "\nrecord: {}\ncompletion by {} from now on: {}\n", summary.record,
                  completion.by_flag ? "flag" : "driver", completion.reason);
    }
    if (!refused_record.empty())
        (void)refuse(refused_record);
    else if (soak && *soak && summary.record.empty())
        os::print(stdout, "\nno record is written: the soak took {} s, and {} s are needed\n", (*soak)->seconds,
                  VerificationRecord::kLeastSoakSeconds);
    if (report) {
        std::fflush(stdout); // the report may go to the same place
        if (const auto written = report->write(format_report(summary)); !written)
            return refuse(written.error());
        os::print(stdout, "report: {}\n", options.json);
    }
    if (summary.software)
        os::print(stdout, "SOFTWARE: all of this was seen on softgaudi, not on a card\n");
    std::fflush(stdout);
    if (summary.interrupted) {
        os::print(stderr, "ucx_gaudi: interrupted: the memory is freed and the card closed\n");
        return 128 + interrupting_signal();
    }
    return findings.any_failed() || !refused_record.empty() ? kFailed : 0;
}

} // namespace gaudi::cli
