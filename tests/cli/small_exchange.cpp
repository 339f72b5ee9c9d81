// SPDX-License-Identifier: BSD-3-Clause
// A UCX program: two processes send, put and get Gaudi memory, many pieces at once, and check every byte. It is small enough
// to be run on many kinds of card. It prints "every byte arrived", or the reason why not.
#include "os/format.h"
#include "ucp_side.h"

#include <cstdio>
#include <exception>

namespace {

using namespace e2e;

constexpr std::size_t kPieces = 16;
constexpr std::size_t kMost = 64 << 10; // of a piece

enum class Way { send, put, get };

std::vector<char> bytes_of(std::size_t piece, std::size_t size, unsigned round) {
    return pattern(size, static_cast<unsigned>(round * kPieces + piece + 1));
}

/// All pieces under way at once, on both sides; the second side has them in the end, or the first where it gets them.
void exchange(Side &side, bool first, Way way, std::size_t size, unsigned round, Memory &memory, const Place &peer) {
    const bool has_them = first != (way == Way::get);
    for (std::size_t i = 0; i < kPieces; ++i)
        memory.write(has_them ? bytes_of(i, size, round) : std::vector<char>(size), i * kMost);
    side.meet();
    std::vector<ucs_status_ptr_t> requests;
    const RemoteKey key = unpack_key(side.peer(), peer.key);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory.handle();
    for (std::size_t i = 0; i < kPieces; ++i) {
        char *local = memory.data() + i * kMost;
        const std::uint64_t remote = peer.address + i * kMost;
        if (way == Way::send)
            requests.push_back(first ? ucp_tag_send_nbx(side.peer(), local, size, i, &param)
                                     : ucp_tag_recv_nbx(side.worker(), local, size, i, ~0ull, &param));
        else if (first)
            requests.push_back(way == Way::put ? ucp_put_nbx(side.peer(), local, size, remote, key.get(), &param)
                                               : ucp_get_nbx(side.peer(), local, size, remote, key.get(), &param));
    }
    for (ucs_status_ptr_t request : requests)
        side.finish(request, "exchange");
    side.flush(side.peer());
    side.meet();
    if (!has_them)
        for (std::size_t i = 0; i < kPieces; ++i)
            if (memory.read(size, i * kMost) != bytes_of(i, size, round))
                throw Failure(gaudi::os::format("piece {} of {} bytes arrived with wrong bytes", i, size));
    side.meet();
}

void converse(Pipe &pipe, bool first) {
    Side side(pipe, {});
    Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kPieces * kMost);
    const Place peer = side.trade(memory.place());
    unsigned round = 0;
    for (const Way way : {Way::send, Way::put, Way::get})
        for (const std::size_t size : {std::size_t{8}, std::size_t{4097}, kMost})
            exchange(side, first, way, size, round++, memory, peer);
}

} // namespace

int main() {
    try {
        const Ended ended = run_in_two_processes(converse);
        if (ended.problem.empty() && ended.second_good) {
            gaudi::os::print(stdout, "every byte arrived\n");
            return 0;
        }
        gaudi::os::print(stderr, "small_exchange: {}\n", ended.problem);
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "small_exchange: {}\n", error.what());
    }
    return 1;
}
