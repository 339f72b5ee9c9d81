// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange Gaudi memory through UCP in several ways, and tables show the bytes that the cards moved.
//
//     ucp_exchange [STAT]            within the machine. STAT reports the counters of the software server
//                                    (softgaudi_stat); without it, as on real cards, nothing is counted
//     ucp_exchange --rdma STAT HCA   over RDMA devices, with zero copy and without. HCA is softhca_stat. On a virtual
//                                    clock (docs/softgaudi.md) it also shows the time that each took
//     ucp_exchange --json STAT, ucp_exchange --json --rdma STAT HCA: the same as a JSON array of exchanges
#include "grouped.h"
#include "moved.h"
#include "os/format.h"
#include "ucp_side.h"
#include "virtual_clock.h"

#include <nlohmann/json.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace e2e;

constexpr std::size_t kLarge = 64 << 20;

enum class Way { tag, put, get };

struct Exchange {
    const char *name;
    Way way;
    std::size_t size;
    const char *over;       // name for the user
    const char *transports; // value of UCX_TLS
    bool zero_copy = true;
};

constexpr Exchange kWithin[] = {
    {"send and receive", Way::tag, 4096, "shared memory", "sm,gaudi_cpy"},
    {"send and receive", Way::tag, kLarge, "shared memory", "sm,gaudi_cpy"},
    {"put", Way::put, kLarge, "shared memory", "sm,gaudi_cpy"},
    {"get", Way::get, kLarge, "shared memory", "sm,gaudi_cpy"},
    {"send and receive", Way::tag, kLarge, "tcp", "tcp,gaudi_cpy"},
    {"put", Way::put, kLarge, "tcp", "tcp,gaudi_cpy"},
};
constexpr Exchange kRdma[] = {
    {"put", Way::put, kLarge, "zero copy", "rc_v,gaudi_cpy"},
    {"put", Way::put, kLarge, "staged", "rc_v,gaudi_cpy", false},
    {"send and receive", Way::tag, kLarge, "zero copy", "rc_v,gaudi_cpy"},
    {"send and receive", Way::tag, kLarge, "staged", "rc_v,gaudi_cpy", false},
};

/// Programs that report the counters.
struct Stats {
    const char *cards = nullptr;
    const char *hcas = nullptr;
};

/// What came of an exchange.
struct Outcome {
    bool good = false; // every byte arrived
    Moved moved;
};

std::string size_text(std::uint64_t bytes) {
    return bytes == 0         ? "-"
           : bytes >= 1 << 20 ? gaudi::os::format("{} MiB", bytes >> 20)
                              : gaudi::os::format("{} KiB", bytes >> 10);
}

/// Says on a terminal what is going on; in a pipe or a log it would be noise.
class Progress {
public:
    explicit Progress(const Exchange &what) {
        if (m_terminal)
            gaudi::os::print(stderr, "{} of {}, {} ...", what.name, size_text(what.size), what.over);
    }
    ~Progress() {
        if (m_terminal)
            gaudi::os::print(stderr, "\r\033[K");
    }
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

private:
    const bool m_terminal = isatty(STDERR_FILENO) == 1;
};

/// On the virtual clock; both 0 without one.
struct Span {
    std::uint64_t begin = 0, end = 0;
};

Span exchange(Side &side, bool first, const Exchange &what, Memory &memory, const Place &peer) {
    Span span;
    span.begin = span.end = read_virtual_clock();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory.handle();
    if (what.way == Way::tag) {
        side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), what.size, 1, &param)
                          : ucp_tag_recv_nbx(side.worker(), memory.data(), what.size, 1, ~0ull, &param),
                    what.name);
        span.end = read_virtual_clock();
    } else if (first) {
        const RemoteKey key = unpack_key(side.peer(), peer.key);
        side.finish(what.way == Way::put
                        ? ucp_put_nbx(side.peer(), memory.data(), what.size, peer.address, key.get(), &param)
                        : ucp_get_nbx(side.peer(), memory.data(), what.size, peer.address, key.get(), &param),
                    what.name);
        side.flush(side.peer());
        span.end = read_virtual_clock();
    }
    side.meet();
    return span;
}

