// SPDX-License-Identifier: BSD-3-Clause
// Puts between two processes over RDMA devices, with UCP.
//
//     bench_rdma wall ROUNDS            Gaudi memory against host memory, and what registrations cost
//     bench_rdma staged                 zero copy against host memory and against staging in it, on the virtual clock
#include "arguments.h"
#include "samples.h"
#include "ucp_side.h"
#include "virtual_clock.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace e2e;
using bench::Json;

constexpr std::size_t kLargest = 64 << 20;

/// Memory of this side, and for the putting side what it needs to reach the other's.
class Target {
public:
    Target(Side &side, ucs_memory_type_t type, std::size_t size) : m_side(side), m_memory(side, type, size) {
        m_memory.write(std::vector<char>(size, 'x')); // pages that were never written move for nothing
        m_remote = side.trade(m_memory.place());
        m_key = unpack_key(side.peer(), m_remote.key);
    }

    /// So many puts, then a flush.
    void put(std::size_t size, unsigned count) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
        param.memh = m_memory.handle();
        std::vector<ucs_status_ptr_t> requests;
        for (unsigned i = 0; i < count; ++i) {
            const std::size_t offset = std::size_t{i} * size % m_memory.size();
            ucs_status_ptr_t request = ucp_put_nbx(m_side.peer(), m_memory.data() + offset, size,
                                                   m_remote.address + offset, m_key.get(), &param);
            if (request)
                requests.push_back(request);
        }
        m_side.flush(m_side.peer());
        for (ucs_status_ptr_t request : requests)
            m_side.finish(request, "put");
    }

private:
    Side &m_side;
    Memory m_memory;
    Place m_remote;
    RemoteKey m_key;
};

/// Prints what the first side has put into `out`.
int run_pair(const Json &out, const std::function<void(Pipe &, bool first)> &side) {
    const Ended ended = run_in_two_processes(side);
    if (!ended.problem.empty())
        std::fprintf(stderr, "bench_rdma: %s\n", ended.problem.c_str());
    std::printf("%s\n", out.dump().c_str());
    return ended.problem.empty() && ended.second_good ? 0 : 1;
}

// ---- the wall clock -------------------------------------------------------------------------------------------------

/// Microseconds to register ranges for the first time, and to find them registered. The memory is that of
/// another context: the one that allocated it has registered all of it.
Json registration_cost(Side &side, Side &owner, ucs_memory_type_t type) {
    constexpr std::size_t kRange = 1 << 20;
    constexpr unsigned kRanges = 21;
    Memory memory(owner, type, kRange * kRanges);
    memory.write(std::vector<char>(kRange * kRanges, 'x'));
    std::vector<double> first, hit;
    for (unsigned i = 0; i < kRanges; ++i) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = memory.data() + i * kRange;
        params.length = kRange;
        std::array<ucp_mem_h, 2> handles{};
        for (unsigned again = 0; again < 2; ++again)
            (again == 0 ? first : hit)
                .push_back(bench::nanoseconds([&] {
                               check(ucp_mem_map(side.context(), &params, &handles.at(again)), "ucp_mem_map");
                           }) /
                           1000);
        for (ucp_mem_h handle : handles)
            check(ucp_mem_unmap(side.context(), handle), "ucp_mem_unmap");
    }
    return {{"first_us", first}, {"hit_us", hit}};
}

