// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange Gaudi memory through UCP in several ways, and a table shows the bytes that the cards moved.
//
//     ucp_exchange [STAT]            within the machine. STAT reports the counters of the software server
//                                    (softgaudi_stat); without it, as on real cards, nothing is counted
//     ucp_exchange --rdma STAT HCA   over RDMA devices, with zero copy and without. HCA is softhca_stat
#include "moved.h"
#include "os/format.h"
#include "ucp_side.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace e2e;

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
    {"send and receive", Way::tag, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"put", Way::put, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"get", Way::get, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"send and receive", Way::tag, 64 << 20, "tcp", "tcp,gaudi_cpy"},
    {"put", Way::put, 64 << 20, "tcp", "tcp,gaudi_cpy"},
};
constexpr Exchange kRdma[] = {
    {"put", Way::put, 64 << 20, "RDMA", "rc_v,gaudi_cpy"},
    {"put", Way::put, 64 << 20, "RDMA", "rc_v,gaudi_cpy", false},
    {"send and receive", Way::tag, 64 << 20, "RDMA", "rc_v,gaudi_cpy"},
    {"send and receive", Way::tag, 64 << 20, "RDMA", "rc_v,gaudi_cpy", false},
};

/// Programs that report the counters.
struct Stats {
    const char *cards = nullptr;
    const char *hcas = nullptr;
};

std::string size_text(std::uint64_t bytes) {
    return bytes == 0         ? "-"
           : bytes >= 1 << 20 ? gaudi::os::format("{} MiB", bytes >> 20)
                              : gaudi::os::format("{} KiB", bytes >> 10);
}

void exchange(Side &side, bool first, const Exchange &what, Memory &memory, const Place &peer) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory.handle();
    if (what.way == Way::tag) {
        side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), what.size, 1, &param)
                          : ucp_tag_recv_nbx(side.worker(), memory.data(), what.size, 1, ~0ull, &param),
                    what.name);
    } else if (first) {
        const RemoteKey key = unpack_key(side.peer(), peer.key);
        side.finish(what.way == Way::put
                        ? ucp_put_nbx(side.peer(), memory.data(), what.size, peer.address, key.get(), &param)
                        : ucp_get_nbx(side.peer(), memory.data(), what.size, peer.address, key.get(), &param),
                    what.name);
        side.flush(side.peer());
    }
    side.meet();
}

/// Runs one of the two processes. It notifies `reporter` before and after the exchange, and waits for the answer.
int run_side(int other, int reporter, bool first, const Exchange &what) {
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
        report.meet([] {});
        exchange(side, first, what, memory, peer);
        report.meet([] {});
        const bool good = memory.read(what.size) == bytes;
        side.meet();
        return good ? 0 : 3;
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
}

const char *verdict(bool good) { return good ? "every byte arrived" : "FAILED"; }

void print_within(const Exchange &what, const Moved &moved, bool good) {
    gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}  {}\n", what.name, size_text(what.size),
                     what.over, size_text(moved.up), size_text(moved.down), size_text(moved.within), verdict(good));
}

/// The path of the bytes, by the counters of the HCAs.
const char *path(const Moved &moved, std::size_t size) {
    return moved.direct >= 2 * size ? "card -> HCA -> HCA -> card"
           : moved.direct == 0      ? "card -> host memory -> HCA -> HCA -> host memory -> card"
                                    : "partly through host memory";
}

void print_rdma(const Exchange &what, const Moved &moved, bool good) {
    gaudi::os::print(stdout, "{} of {} over {}, zero copy {}: {}\n    path: {}\n    host-staged bytes: {}\n", what.name,
                     size_text(what.size), what.over,
                     what.zero_copy ? "allowed" : "forbidden (UCX_IB_GPU_DIRECT_RDMA=n)", verdict(good),
                     good ? path(moved, what.size) : "unknown", moved.staged());
}

/// Whether every byte arrived, and over RDMA by the expected path.
bool run(const Exchange &what, const Stats &stats) {
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
            _exit(run_side(between[i], reports[i][1], i == 0, what));
        }
    }
    for (const int end : {between[0], between[1], reports[0][1], reports[1][1]})
        close(end);
    bool good = true;
    Moved moved;
    try {
        Pipe first(reports[0][0]), second(reports[1][0]);
        first.receive(); // both sides are ready and idle
        second.receive();
        const Moved before = Moved::so_far(stats.cards, stats.hcas);
        for (Pipe *side : {&first, &second})
            side->send({'g'});
        first.receive();
        second.receive();
        moved = Moved::so_far(stats.cards, stats.hcas) - before;
        for (Pipe *side : {&first, &second})
            side->send({'e'});
    } catch (const Failure &) {
        good = false; // the failed side has printed the reason
    }
    for (unsigned i = 0; i < 2; ++i) {
        close(reports[i][0]);
        int status = 0;
        waitpid(sides[i], &status, 0);
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    (stats.hcas ? print_rdma : print_within)(what, moved, good);
    std::fflush(stdout);
    const bool staged = moved.staged() != 0;
    return good && (!stats.hcas || staged != what.zero_copy);
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    const bool rdma = words.size() == 3 && words[0] == "--rdma";
    if (!rdma && (words.size() > 1 || (words.size() == 1 && words[0].starts_with("-")))) {
        gaudi::os::print(stderr, "usage: ucp_exchange [STAT] | --rdma STAT HCA-STAT\n");
        return 2;
    }
    const Stats stats = rdma ? Stats{argv[2], argv[3]} : Stats{argc == 2 ? argv[1] : nullptr};
    if (!rdma)
        gaudi::os::print(stdout, "{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}\n", "two processes", "bytes", "over",
                         "card to host", "host to card", "within cards");
    bool good = true;
    try {
        for (const Exchange &what : rdma ? std::span<const Exchange>(kRdma) : std::span<const Exchange>(kWithin))
            good = run(what, stats) && good;
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
    return good ? 0 : 1;
}
