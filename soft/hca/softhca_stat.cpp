// SPDX-License-Identifier: BSD-3-Clause
// softhca_stat: prints what the HCAs of a fabric moved for all processes since the fabric was created, and per live
// region.
#include "common/directory.h"
#include "hca.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

namespace {

using namespace softhca;
using Json = nlohmann::ordered_json;

Json report(const Traffic &traffic) {
    return {
        {"local_read", traffic.local_read.load()},
        {"local_written", traffic.local_written.load()},
        {"remote_read", traffic.remote_read.load()},
        {"remote_written", traffic.remote_written.load()},
    };
}

const char *name(Kind kind) { return kind == Kind::dmabuf ? "dmabuf" : "host"; }

Json report(State &state, const MrEntry &region) {
    Json out = {
        {"key", region.id.load()},   {"pid", state.processes.entries[region.process].pid.load()},
        {"kind", name(region.kind)}, {"address", region.iova},
        {"length", region.length},   {"access", region.access},
    };
    out.update(report(region.traffic));
    return out;
}

Json report(State &state, unsigned device) {
    const DeviceEntry &entry = state.devices[device];
    Json regions = Json::array();
    {
        const Lock lock(state.tables);
        for (const MrEntry &region : state.mrs.entries) {
            const uint32_t id = region.id.load();
            if (id != 0 && id != kClosing && region.device == device)
                regions.push_back(report(state, region));
        }
    }
    return {
        {"device", gaudi::os::format("softhca{}", device)},
        {"bus_id", bus_id(device)},
        {"link", entry.down.load() != 0 ? "down" : "up"},
        {"sends", entry.sends.load()},
        {"sent_bytes", entry.sent_bytes.load()},
        {"rnr_naks", entry.rnr_naks.load()},
        {"retries", entry.retries.load()},
        {"errors", entry.errors.load()},
        {"registrations", entry.registrations.load()},
        {"dmabuf_registrations", entry.dmabuf_registrations.load()},
        {"host", report(entry.traffic[0])},
        {"dmabuf", report(entry.traffic[1])},
        {"regions", regions},
    };
}

void print(const Json &device) {
    gaudi::os::print(stdout, "{} ({}), link {}\n", device["device"].get<std::string>(),
                     device["bus_id"].get<std::string>(), device["link"].get<std::string>());
    const auto numbers = [](const Json &from, std::string_view prefix) {
        for (const auto &[key, value] : from.items())
            if (value.is_number_unsigned() && value.get<uint64_t>() != 0)
                gaudi::os::print(stdout, "  {:<32} {}\n", gaudi::os::format("{}{}", prefix, key),
                                 value.get<uint64_t>());
    };
    numbers(device, "");
    numbers(device["host"], "host ");
    numbers(device["dmabuf"], "dmabuf ");
    for (const Json &region : device["regions"]) {
        gaudi::os::print(stdout, "  region {:#x}: {} of process {}, {:#x} + {}: local {}r {}w, remote {}r {}w\n",
                         region["key"].get<uint32_t>(), region["kind"].get<std::string>(), region["pid"].get<int>(),
                         region["address"].get<uint64_t>(), region["length"].get<uint64_t>(),
                         region["local_read"].get<uint64_t>(), region["local_written"].get<uint64_t>(),
                         region["remote_read"].get<uint64_t>(), region["remote_written"].get<uint64_t>());
    }
}

} // namespace

int main(int argc, char **argv) try {
    const std::string_view option = argc > 1 ? argv[1] : "";
    if (argc > 2 || (!option.empty() && option != "--json")) {
        std::fputs("usage: softhca_stat [--json]\n"
                   "Prints the counters of the software HCAs in SOFTHCA_DIR (default: the user's own).\n",
                   option == "--help" ? stdout : stderr);
        return option == "--help" ? 0 : 1;
    }
    const auto config = read_config();
    if (!config) {
        gaudi::os::print(stderr, "softhca: {}\n", config.error());
        return 1;
    }
    const auto fabric = Fabric::open(config->dir);
    if (!fabric) {
        gaudi::os::print(stderr, "softhca: cannot set up {}/fabric: {}\n", config->dir,
                         soft::describe_setup_error(errno));
        return 1;
    }
    Json devices = Json::array();
    for (unsigned i = 0; i < config->devices; ++i)
        devices.push_back(report(fabric->state(), i));
    if (option == "--json") {
        gaudi::os::print(stdout, "{}\n", Json{{"schema", 1}, {"software", true}, {"devices", devices}}.dump(2));
        return 0;
    }
    for (const Json &device : devices)
        print(device);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "softhca_stat: cannot report the counts: %s\n", error.what());
    return 1;
}