int wall(unsigned rounds) {
    Json out{{"rows", Json::array()}};
    return run_pair(out, [&](Pipe &pipe, bool first) {
        Side side(pipe, {}), owner(pipe, {});
        Target host(side, UCS_MEMORY_TYPE_HOST, kLargest), gaudi(side, UCS_MEMORY_TYPE_GAUDI, kLargest);
        if (!first) {
            side.meet();
            pipe.receive(); // sleeps, so that the other side has the cores
            pipe.send({'e'});
            return;
        }
        for (Target *target : {&host, &gaudi})
            target->put(kLargest, 1);
        side.meet();
        for (std::size_t size = 65536; size <= kLargest; size *= 4) {
            bench::progress("put over RDMA, " + std::to_string(size >> 10) + " KiB");
            const auto count = static_cast<unsigned>(std::max<std::size_t>(1, (32 << 20) / size));
            const auto time = [&](Target &target) {
                return [&, count] { return bench::nanoseconds([&] { target.put(size, count); }) / count; };
            };
            Json row{{"size_bytes", size}};
            row.update(bench::interleave(rounds, time(host), time(gaudi)).json());
            out["rows"].push_back(row);
        }
        bench::progress("registrations");
        out["registration"] = {{"host", registration_cost(side, owner, UCS_MEMORY_TYPE_HOST)},
                               {"gaudi", registration_cost(side, owner, UCS_MEMORY_TYPE_GAUDI)}};
        pipe.send({'e'});
        pipe.receive();
    });
}

// ---- the virtual clock ----------------------------------------------------------------------------------------------

/// Nanoseconds of one put, or of one message until both sides have it, on the virtual clock.
std::uint64_t virtual_time(Side &side, bool first, ucs_memory_type_t type, bool message, std::size_t size) {
    Memory memory(side, type, size);
    memory.write(std::vector<char>(size, 'x'));
    const Place remote = side.trade(memory.place());
    const RemoteKey key = unpack_key(side.peer(), remote.key);
    std::uint64_t taken = 0;
    for (unsigned round = 0; round < 2; ++round) { // the first connects and registers
        side.meet();
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memory.handle();
        const std::uint64_t begin = read_virtual_clock();
        if (message) {
            side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), size, 1, &param)
                              : ucp_tag_recv_nbx(side.worker(), memory.data(), size, 1, ~0ull, &param),
                        "message");
        } else if (first) {
            side.finish(ucp_put_nbx(side.peer(), memory.data(), size, remote.address, key.get(), &param), "put");
            side.flush(side.peer());
        }
        const std::uint64_t end = message || first ? read_virtual_clock() : begin;
        side.meet();
        side.pipe().send_number(end);
        taken = std::max(end, side.pipe().receive_number()) - begin;
    }
    return taken;
}

int staged() {
    Json out{{"rows", Json::array()}};
    return run_pair(out, [&](Pipe &pipe, bool first) {
        setenv("UCX_TLS", "rc_v,gaudi_cpy", 1); // as between two machines: shared memory has no time on that clock
        Side direct(pipe, {});
        setenv("UCX_IB_GPU_DIRECT_RDMA", "n", 1);
        Side through_host(pipe, {});
        for (const bool message : {false, true})
            for (std::size_t size = message ? 65536 : 4096; size <= (message ? 64u << 20 : 4u << 20); size *= 4) {
                if (first)
                    bench::progress(std::string(message ? "message" : "put") + " on the virtual clock, " +
                                    std::to_string(size >> 10) + " KiB");
                const auto time = [&](Side &side, ucs_memory_type_t type) {
                    return virtual_time(side, first, type, message, size);
                };
                const std::uint64_t host = time(direct, UCS_MEMORY_TYPE_HOST);
                const std::uint64_t without = time(direct, UCS_MEMORY_TYPE_GAUDI);
                const std::uint64_t with = time(through_host, UCS_MEMORY_TYPE_GAUDI);
                if (first)
                    out["rows"].push_back({{"what", message ? "message" : "put"},
                                           {"size_bytes", size},
                                           {"host_virtual_ns", host},
                                           {"zero_copy_virtual_ns", without},
                                           {"staged_virtual_ns", with}});
            }
    });
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    const auto rounds = words.size() == 2 && words[0] == "wall" ? bench::number(words[1]) : std::nullopt;
    try {
        if (rounds)
            return wall(*rounds);
        if (words.size() == 1 && words[0] == "staged")
            return staged();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_rdma: %s\n", error.what());
        return 1;
    }
    return bench::usage("bench_rdma wall ROUNDS | staged, where ROUNDS is a whole number above 0");
}
