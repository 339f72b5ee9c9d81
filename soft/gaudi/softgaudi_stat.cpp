// SPDX-License-Identifier: BSD-3-Clause
// softgaudi_stat: prints what the cards of a software server did for all processes since the server was created.
#include "os/format.h"
#include "server.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

namespace {

using softgaudi::Card;

nlohmann::ordered_json report(Card &card) {
    const softgaudi::CardState &state = card.state();
    const softgaudi::CardLock lock(card);
    nlohmann::ordered_json calls = nlohmann::ordered_json::object();
    for (size_t i = 0; i < softgaudi::kFunctions.size(); ++i)
        if (const uint64_t count = state.calls[i].load())
            calls[std::string(softgaudi::kFunctions[i])] = count;
    const softgaudi::Traffic &traffic = state.traffic;
    return {
        {"card", card.module_id()}, // its number in every tool
        {"bus_id", softgaudi::bus_id(card.index())},
        {"module_id", card.module_id()},
        {"accel", card.index()},
        {"in_use", card.in_use()},
        {"opens", state.open_counter},
        {"hard_resets", state.hard_resets},
        {"dram_used_bytes", card.in_use() ? state.context.dram_used : 0},
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

void print(const nlohmann::ordered_json &card) {
    gaudi::os::print(stdout, "card {} ({}, accel{}){}\n", card["card"].get<unsigned>(),
                     card["bus_id"].get<std::string>(), card["accel"].get<unsigned>(),
                     card["in_use"].get<bool>() ? ", in use" : "");
    for (const auto &[key, value] : card.items())
        if (value.is_number_unsigned() && value.get<uint64_t>() != 0 && key != "card" && key != "module_id" &&
            key != "accel")
            gaudi::os::print(stdout, "  {:<24} {}\n", key, value.get<uint64_t>());
    for (const auto &[name, count] : card["calls"].items())
        gaudi::os::print(stdout, "  hlthunk_{:<40} {}\n", name, count.get<uint64_t>());
}

} // namespace

int main(int argc, char **argv) try {
    const std::string_view option = argc > 1 ? argv[1] : "";
    if (argc > 2 || (!option.empty() && option != "--json")) {
        std::fputs("usage: softgaudi_stat [--json]\n"
                   "Prints the counters of the software Gaudi server in SOFTGAUDI_DIR (default: the user's own).\n",
                   option == "--help" ? stdout : stderr);
        return option == "--help" ? 0 : 1;
    }
    softgaudi::Server *server = softgaudi::Server::get();
    if (!server)
        return 1;
    nlohmann::ordered_json cards = nlohmann::ordered_json::array();
    for (unsigned i = 0; i < server->cards(); ++i)
        cards.push_back(report(server->card(i)));
    if (option == "--json") {
        nlohmann::ordered_json all{{"schema", 1}, {"software", true}, {"cards", cards}};
        if (server->clock().is_virtual())
            all["clock_ns"] = server->clock().now();
        gaudi::os::print(stdout, "{}\n", all.dump(2));
        return 0;
    }
    std::sort(cards.begin(), cards.end(), [](const auto &a, const auto &b) {
        return a["card"].template get<unsigned>() < b["card"].template get<unsigned>();
    });
    for (const auto &card : cards)
        if (card["opens"] != 0u || !card["calls"].empty())
            print(card);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "softgaudi_stat: cannot report the counts: %s\n", error.what());
    return 1;
}
