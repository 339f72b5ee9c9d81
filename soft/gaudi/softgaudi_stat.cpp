// SPDX-License-Identifier: BSD-3-Clause
// softgaudi_stat: prints what the cards of a software server did for all processes since the server was created.
// It only looks: a server that is not there stays so.
#include "blocks.h"
#include "clock.h"
#include "common/settings.h"
#include "common/stat_program.h"
#include "os/format.h"
#include "state.h"
#include "store.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using softgaudi::CardState;
using softgaudi::ClockState;

/// A card that a program has used.
struct Card {
    unsigned index;
    std::string dir;
    const CardState *state;
};

/// Finds the cards of the server in `dir`, `most` at most.
soft::Expected<std::vector<Card>> find_cards(const std::string &dir, unsigned most) {
    std::vector<std::string> models = {std::string(softgaudi::gaudi2().name), std::string(softgaudi::gaudi3().name)};
    if (soft::env("SOFTGAUDI_MODEL") == "gaudi3")
        std::swap(models.front(), models.back()); // a directory may have cards of both
    std::vector<Card> cards;
    for (unsigned i = 0; i < most; ++i)
        for (const std::string &model : models) {
            const std::string card = gaudi::os::format("{}/{}-card{}", dir, model, i);
            if (access(card.c_str(), F_OK) != 0)
                continue;
            const auto state = soft::map_for_reading(card + "/state", sizeof(CardState), CardState::kMagic);
            if (!state)
                return soft::Unexpected(state.error());
            cards.push_back({i, card, static_cast<const CardState *>(*state)});
            break;
        }
    if (cards.empty())
        return soft::Unexpected(
            gaudi::os::format("no software Gaudi server in {}: no program has used its cards yet", dir));
    return cards;
}

bool is_in_use(const Card &card) {
    const softgaudi::File node(open((card.dir + "/accel").c_str(), O_RDONLY | O_CLOEXEC));
    return (node && softgaudi::is_any_byte_locked(node.get())) || softgaudi::Blocks(card.dir, false).has_exports();
}

nlohmann::ordered_json report(const Card &card, unsigned cards) {
    const CardState &state = *card.state;
    const bool in_use = is_in_use(card);
    const uint32_t module_id = softgaudi::module_id(card.index, cards);
    nlohmann::ordered_json calls = nlohmann::ordered_json::object();
    for (size_t i = 0; i < softgaudi::kFunctions.size(); ++i)
        if (const uint64_t count = state.calls[i].load())
            calls[std::string(softgaudi::kFunctions[i])] = count;
    const softgaudi::Traffic &traffic = state.traffic;
    return {
        {"card", module_id}, // its number in every tool
        {"bus_id", softgaudi::bus_id(card.index)},
        {"module_id", module_id},
        {"accel", card.index},
        {"in_use", in_use},
        {"opens", state.open_counter},
        {"hard_resets", state.hard_resets},
        {"dram_used_bytes", in_use ? state.context.dram_used : 0},
        {"down_bytes", traffic.down_bytes.load()},
        {"up_bytes", traffic.up_bytes.load()},
        {"card_bytes", traffic.card_bytes.load()},
        {"fill_bytes", traffic.fill_bytes.load()},
        {"host_bytes", traffic.host_bytes.load()},
        {"not_made_bytes", traffic.not_made_bytes.load()},
        {"unpinned_accesses", traffic.unpinned_accesses.load()},
        {"submissions", traffic.submissions.load()},
        {"packets", traffic.packets.load()},
        {"maps", traffic.maps.load()},
        {"exports", traffic.exports.load()},
        {"calls", calls},
    };
}

std::string format_card(const nlohmann::ordered_json &card) {
    std::string out =
        gaudi::os::format("card {} ({}, accel{}){}\n", card["card"].get<unsigned>(), card["bus_id"].get<std::string>(),
                          card["accel"].get<unsigned>(), card["in_use"].get<bool>() ? ", in use" : "");
    for (const auto &[key, value] : card.items())
        if (value.is_number_unsigned() && value.get<uint64_t>() != 0 && key != "card" && key != "module_id" &&
            key != "accel")
            out += gaudi::os::format("  {:<24} {}\n", key, value.get<uint64_t>());
    for (const auto &[name, count] : card["calls"].items())
        out += gaudi::os::format("  hlthunk_{:<40} {}\n", name, count.get<uint64_t>());
    return out;
}

soft::Expected<std::string> make_report(bool json) {
    const bool is_set = !soft::env("SOFTGAUDI_CARDS").empty();
    const auto most = soft::read_count("SOFTGAUDI_CARDS", softgaudi::kMaxCards, softgaudi::kMaxCards);
    if (!most)
        return soft::Unexpected(most.error());
    const auto dir = soft::find_directory("SOFTGAUDI_DIR", "softgaudi", "a software Gaudi");
    if (!dir)
        return soft::Unexpected(dir.error());
    const auto found = find_cards(*dir, *most);
    if (!found)
        return soft::Unexpected(found.error());
    const unsigned count = is_set ? *most : static_cast<unsigned>(found->size());
    nlohmann::ordered_json cards = nlohmann::ordered_json::array();
    for (const Card &card : *found)
        cards.push_back(report(card, count));
    if (json) {
        nlohmann::ordered_json all{{"schema", 1}, {"software", true}, {"cards", cards}};
        if (const std::string clock = *dir + "/clock"; access(clock.c_str(), F_OK) == 0) {
            const auto state = soft::map_for_reading(clock, sizeof(ClockState), ClockState::kMagic);
            if (!state)
                return soft::Unexpected(state.error());
            all["clock_ns"] = static_cast<const ClockState *>(*state)->now.load();
        }
        return all.dump(2) + "\n";
    }
    std::sort(cards.begin(), cards.end(), [](const auto &a, const auto &b) {
        return a["card"].template get<unsigned>() < b["card"].template get<unsigned>();
    });
    std::string out;
    for (const auto &card : cards)
        if (card["opens"] != 0u || !card["calls"].empty())
            out += format_card(card);
    return out;
}

} // namespace

int main(int argc, char **argv) {
    soft::StatProgram program{
        .name = "softgaudi_stat",
        .about = "Prints the counters of the software Gaudi server in SOFTGAUDI_DIR (default: the user's own)."};
    try {
        if (const auto code = soft::read_options(program, argc, argv))
            return *code;
        const auto text = make_report(program.json);
        return text ? soft::print_report(program, *text) : soft::report_failure(program, text.error());
    } catch (const std::exception &error) {
        return soft::report_failure(program, gaudi::os::format("cannot report the counts: {}", error.what()));
    }
}
