// SPDX-License-Identifier: BSD-3-Clause
// Messages of each size between two processes, with each protocol forced in turn against the one that UCX chooses.
//
//     bench_sweep CLOCK TLS FROM TO ROUNDS LARGEST
//
// CLOCK is virtual (softgaudi's, with a virtual pace) or wall; TLS a value of UCX_TLS; FROM and TO are host or gaudi;
// sizes go from 1 byte to LARGEST in steps of 4.
#include "arguments.h"
#include "samples.h"
#include "transfer.h"
#include "virtual_clock.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace e2e;
using bench::Json;

/// Settings that leave UCX one protocol, or one kind of them. Where UCX has none of that kind it takes another.
struct Protocol {
    const char *name;
    std::vector<std::pair<const char *, const char *>> settings;
};

const std::vector<Protocol> kProtocols = {
    {"choice", {}},
    {"eager copied", {{"UCX_RNDV_THRESH", "inf"}, {"UCX_ZCOPY_THRESH", "inf"}}},
    {"eager zero copy", {{"UCX_RNDV_THRESH", "inf"}, {"UCX_ZCOPY_THRESH", "0"}}},
    {"rendezvous", {{"UCX_RNDV_THRESH", "0"}}},
    {"get zero copy", {{"UCX_RNDV_THRESH", "0"}, {"UCX_RNDV_SCHEME", "get_zcopy"}}},
    {"put zero copy", {{"UCX_RNDV_THRESH", "0"}, {"UCX_RNDV_SCHEME", "put_zcopy"}}},
    {"get pipeline", {{"UCX_RNDV_THRESH", "0"}, {"UCX_RNDV_SCHEME", "get_ppln"}}},
    {"put pipeline", {{"UCX_RNDV_THRESH", "0"}, {"UCX_RNDV_SCHEME", "put_ppln"}}},
    {"active messages", {{"UCX_RNDV_THRESH", "0"}, {"UCX_RNDV_SCHEME", "am"}}},
    {"choice again", {}}, // its difference to the first is noise
};

/// One protocol, with UCX contexts of its own in both processes.
class Lane {
public:
    Lane(Pipe &pipe, bench::Party::Shared &shared, bool first, const Protocol &protocol, ucs_memory_type_t from,
         ucs_memory_type_t to, std::size_t size)
        : m_name(protocol.name), m_party((set(protocol, true), pipe), shared, first), m_route(m_party, from, to, size) {
        set(protocol, false);
    }
    const char *name() const { return m_name; }
    bench::Party &party() { return m_party; }
    bench::Route &route() { return m_route; }

    double last = 0;          // fastest time of the size before
    bool is_left_out = false; // from the size on at which it is far behind

private:
    static void set(const Protocol &protocol, bool wanted) {
        for (const auto &[variable, value] : protocol.settings)
            wanted ? setenv(variable, value, 1) : unsetenv(variable);
    }

    const char *m_name;
    bench::Party m_party;
    bench::Route m_route;
};

struct Sweep {
    bench::Clock clock;
    const char *transports;
    ucs_memory_type_t from, to;
    unsigned rounds;
    std::size_t largest;
};

/// Whether a forced protocol takes too long to be tried with larger messages. Both processes leave out the same: they
/// compare the same times.
bool is_far_behind(const Lane &lane, const std::list<Lane> &lanes) {
    constexpr double kFar = 8;
    if (std::string_view(lane.name()).starts_with("choice"))
        return false;
    double best = std::numeric_limits<double>::max();
    for (const Lane &each : lanes)
        if (each.last > 0 && !each.is_left_out)
            best = std::min(best, each.last);
    return lane.last > kFar * best;
}

Json measure_size(const Sweep &sweep, std::list<Lane> &lanes, std::size_t size) {
    Json rows = Json::array();
    std::vector<Lane *> chosen;
    for (Lane &lane : lanes) {
        lane.is_left_out = lane.is_left_out || (size > 65536 && is_far_behind(lane, lanes));
        if (!lane.is_left_out)
            chosen.push_back(&lane);
    }
    for (Lane *lane : chosen) {
        lane->route().check_bytes(bench::Way::tag, size); // connects and registers, too
        rows.push_back({{"size_bytes", size}, {"protocol", lane->name()}, {"ns", Json::array()}});
    }
    for (unsigned round = 0; round < sweep.rounds; ++round)
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const std::size_t next = (i + round) % chosen.size(); // the order changes from round to round
            const std::uint64_t taken = chosen[next]->route().time(bench::Way::tag, size, sweep.clock);
            rows[next]["ns"].push_back(taken);
            double &last = chosen[next]->last;
            last = round == 0 ? static_cast<double>(taken) : std::min(last, static_cast<double>(taken));
        }
    return rows;
}

int run(const Sweep &sweep) {
    Json rows = Json::array();
    std::vector<bench::Party::Shared *> shared;
    for (std::size_t i = 0; i < kProtocols.size(); ++i)
        shared.push_back(&bench::Party::share());
    const Ended ended = run_in_two_processes([&](Pipe &pipe, bool first) {
        setenv("UCX_TLS", sweep.transports, 1);
        std::list<Lane> lanes;
        for (std::size_t i = 0; i < kProtocols.size(); ++i)
            lanes.emplace_back(pipe, *shared[i], first, kProtocols[i], sweep.from, sweep.to, sweep.largest);
        for (std::size_t size = 1; size <= sweep.largest; size *= 4) {
            if (first)
                bench::progress(std::to_string(size) + " bytes over " + sweep.transports);
            for (const Json &row : measure_size(sweep, lanes, size))
                rows.push_back(row);
        }
        lanes.front().party().meet();
    });
    if (!ended.problem.empty())
        std::fprintf(stderr, "bench_sweep: %s\n", ended.problem.c_str());
    std::printf("%s\n", Json{{"transports", sweep.transports}, {"rows", rows}}.dump().c_str());
    return ended.problem.empty() && ended.second_good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    const auto type = [&](std::size_t at) {
        return words[at] == "host"    ? UCS_MEMORY_TYPE_HOST
               : words[at] == "gaudi" ? UCS_MEMORY_TYPE_GAUDI
                                      : UCS_MEMORY_TYPE_UNKNOWN;
    };
    const auto rounds = words.size() == 6 ? bench::number(words[4]) : std::nullopt;
    const auto largest = words.size() == 6 ? bench::number(words[5]) : std::nullopt;
    if (!rounds || !largest || (words[0] != "virtual" && words[0] != "wall") || type(2) == UCS_MEMORY_TYPE_UNKNOWN ||
        type(3) == UCS_MEMORY_TYPE_UNKNOWN)
        return bench::usage(
            "bench_sweep virtual|wall TLS host|gaudi host|gaudi ROUNDS LARGEST, where ROUNDS and LARGEST "
            "are whole numbers above 0");
    try {
        return run({words[0] == "virtual" ? read_virtual_clock : bench::read_steady_clock, argv[2], type(2), type(3),
                    *rounds, *largest});
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_sweep: %s\n", error.what());
        return 1;
    }
}
