// SPDX-License-Identifier: BSD-3-Clause
#include "moved.h"

#include "ucp_side.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <string>

namespace e2e {
namespace {

/// What a program prints.
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

} // namespace

Moved Moved::now() {
    Moved moved;
    const nlohmann::json gaudi = report(SOFTGAUDI_STAT), hca = report(SOFTHCA_STAT);
    for (const auto &card : gaudi.at("cards")) {
        moved.staged += card.at("up_bytes").get<std::uint64_t>() + card.at("down_bytes").get<std::uint64_t>();
        moved.exports += card.at("exports").get<std::uint64_t>();
    }
    for (const auto &device : hca.at("devices")) {
        std::uint64_t direct = 0;
        for (const char *counter : {"local_read", "local_written", "remote_read", "remote_written"}) {
            direct += device.at("dmabuf").at(counter).get<std::uint64_t>();
            moved.through += device.at("host").at(counter).get<std::uint64_t>();
        }
        moved.direct += direct;
        moved.direct_by_device.push_back(direct);
        moved.registrations += device.at("dmabuf_registrations").get<std::uint64_t>();
    }
    return moved;
}

Moved Moved::operator-(const Moved &before) const {
    Moved difference{staged - before.staged,   direct - before.direct,
                     through - before.through, registrations - before.registrations,
                     exports - before.exports, direct_by_device};
    for (std::size_t i = 0; i < before.direct_by_device.size(); ++i)
        difference.direct_by_device.at(i) -= before.direct_by_device[i];
    return difference;
}

} // namespace e2e
