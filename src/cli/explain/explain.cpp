// SPDX-License-Identifier: BSD-3-Clause
#include "explain.h"

#include "chosen_ucx.h"
#include "cli/private_directory.h"
#include "cli/uses_colour.h"
#include "cli/write_stdout.h"
#include "explanation.h"
#include "os/format.h"
#include "tls_setting.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace gaudi::cli {
namespace {

using namespace explain;

constexpr int kUsage = 2;

int refuse(const std::string &sentence, int code = 1) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return code;
}

/// As UCX reads it.
bool is_no(std::string value) {
    std::ranges::transform(value, value.begin(), [](unsigned char letter) { return std::tolower(letter); });
    return value == "n" || value == "no" || value == "off" || value == "0";
}

/// The bus id of a card that can be opened; empty for host memory.
OrSentence<std::string> find_card(const End &end, std::uint64_t bytes, const doctor::Facts &facts) {
    if (!end.card)
        return std::string();
    const auto found = std::ranges::find(facts.cards, *end.card, &doctor::CardFacts::module_id);
    if (found == facts.cards.end()) {
        std::vector<std::string> known;
        for (const doctor::CardFacts &card : facts.cards)
            known.push_back(std::to_string(card.module_id));
        std::string why = facts.thunk.why_not.empty() ? facts.why_no_card : facts.thunk.why_not;
        if (facts.thunk.path.empty() && why.empty())
            why = "no libhl-thunk was found";
        return Sentence(os::format("there is no card {}: {}", *end.card,
                                   known.empty() ? why : os::format("the cards are {}", os::join(known, ", "))));
    }
    if (found->in_use)
        return Sentence(os::format("card {} is in use by {}: end it, or name another card", *end.card,
                                   doctor::describe_holders(*found)));
    if (found->state != "operational")
        return Sentence(os::format("card {} is {}: see ucx_gaudi doctor", *end.card, found->state));
    if (bytes > found->memory_bytes)
        return Sentence(
            os::format("card {} has {} bytes of memory, and {} do not fit", *end.card, found->memory_bytes, bytes));
    return found->bus_id;
}

void announce(const Transfer &transfer) {
    std::vector<unsigned> cards;
    for (const End &end : {transfer.from, transfer.to})
        if (end.card && std::ranges::find(cards, *end.card) == cards.end())
            cards.push_back(*end.card);
    os::print(stderr, "ucx_gaudi: explain opens card {} and copies memory of its own; closing a card resets it\n",
              os::join(cards, ", "));
}

/// The environment of the processes of the transfer, which is that of this one.
OrSentence<void> set_environment(const Transfer &transfer, const doctor::Facts &facts,
                                 const PrivateDirectory &directory) {
    const std::filesystem::path counters = directory.path() / "counters";
    std::error_code error;
    std::filesystem::create_directory(counters, error);
    std::filesystem::permissions(counters, std::filesystem::perms::owner_all, error);
    if (error)
        return Sentence(os::format("cannot create {}: {}", counters.string(), error.message()));
    ::setenv("GAUDI_COUNTERS_DIR", counters.c_str(), 1);
    ::setenv("UCX_PROTO_INFO", "y", 1);
    ::setenv("UCX_LOG_LEVEL", "diag", 1);     // shows why memory is staged
    ::setenv("UCX_LOG_FILE", "", 1);          // stdout, whatever a ucx.conf says
    ::setenv("UCX_HANDLE_ERRORS", "none", 1); // a crash ends the process at once
    if (transfer.is_between_processes()) {
        const doctor::SettingFacts *tls = facts.setting("UCX_TLS");
        const std::string without = exclude_local_transports(tls ? tls->value : "");
        if (!reaches_other_machines(without))
            return Sentence(os::format("UCX_TLS={} ({}) has no transport between machines: add rc or tcp", tls->value,
                                       tls->source));
        ::setenv("UCX_TLS", without.c_str(), 1);
    }
    return {};
}

std::vector<SideTask> make_tasks(const Transfer &transfer, const std::string &libucp, const std::string &from_card,
                                 const std::string &to_card) {
    SideTask task{libucp, true, true, from_card, to_card, transfer.bytes, transfer.operation, -1, -1};
    if (!transfer.is_between_processes())
        return {task};
    SideTask from = task, to = task;
    from.has_to = false;
    to.has_from = false;
    return {from, to};
}

int print(const Explanation &explanation, bool json) {
    if (!write_stdout(json ? format_json(explanation, UCX_GAUDI_VERSION) : format_text(explanation, uses_colour())))
        return 1;
    return explanation.way == Way::failed || !explanation.intact.value_or(true) ? 1 : 0;
}

} // namespace

int run_explain(const ExplainOptions &options) {
    const auto transfer = parse_transfer(options.from, options.to, options.bytes, options.operation);
    if (!transfer)
        return refuse(transfer.error(), kUsage);
    const auto chosen = choose_ucx(options.ucx);
    if (!chosen)
        return refuse(chosen.error(), options.ucx.empty() ? 1 : kUsage);
    if (const doctor::SettingFacts *proto = chosen->facts.setting("UCX_PROTO_ENABLE"); proto && is_no(proto->value))
        return refuse(os::format("UCX_PROTO_ENABLE={} ({}): UCX's old protocols do not say what they choose; unset it",
                                 proto->value, proto->source));
    const auto from_card = find_card(transfer->from, transfer->bytes, chosen->facts),
               to_card = find_card(transfer->to, transfer->bytes, chosen->facts);
    if (!from_card || !to_card)
        return refuse(!from_card ? from_card.error() : to_card.error());
    const HeldSignals signals; // from here on there is a directory to remove; a UCX that hangs was to be ended
    const auto directory = PrivateDirectory::make();
    if (!directory)
        return refuse(directory.error());
    if (const auto set = set_environment(*transfer, chosen->facts, *directory); !set)
        return refuse(set.error());
    announce(*transfer);
    const auto result = run_sides(make_tasks(*transfer, chosen->ucx.libucp.string(), *from_card, *to_card), signals,
                                  std::chrono::seconds(options.timeout_seconds));
    if (!result)
        return refuse(result.error());
    if (result->signal)
        return 128 + result->signal;
    if (result->timed_out)
        return refuse(
            os::format("the transfer did not end within {} s, so its processes were ended; --timeout gives it "
                       "more time, ucx_gaudi doctor --active tries the cards",
                       options.timeout_seconds));

    Explanation explanation = explain_result(*transfer, *result);
    explanation.software = chosen->facts.thunk.software;
    explanation.ucx = {chosen->ucx.libraries.string(), chosen->source};
    Evidence evidence = evidence_of(explanation, *result);
    evidence.has_ib_module = chosen->has_ib_module;
    // Without a request there was no choice of UCX's to explain: a card or a process has failed.
    const bool tried = transfer->is_between_processes() && !explanation.request.empty();
    if (explanation.way == Way::staged || (explanation.way == Way::failed && (tried || !evidence.knows_gaudi)))
        explanation.cause = find_cause(*transfer, evidence, chosen->facts);
    return print(explanation, options.json);
}

} // namespace gaudi::cli
