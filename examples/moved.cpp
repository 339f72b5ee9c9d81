// SPDX-License-Identifier: BSD-3-Clause
#include "moved.h"

#include "ucp_side.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <string>

namespace e2e {
namespace {

/// The output of a program.
nlohmann::json report(const char *program) {
    FILE *pipe = popen((std::string(program) + " --json").c_str(), "re");
    std::string text;
    std::array<char, 4096> part{};
    for (std::size_t got = 0; pipe && (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
        text.append(part.data(), got);
    if (!pipe || pclose(pipe) != 0)
        throw Failure(std::string(program) + " failed");
    return nlohmann::json::parse(text);
}

std::uint64_t number(const nlohmann::json &from, const char *name) { return from.at(name).get<std::uint64_t>(); }

void add_cards(Moved &moved, const nlohmann::json &report) {
    for (const auto &card : report.at("cards")) {
        moved.up += number(card, "up_bytes");
        moved.down += number(card, "down_bytes");
        moved.within += number(card, "card_bytes");
        moved.exports += number(card, "exports");
    }
    moved.clock_ns = report.value("clock_ns", std::uint64_t{0});
}

void add_hcas(Moved &moved, const nlohmann::json &report) {
    for (const auto &device : report.at("devices")) {
        std::uint64_t direct = 0, through = 0;
        for (const char *counter : {"local_read", "local_written", "remote_read", "remote_written"}) {
            direct += number(device.at("dmabuf"), counter);
            through += number(device.at("host"), counter);
        }
        moved.direct += direct;
        moved.through += through;
        moved.direct_by_device.push_back(direct);
        moved.requests += number(device, "sends");
        moved.registrations += number(device, "dmabuf_registrations");
        moved.host_registrations += number(device, "registrations");
    }
}

} // namespace

Moved Moved::so_far(const char *gaudi_stat, const char *hca_stat) {
    Moved moved;
    if (gaudi_stat)
        add_cards(moved, report(gaudi_stat));
    if (hca_stat)
        add_hcas(moved, report(hca_stat));
    return moved;
}

Moved Moved::operator-(const Moved &before) const {
    Moved difference = *this;
    for (const auto counter :
         {&Moved::up, &Moved::down, &Moved::within, &Moved::direct, &Moved::through, &Moved::requests,
          &Moved::registrations, &Moved::host_registrations, &Moved::exports, &Moved::clock_ns})
        difference.*counter -= before.*counter;
    for (std::size_t i = 0; i < before.direct_by_device.size(); ++i)
        difference.direct_by_device.at(i) -= before.direct_by_device[i];
    return difference;
}

} // namespace e2e
