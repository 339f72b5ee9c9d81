// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange Gaudi memory through UCP, in several ways, and a table tells what the cards moved for it.
//
//     ucp_exchange [STAT]     STAT reports the counters of the software server (softgaudi_stat); without it, as on real
//                             cards, nothing is counted
#include "ucp_side.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace e2e;

enum class Way { tag, put, get };

struct Exchange {
    const char *name;
    Way way;
    std::size_t size;
    const char *over;       // for people
    const char *transports; // for UCX
};

constexpr Exchange kExchanges[] = {
    {"send and receive", Way::tag, 4096, "shared memory", "sm,gaudi_cpy"},
    {"send and receive", Way::tag, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"put", Way::put, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"get", Way::get, 64 << 20, "shared memory", "sm,gaudi_cpy"},
    {"send and receive", Way::tag, 64 << 20, "tcp", "tcp,gaudi_cpy"},
    {"put", Way::put, 64 << 20, "tcp", "tcp,gaudi_cpy"},
};

std::string size_text(std::uint64_t bytes) {
    return bytes == 0 ? "-" : bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

/// What all cards of the software server have moved so far.
struct Moved {
    std::uint64_t up = 0, down = 0, within = 0;

    static Moved so_far(const char *program) {
        Moved moved;
        std::FILE *pipe = program ? popen((std::string(program) + " --json").c_str(), "re") : nullptr;
        if (!pipe)
            return moved;
        std::string text;
        std::array<char, 4096> piece{};
        while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
            text.append(piece.data(), got);
        if (pclose(pipe) != 0)
            throw Failure("the counters cannot be read");
        const nlohmann::json report = nlohmann::json::parse(text);
        for (const auto &card : report.at("cards")) {
            moved.up += card.at("up_bytes").get<std::uint64_t>();
            moved.down += card.at("down_bytes").get<std::uint64_t>();
            moved.within += card.at("card_bytes").get<std::uint64_t>();
        }
        return moved;
    }
};

void exchange(Side &side, bool first, const Exchange &what, Memory &memory, const std::vector<char> &peer_key,
              std::uint64_t peer_address) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory.handle();
    if (what.way == Way::tag) {
        side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), what.size, 1, &param)
                          : ucp_tag_recv_nbx(side.worker(), memory.data(), what.size, 1, ~0ull, &param),
                    what.name);
    } else if (first) {
        ucp_rkey_h key = nullptr;
        check(ucp_ep_rkey_unpack(side.peer(), peer_key.data(), &key), "ucp_ep_rkey_unpack");
        side.finish(what.way == Way::put ? ucp_put_nbx(side.peer(), memory.data(), what.size, peer_address, key, &param)
                                         : ucp_get_nbx(side.peer(), memory.data(), what.size, peer_address, key, &param),
                    what.name);
        ucp_request_param_t none{};
        side.finish(ucp_ep_flush_nbx(side.peer(), &none), "flush");
        ucp_rkey_destroy(key);
    }
    side.meet();
}

/// One of the two processes. It tells `reporter` when it is about to begin and when it is done, and waits for a word.
int run_side(int other, int reporter, bool first, const Exchange &what) {
    try {
        setenv("UCX_TLS", what.transports, 1);
        Pipe pipe(other), report(reporter);
        Side side(pipe, {});
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, what.size);
        const std::vector<char> bytes = pattern(what.size, 1);
        const bool has_it = first != (what.way == Way::get);
        memory.write(has_it ? bytes : std::vector<char>(what.size));
        pipe.send(memory.key());
        const std::vector<char> key = pipe.receive();
        const std::string address = std::to_string(reinterpret_cast<std::uint64_t>(memory.data()));
        pipe.send({address.begin(), address.end()});
        const std::vector<char> peer_address = pipe.receive();
        report.meet([] {});
        exchange(side, first, what, memory, key, std::stoull(std::string(peer_address.begin(), peer_address.end())));
        report.meet([] {});
        const bool good = memory.read(what.size) == bytes;
        side.meet();
        return good ? 0 : 3;
    } catch (const std::exception &error) {
        fmt::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
}

/// Whether every byte arrived.
bool run(const Exchange &what, const char *stat) {
    std::array<int, 2> between{};
    std::array<std::array<int, 2>, 2> reports{};
    for (auto *ends : {between.data(), reports[0].data(), reports[1].data()})
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw Failure("no sockets");
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
        first.receive(); // both are ready, and nothing is under way
        second.receive();
        const Moved before = Moved::so_far(stat);
        for (Pipe *side : {&first, &second})
            side->send({'g'});
        first.receive();
        second.receive();
        const Moved after = Moved::so_far(stat);
        moved = {after.up - before.up, after.down - before.down, after.within - before.within};
        for (Pipe *side : {&first, &second})
            side->send({'e'});
    } catch (const Failure &) {
        good = false; // the side that failed has said why
    }
    for (unsigned i = 0; i < 2; ++i) {
        close(reports[i][0]);
        int status = 0;
        waitpid(sides[i], &status, 0);
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    fmt::print("{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}  {}\n", what.name, size_text(what.size), what.over,
               size_text(moved.up), size_text(moved.down), size_text(moved.within),
               good ? "every byte arrived" : "FAILED");
    std::fflush(stdout);
    return good;
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 2) {
        fmt::print(stderr, "usage: ucp_exchange [STAT]\n");
        return 2;
    }
    const char *stat = argc == 2 ? argv[1] : nullptr;
    fmt::print("{:<17} {:>7}  {:<14} {:>12} {:>12} {:>12}\n", "two processes", "bytes", "over", "card to host",
               "host to card", "within cards");
    bool good = true;
    try {
        for (const Exchange &what : kExchanges)
            good = run(what, stat) && good;
    } catch (const std::exception &error) {
        fmt::print(stderr, "ucp_exchange: {}\n", error.what());
        return 1;
    }
    return good ? 0 : 1;
}
