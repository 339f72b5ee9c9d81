// SPDX-License-Identifier: BSD-3-Clause
// softhca_stat: prints what the HCAs of a fabric moved for all processes since the fabric was created, and per live
// region. It only looks: a fabric that is not there stays so.
#include "common/settings.h"
#include "common/stat_program.h"
#include "hca.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <exception>
#include <optional>
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

/// Nothing for a region that is not one of the device's, or no longer.
std::optional<Json> report(const State &state, const MrEntry &region, unsigned device) {
    const uint32_t id = region.id.load();
    const uint32_t process = region.process;
    if (id == 0 || id == kClosing || region.device != device || process >= state.processes.entries.size())
        return {};
    Json out = {
        {"key", id},
        {"pid", state.processes.entries[process].pid.load()},
        {"kind", name(region.kind)},
        {"address", region.iova},
        {"length", region.length},
        {"access", region.access},
    };
    out.update(report(region.traffic));
    return region.id.load() == id ? std::optional(out) : std::nullopt; // its owner may have deregistered it meanwhile
}

Json report(const State &state, unsigned device) {
    const DeviceEntry &entry = state.devices[device];
    Json regions = Json::array();
    for (const MrEntry &region : state.mrs.entries)
        if (const auto live = report(state, region, device))
            regions.push_back(*live);
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

std::string format_device(const Json &device) {
    std::string out = gaudi::os::format("{} ({}), link {}\n", device["device"].get<std::string>(),
                                        device["bus_id"].get<std::string>(), device["link"].get<std::string>());
    const auto numbers = [&](const Json &from, std::string_view prefix) {
        for (const auto &[key, value] : from.items())
            if (value.is_number_unsigned() && value.get<uint64_t>() != 0)
                out +=
                    gaudi::os::format("  {:<32} {}\n", gaudi::os::format("{}{}", prefix, key), value.get<uint64_t>());
    };
    numbers(device, "");
    numbers(device["host"], "host ");
    numbers(device["dmabuf"], "dmabuf ");
    for (const Json &region : device["regions"]) {
        out += gaudi::os::format("  region {:#x}: {} of process {}, {:#x} + {}: local {}r {}w, remote {}r {}w\n",
                                 region["key"].get<uint32_t>(), region["kind"].get<std::string>(),
                                 region["pid"].get<int>(), region["address"].get<uint64_t>(),
                                 region["length"].get<uint64_t>(), region["local_read"].get<uint64_t>(),
                                 region["local_written"].get<uint64_t>(), region["remote_read"].get<uint64_t>(),
                                 region["remote_written"].get<uint64_t>());
    }
    return out;
}

soft::Expected<std::string> make_report(bool json) {
    const auto count = soft::read_count("SOFTHCA_DEVICES", Config().devices, kMaxDevices);
    if (!count)
        return soft::Unexpected(count.error());
    const auto dir = soft::find_directory("SOFTHCA_DIR", "softhca", "a software HCA");
    if (!dir)
        return soft::Unexpected(dir.error());
    const std::string path = *dir + "/fabric";
    if (access(path.c_str(), F_OK) != 0)
        return soft::Unexpected(gaudi::os::format("no fabric in {}: no program has used its HCAs yet", *dir));
    const auto file = soft::map_for_reading(path, kFileBytes, State::kMagic);
    if (!file)
        return soft::Unexpected(file.error());
    Json devices = Json::array();
    for (unsigned i = 0; i < *count; ++i)
        devices.push_back(report(*static_cast<const State *>(*file), i));
    if (json)
        return Json{{"schema", 1}, {"software", true}, {"devices", devices}}.dump(2) + "\n";
    std::string out;
    for (const Json &device : devices)
        out += format_device(device);
    return out;
}

} // namespace

int main(int argc, char **argv) {
    soft::StatProgram program{.name = "softhca_stat",
                              .about = "Prints the counters of the software HCAs in SOFTHCA_DIR (default: the user's "
                                       "own)."};
    try {
        if (const auto code = soft::read_options(program, argc, argv))
            return *code;
        const auto text = make_report(program.json);
        return text ? soft::print_report(program, *text) : soft::report_failure(program, text.error());
    } catch (const std::exception &error) {
        return soft::report_failure(program, gaudi::os::format("cannot report the counts: {}", error.what()));
    }
}