/// Runs one of the two processes. It notifies `reporter` before and after the exchange, and waits for the answer. With
/// `warm_up` an exchange before that connects the two and registers their memory, so that only the transfer takes time.
int run_side(int other, int reporter, bool first, const Exchange &what, bool warm_up) {
    try {
        setenv("UCX_TLS", what.transports, 1);
        if (!what.zero_copy)
            setenv("UCX_IB_GPU_DIRECT_RDMA", "n", 1);
        Pipe pipe(other), report(reporter);
        Side side(pipe, {});
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, what.size);
        const std::vector<char> bytes = pattern(what.size, 1);
        const bool has_it = first != (what.way == Way::get);
        memory.write(has_it ? bytes : std::vector<char>(what.size));
        const Place peer = side.trade(memory.place());
        if (warm_up) {
            exchange(side, first, what, memory, peer);
            if (!has_it)
                memory.write(
                    std::vector<char>(what.size)); // so that the bytes of the second exchange are seen to arrive
            side.meet();
        }
        report.meet([] { return false; });
        const Span span = exchange(side, first, what, memory, peer);
        report.meet([] { return false; });
        report.send_number(span.begin);
        report.send_number(span.end);
        const bool good = memory.read(what.size) == bytes;
        side.meet();
        return good ? 0 : 3;
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
}

/// Runs both processes.
Outcome run(const Exchange &what, const Stats &stats) {
    const Progress progress(what);
    std::array<int, 2> between{};
    std::array<std::array<int, 2>, 2> reports{};
    for (auto *ends : {between.data(), reports[0].data(), reports[1].data()})
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw Failure("cannot create a socket pair");
    std::array<pid_t, 2> sides{};
    for (unsigned i = 0; i < 2; ++i) {
        sides[i] = fork();
        if (sides[i] == 0) {
            close(between[1 - i]);
            for (auto &report : reports)
                close(report[0]);
            _exit(run_side(between[i], reports[i][1], i == 0, what, stats.hcas != nullptr));
        }
    }
    for (const int end : {between[0], between[1], reports[0][1], reports[1][1]})
        close(end);
    Outcome outcome{.good = true, .moved = {}};
    try {
        Pipe first(reports[0][0]), second(reports[1][0]);
        first.receive(); // both sides are ready and idle
        second.receive();
        const Moved before = Moved::so_far(stats.cards, stats.hcas);
        for (Pipe *side : {&first, &second})
            side->send({'g'});
        first.receive();
        second.receive();
        outcome.moved = Moved::so_far(stats.cards, stats.hcas) - before;
        const bool has_clock = outcome.moved.clock_ns != 0;
        for (Pipe *side : {&first, &second})
            side->send({'e'});
        Span longest{.begin = UINT64_MAX, .end = 0};
        for (Pipe *side : {&first, &second}) {
            longest.begin = std::min(longest.begin, side->receive_number());
            longest.end = std::max(longest.end, side->receive_number());
        }
        // Measured by the sides themselves: both go on polling, and move the clock, until the counters are read.
        outcome.moved.clock_ns = has_clock ? longest.end - longest.begin : 0;
    } catch (const Failure &) {
        outcome.good = false; // the failed side has printed the reason
    }
    for (unsigned i = 0; i < 2; ++i) {
        close(reports[i][0]);
        int status = 0;
        waitpid(sides[i], &status, 0);
        outcome.good = outcome.good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return outcome;
}

/// What was measured, for `ucx_gaudi demo --json`.
nlohmann::ordered_json describe(const Exchange &what, const Outcome &outcome) {
    constexpr const char *kOperations[] = {"send_receive", "put", "get"};
    const Moved &moved = outcome.moved;
    nlohmann::ordered_json row = {
        {"operation", kOperations[static_cast<unsigned>(what.way)]},
        {"bytes", what.size},
        {"transports", what.transports},
        {"zero_copy", outcome.good && moved.staged() == 0},
        {"card_to_host_bytes", moved.up},
        {"host_to_card_bytes", moved.down},
        {"within_cards_bytes", moved.within},
        {"virtual_time_ns", nullptr},
        {"correct", outcome.good},
    };
    if (moved.clock_ns != 0)
        row["virtual_time_ns"] = moved.clock_ns;
    return row;
}

const char *verdict(bool good) { return good ? "every byte arrived" : "FAILED"; }

/// Prints all exchanges as JSON. Returns whether every byte arrived by the expected path.
bool print_json(std::span<const Exchange> exchanges, const Stats &stats, bool rdma) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    bool good = true;
    for (const Exchange &what : exchanges) {
        const Outcome outcome = run(what, stats);
        rows.push_back(describe(what, outcome));
        good = good && outcome.good && (!rdma || (outcome.moved.staged() == 0) == what.zero_copy);
    }
    gaudi::os::print(stdout, "{}\n", rows.dump());
    return good;
}

