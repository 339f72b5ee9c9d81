// SPDX-License-Identifier: BSD-3-Clause
// What copies by gaudi_cpy cost beyond the calls of libhl-thunk that they need.
//
//     bench_copies added ROUNDS STAT    uct_ep_put_zcopy against a bare loop of libhl-thunk calls, with
//                                       SOFTGAUDI_PACE=null:8; STAT is softgaudi_stat
//     bench_copies large ROUNDS STAT    large copies against memcpy of the same bytes, without a pace
#include "arguments.h"
#include "card_counts.h"
#include "transport.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace bench;

constexpr std::size_t kMiB = 1 << 20;

std::string size_text(std::size_t size) {
    if (size >= kMiB)
        return std::to_string(size / kMiB) + " MiB";
    return size >= 1024 ? std::to_string(size / 1024) + " KiB" : std::to_string(size) + " B";
}

// ---- added time -----------------------------------------------------------------------------------------------------

/// Bursts of `window` copies, the next when all of the last have ended. The transport gathers copies while the queue is
/// busy, so a burst costs fewer submissions than copies, and a bare loop with a submission for each would lose. Hence
/// the transport's submissions of a burst are counted first, and the bare loop submits as often. The copies lie apart,
/// so that no two share a packet: both sides send the same number. The counts of both are in the result.
Json added_row(Bare &bare, Transport &transport, const std::string &stat, unsigned rounds, std::size_t size,
               unsigned window) {
    constexpr unsigned kRuns = 8; // of about half a millisecond, of which the fastest is a sample
    const unsigned bursts = 128 / window;
    const double operations = double{1} * bursts * window;
    const std::size_t stride = std::max<std::size_t>(128, size * 2);
    const auto put_transport = [&] {
        for (unsigned i = 0; i < bursts; ++i)
            transport.put(size, stride, window);
    };
    unsigned submissions = 1;
    const auto put_bare = [&] {
        for (unsigned i = 0; i < bursts; ++i)
            bare.put(size, stride, window, submissions);
    };
    put_transport(); // opens the card and maps the memory
    const auto start = CardCounts::so_far(stat, bare.bus_id());
    put_transport();
    const auto middle = CardCounts::so_far(stat, bare.bus_id());
    const CardCounts transport_cost = middle.others - start.others;
    submissions = std::clamp(
        static_cast<unsigned>(std::lround(static_cast<double>(transport_cost.submissions) / bursts)), 1u, window);
    put_bare();
    const CardCounts bare_cost = CardCounts::so_far(stat, bare.bus_id()).card - middle.card;

    Json row{{"size_bytes", size},
             {"window", window},
             {"base_cost", bare_cost.per(operations)},
             {"other_cost", transport_cost.per(operations)}};
    row.update(interleave(
                   rounds, [&] { return fastest(kRuns, put_bare) / operations; },
                   [&] { return fastest(kRuns, put_transport) / operations; })
                   .json());
    return row;
}

Json added(unsigned rounds, const std::string &stat) {
    constexpr std::array<std::size_t, 6> sizes = {8, 64, 512, 4096, 65536, kMiB};
    constexpr unsigned kWindow = 16;
    constexpr std::size_t kMemory = 2 * kMiB * kWindow;
    Transport transport(kMemory);
    transport.put(kMiB, 2 * kMiB, kWindow); // opens its card
    Bare bare(kMemory);                     // opens the next card
    bare.put(kMiB, 2 * kMiB, kWindow, 1);
    Json rows = Json::array();
    for (const unsigned window : {1u, kWindow})
        for (const std::size_t size : sizes) {
            progress("added time, " + size_text(size) + ", " + std::to_string(window) + " outstanding");
            rows.push_back(added_row(bare, transport, stat, rounds, size, window));
        }
    return rows;
}

// ---- large copies ---------------------------------------------------------------------------------------------------

/// Changes each page, so that a copy that is left out shows in the bytes.
void change(char *bytes, std::size_t size) {
    static std::uint64_t seed = 0;
    ++seed;
    for (std::size_t i = 0; i < size; i += 4096)
        std::memcpy(bytes + i, &seed, sizeof seed);
}

Json large_row(Transport &transport, const std::string &stat, unsigned rounds, std::size_t size, bool down) {
    Pages other(size);
    Json row{{"size_bytes", size}, {"direction", down ? "host to card" : "card to host"}};
    // What is copied up was copied down just before, on both sides: the caches have seen the same.
    const auto time = [&](const auto &copy_down, const auto &copy_up) {
        return [&] {
            double best = 0;
            for (unsigned i = 0; i < 3; ++i) { // the fastest, as above
                change(transport.host(), size);
                if (!down)
                    copy_down();
                const double taken = down ? nanoseconds(copy_down) : nanoseconds(copy_up);
                best = i == 0 ? taken : std::min(best, taken);
            }
            return best;
        };
    };
    const auto plain_down = [&] { std::memcpy(other.data(), transport.host(), size); };
    const auto plain_up = [&] { std::memcpy(transport.host(), other.data(), size); };
    const auto put = [&] { transport.put(size, 0, 1); };
    const auto get = [&] { transport.get(size, 0, 1); };
    row.update(interleave(rounds, time(plain_down, plain_up), time(put, get)).json());

    const CardCounts before = CardCounts::so_far(stat, "").others; // of all cards
    down ? put() : get();
    const CardCounts cost = CardCounts::so_far(stat, "").others - before;
    row["moved_bytes"] = cost.bytes;
    row["submissions"] = cost.submissions;

    change(transport.host(), size);
    std::memcpy(other.data(), transport.host(), size);
    transport.put(size, 0, 1);
    std::memset(transport.host(), 0, size);
    transport.get(size, 0, 1);
    if (std::memcmp(other.data(), transport.host(), size) != 0)
        throw std::runtime_error("the bytes that came back are not those that were copied");
    return row;
}

Json large(unsigned rounds, const std::string &stat) {
    Transport transport(64 * kMiB);
    Json rows = Json::array();
    for (const bool down : {true, false})
        for (const std::size_t size : {16 * kMiB, 64 * kMiB}) {
            progress(std::string(down ? "host to card, " : "card to host, ") + size_text(size));
            rows.push_back(large_row(transport, stat, rounds, size, down));
        }
    return rows;
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    const auto rounds = words.size() >= 2 ? number(words[1]) : std::nullopt;
    try {
        Json rows;
        if (rounds && words.size() == 3 && words[0] == "added")
            rows = added(*rounds, argv[3]);
        else if (rounds && words.size() == 3 && words[0] == "large")
            rows = large(*rounds, argv[3]);
        if (!rows.is_null()) {
            std::printf("%s\n", Json{{"rows", rows}}.dump().c_str());
            return 0;
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_copies: %s\n", error.what());
        return 1;
    }
    return usage("bench_copies added|large ROUNDS STAT, where ROUNDS is a whole number above 0 and STAT the path of "
                 "softgaudi_stat");
}
