// SPDX-License-Identifier: BSD-3-Clause
// What operations between two types of memory cost, through the API of UCP alone: the same program compares modules of
// different vendors on different cards.
//
//     bench_peer                         host memory and Gaudi memory
//     bench_peer --to cuda               host memory and memory of an NVIDIA card
//     bench_peer --from cuda --to cuda --parts transfer
#include "peer_rows.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace {

using bench::Json;

std::optional<ucs_memory_type_t> find_memory_type(const std::string &name) {
    for (unsigned type = 0; type < UCS_MEMORY_TYPE_LAST; ++type)
        if (name == ucs_memory_type_names[type])
            return static_cast<ucs_memory_type_t>(type);
    return std::nullopt;
}

/// The transport that copies between host memory and memory of that type; empty for host memory.
std::string copy_transport(ucs_memory_type_t type) {
    const std::string name = ucs_memory_type_names[type];
    if (name == "host")
        return "";
    return name == "gaudi" ? ",gaudi_cpy" : "," + name.substr(0, name.find('-')) + "_copy";
}

/// sm and tcp, with the transports that copy to and from both types.
std::vector<std::string> default_transports(const bench::PeerOptions &options) {
    std::vector<std::string> result;
    for (const char *transport : {"sm", "tcp"}) {
        std::string list = transport + copy_transport(options.from);
        if (options.to != options.from)
            list += copy_transport(options.to);
        result.push_back(list);
    }
    return result;
}

struct Quartiles {
    double low, median, high;
};

Quartiles quartiles_of(const Json &samples) {
    auto values = samples.get<std::vector<double>>();
    std::sort(values.begin(), values.end());
    const auto at = [&](double part) {
        const double place = part * static_cast<double>(values.size() - 1);
        const auto index = static_cast<std::size_t>(place);
        const double next = values[std::min(index + 1, values.size() - 1)];
        return values[index] + (next - values[index]) * (place - static_cast<double>(index));
    };
    return {at(0.25), at(0.5), at(0.75)};
}

std::string title_of(const Json &row) {
    std::string title = row.at("what");
    if (row.contains("size_bytes"))
        title += " " + std::to_string(row.at("size_bytes").get<std::size_t>()) + " B";
    if (row.contains("at_once"))
        title += ", " + std::to_string(row.at("at_once").get<unsigned>()) + " at a time";
    if (row.contains("ranges"))
        title += ", " + std::to_string(row.at("ranges").get<unsigned>()) + " ranges" +
                 (row.at("pages_apart") == 1 ? "" : " on every other page");
    if (row.contains("threads"))
        title += ", " + std::to_string(row.at("threads").get<unsigned>()) + " threads";
    if (row.contains("transports"))
        title += " over " + row.at("transports").get<std::string>();
    return title;
}

void print_row(const Json &row) {
    std::printf("%-58s", title_of(row).c_str());
    if (row.contains("processor_ns")) {
        const auto [low, median, high] = quartiles_of(row.at("processor_ns"));
        std::printf(" %10.3f us of processor time (%.3f to %.3f)", median / 1000, low / 1000, high / 1000);
    }
    if (row.contains("wall_ns"))
        std::printf(", %.3f us in all", quartiles_of(row.at("wall_ns")).median / 1000);
    if (row.contains("puts_per_s"))
        std::printf(", %.3f million a second, slowest thread %.2f of the mean",
                    quartiles_of(row.at("puts_per_s")).median / 1e6, quartiles_of(row.at("slowest_over_mean")).median);
    if (row.contains("ranges"))
        std::printf(", from one range %.3f and %.3f", quartiles_of(row.at("base_ns")).median / 1000,
                    quartiles_of(row.at("base_again_ns")).median / 1000);
    if (row.contains("transports")) {
        const auto [low, median, high] = quartiles_of(row.at("other_ns"));
        std::printf(" %10.3f ms (%.3f to %.3f), host to host %.3f and %.3f", median / 1e6, low / 1e6, high / 1e6,
                    quartiles_of(row.at("base_ns")).median / 1e6, quartiles_of(row.at("base_again_ns")).median / 1e6);
    }
    std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app("Measures operations between two types of memory through UCP, and compares their bytes.");
    bench::PeerOptions options;
    std::string from = "host", to = "gaudi";
    std::vector<std::string> parts = bench::kPeerParts;
    bool json = false;
    const CLI::Validator type(
        [](const std::string &name) { return find_memory_type(name) ? "" : "UCX has no memory type " + name; }, "TYPE");
    app.add_option("--from", from, "Type of the source memory: host, gaudi, cuda, ...")->check(type);
    app.add_option("--to", to, "Type of the destination memory")->check(type);
    app.add_option("--parts", parts, "put, allocate, register, ranges, init, threads, transfer")
        ->delimiter(',')
        ->check(CLI::IsMember(bench::kPeerParts));
    app.add_option("--rounds", options.rounds, "Samples of each row")->check(CLI::PositiveNumber);
    app.add_option("--count", options.count, "Operations in a sample")->check(CLI::PositiveNumber);
    app.add_option("--ranges", options.ranges, "Numbers of registered ranges to put from")
        ->delimiter(',')
        ->check(CLI::PositiveNumber);
    app.add_option("--threads", options.threads, "Numbers of threads")->delimiter(',')->check(CLI::PositiveNumber);
    app.add_option("--thread-ms", options.thread_ms, "Milliseconds of a sample with threads")
        ->check(CLI::PositiveNumber);
    app.add_option("--bytes", options.transfer, "Bytes of a transfer between two processes")
        ->check(CLI::PositiveNumber);
    app.add_option("--tls", options.transports,
                   "UCX_TLS of the transfers, several times if wanted; by default sm and tcp, each with the copies");
    app.add_option("--check", options.check, "Bytes of each row of one process to compare; by default all");
    app.add_flag("--json", json, "Print one line of JSON instead of the table");
    CLI11_PARSE(app, argc, argv);
    options.from = *find_memory_type(from);
    options.to = *find_memory_type(to);
    if (options.transports.empty())
        options.transports = default_transports(options);
    if (options.from == UCS_MEMORY_TYPE_CUDA || options.to == UCS_MEMORY_TYPE_CUDA)
        setenv("UCX_CUDA_COPY_RETAIN_PRIMARY_CTX", "y", 0); // the program has no context of CUDA's: UCX makes one

    try {
        Json rows = Json::array();
        for (const std::string &part : parts)
            for (const Json &row : bench::measure_part(part, options)) {
                rows.push_back(row);
                if (!json)
                    print_row(row);
                std::fflush(stdout);
            }
        if (json)
            std::printf("%s\n", Json{{"from", from}, {"to", to}, {"rows", rows}}.dump().c_str());
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_peer: %s\n", error.what());
        return 1;
    }
}
