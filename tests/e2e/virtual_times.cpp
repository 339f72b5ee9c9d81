// SPDX-License-Identifier: BSD-3-Clause
// Prints, as JSON, what puts and copies take on the virtual clock, in nanoseconds: virtual_clock_test.py runs this program
// again and again and compares. The puts are between the cards of two processes, over RDMA devices.
#include "ucp_side.h"
#include "uct_open.h"
#include "virtual_clock.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace e2e;

constexpr std::size_t kSmall = 4 << 10, kMedium = 256 << 10, kLarge = 64 << 20;

enum class Way { put, message };

/// One put and its flush, or one message, after another one that connects and registers.
std::uint64_t time_transfer(Side &side, bool first, Way way, std::size_t size) {
    Memory memory(side, UCS_MEMORY_TYPE_GAUDI, size);
    memory.write(std::vector<char>(size, 'x'));
    const Place remote = side.trade(memory.place());
    const RemoteKey key = unpack_key(side.peer(), remote.key);
    std::uint64_t taken = 0;
    for (unsigned round = 0; round < 2; ++round) {
        side.meet();
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memory.handle();
        const std::uint64_t begin = read_virtual_clock();
        if (way == Way::message) {
            side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), size, 1, &param)
                              : ucp_tag_recv_nbx(side.worker(), memory.data(), size, 1, ~0ull, &param),
                        "message");
        } else if (first) {
            side.finish(ucp_put_nbx(side.peer(), memory.data(), size, remote.address, key.get(), &param), "put");
            side.flush(side.peer());
        }
        taken = read_virtual_clock() - begin;
        side.meet();
    }
    return taken;
}

/// One copy between host and card memory through UCT, after another one.
std::uint64_t time_copy(uct_open::Interface &transport, uct_open::Endpoint &ep, uct_mem_h host_memh, char *host,
                        char *card, bool down, std::size_t size) {
    std::uint64_t taken = 0;
    for (unsigned round = 0; round < 2; ++round) {
        const std::uint64_t begin = read_virtual_clock();
        uct_completion_t completion{};
        completion.func = [](uct_completion_t *) {};
        completion.count = 1;
        const uct_iov_t piece{host, size, host_memh, 0, 1};
        const auto remote = reinterpret_cast<std::uint64_t>(card);
        const ucs_status_t status = down ? uct_ep_put_zcopy(ep.get(), &piece, 1, remote, UCT_INVALID_RKEY, &completion)
                                         : uct_ep_get_zcopy(ep.get(), &piece, 1, remote, UCT_INVALID_RKEY, &completion);
        if (status == UCS_INPROGRESS)
            while (completion.count != 0)
                uct_worker_progress(transport.worker());
        else
            uct_open::check(status, "copy");
        taken = read_virtual_clock() - begin;
    }
    return taken;
}

void time_copies(nlohmann::json &out) {
    const uct_open::Domain domain("gaudi_copy");
    uct_open::Interface transport(domain, "gaudi_cpy", "gaudi");
    uct_open::Endpoint ep = transport.endpoint_to_itself();
    const uct_open::CardMemory card(domain, kLarge);
    std::vector<char> host(kLarge, 'x');
    uct_mem_h memh = nullptr;
    uct_open::check(uct_md_mem_reg(domain.md(), host.data(), host.size(), UCT_MD_MEM_ACCESS_ALL, &memh),
                    "registration");
    for (const std::size_t size : {kSmall, kLarge})
        for (const bool down : {true, false})
            out[std::string(down ? "copy_down_" : "copy_up_") + std::to_string(size)] =
                time_copy(transport, ep, memh, host.data(), card.data(), down, size);
    uct_open::check(uct_md_mem_dereg(domain.md(), memh), "deregistration");
}

} // namespace

int main() {
    nlohmann::json out;
    const Ended ended = run_in_two_processes([&](Pipe &pipe, bool first) {
        setenv("UCX_TLS", "rc_v,gaudi_cpy", 1);
        Side direct(pipe, {});
        setenv("UCX_IB_GPU_DIRECT_RDMA", "n", 1);
        Side through_host(pipe, {});
        for (const bool zero_copy : {true, false}) {
            Side &side = zero_copy ? direct : through_host;
            const std::string name = zero_copy ? "zero_copy_" : "staged_";
            // A staged put is thousands of messages of 8 KiB.
            for (const std::size_t size : {kSmall, zero_copy ? kLarge : kMedium})
                out["put_" + name + std::to_string(size)] = time_transfer(side, first, Way::put, size);
            out["message_" + name + std::to_string(kLarge)] = time_transfer(side, first, Way::message, kLarge);
        }
        if (first)
            time_copies(out);
    });
    if (!ended.problem.empty())
        std::fprintf(stderr, "virtual_times: %s\n", ended.problem.c_str());
    std::printf("%s\n", out.dump().c_str());
    return ended.problem.empty() && ended.second_good ? 0 : 1;
}