/// Within the machine. Returns whether every byte arrived.
bool show_within(const Stats &stats) {
    gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}\n", "two processes", "bytes", "over",
                     "card to host", "host to card", "within cards");
    bool good = true;
    for (const Exchange &what : kWithin) {
        const Outcome outcome = run(what, stats);
        gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}  {}\n", what.name, size_text(what.size),
                         what.over, size_text(outcome.moved.up), size_text(outcome.moved.down),
                         size_text(outcome.moved.within), verdict(outcome.good));
        std::fflush(stdout);
        good = good && outcome.good;
    }
    return good;
}

/// The path of the bytes, by the counters of the HCAs.
const char *path(const Moved &moved) {
    return moved.direct >= 2 * kLarge ? "card -> HCA -> HCA -> card"
           : moved.direct == 0        ? "card -> host memory -> HCA -> HCA -> host memory -> card"
                                      : "partly through host memory";
}

std::string time_text(const Moved &moved) {
    return moved.clock_ns == 0 ? "-" : gaudi::os::format("{:.2f} ms", static_cast<double>(moved.clock_ns) / 1e6);
}

/// The line that matters: what zero copy saves.
void print_headline(const Moved &direct, const Moved &staged) {
    gaudi::os::print(stdout,
                     "put of {} from card to card over RDMA: {} bytes through host memory; without zero copy {}",
                     size_text(kLarge), grouped(direct.staged()), grouped(staged.staged()));
    if (direct.clock_ns != 0)
        gaudi::os::print(stdout, ", {:.1f} times as slow on the virtual clock",
                         static_cast<double>(staged.clock_ns) / static_cast<double>(direct.clock_ns));
    gaudi::os::print(stdout, "\n\n    zero copy: {}\n    staged:    {}\n\n", path(direct), path(staged));
}

void print_rdma(const Exchange &what, const Outcome &outcome) {
    gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>13} B {:>18}  {}\n", what.name, size_text(what.size), what.over,
                     grouped(outcome.moved.staged()), time_text(outcome.moved), verdict(outcome.good));
    std::fflush(stdout);
}

/// Over RDMA devices. Returns whether every byte arrived by the expected path.
bool show_rdma(const Stats &stats) {
    const Outcome direct = run(kRdma[0], stats), staged = run(kRdma[1], stats);
    if (direct.good && staged.good)
        print_headline(direct.moved, staged.moved);
    gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>15} {:>18}\n", "over RDMA", "bytes", "path", "through host",
                     "virtual time");
    bool good = true;
    for (const Exchange &what : kRdma) {
        const Outcome outcome = &what == &kRdma[0] ? direct : &what == &kRdma[1] ? staged : run(what, stats);
        print_rdma(what, outcome);
        const bool through_host = outcome.moved.staged() != 0;
        good = good && outcome.good && through_host != what.zero_copy;
    }
    return good;
}

} // namespace

int main(int argc, char **argv) {
    std::vector<std::string_view> words(argv + 1, argv + argc);
    const bool json = !words.empty() && words[0] == "--json";
    if (json)
        words.erase(words.begin());
    const bool rdma = words.size() == 3 && words[0] == "--rdma";
    const bool within = words.size() == 1 ? !words[0].starts_with("-") : words.empty() && !json; // JSON has the counts
    if (!rdma && !within) {
        gaudi::os::print(stderr, "usage: ucp_exchange [[--json] STAT] | [--json] --rdma STAT HCA-STAT\n");
        return 2;
    }
    Stats stats;
    if (!words.empty())
        stats.cards = words[rdma ? 1 : 0].data();
    if (rdma)
        stats.hcas = words[2].data();
    try {
        if (json)
            return print_json(rdma ? std::span<const Exchange>(kRdma) : kWithin, stats, rdma) ? 0 : 1;
        return (rdma ? show_rdma(stats) : show_within(stats)) ? 0 : 1;
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
}
