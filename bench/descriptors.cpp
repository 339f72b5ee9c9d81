// SPDX-License-Identifier: BSD-3-Clause
// Many small puts through UCP, as a program moves the blocks of a cache: posted one after another, then flushed. It
// runs on any module that has Gaudi memory, so that gaudi_cpy can be compared with a module that does nothing
// (null_module.cpp).
//
//     bench_descriptors COUNT           prints the nanoseconds that COUNT puts of 4 KiB and their flush take
#include "arguments.h"
#include "samples.h"
#include "ucp_side.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace e2e;

constexpr std::size_t kSize = 4096;
constexpr std::size_t kSlots = 8192; // 32 MiB

ucs_status_t wait(const Side &side, ucs_status_ptr_t request) {
    if (!UCS_PTR_IS_PTR(request))
        return UCS_PTR_STATUS(request);
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(side.worker());
    ucp_request_free(request);
    return status;
}

bench::Json measure(std::size_t count) {
    Side side(UCP_FEATURE_RMA);
    const Memory host(side, UCS_MEMORY_TYPE_HOST, kSize * kSlots), card(side, UCS_MEMORY_TYPE_GAUDI, kSize * kSlots);
    const RemoteKey owned = unpack_key(side.self(), card.key());
    ucp_rkey_h key = owned.get();
    ucp_ep_h ep = side.self();
    ucp_request_param_t param{}, none{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = host.handle();
    const auto to = reinterpret_cast<std::uint64_t>(card.data());
    std::vector<ucs_status_ptr_t> requests;
    requests.reserve(count);
    std::size_t waited = 0;
    const auto put = [&](std::size_t puts) {
        requests.clear();
        for (std::size_t i = 0; i < puts; ++i) {
            // Neighbours in time are not neighbours in memory: each is a copy of its own.
            const std::size_t offset = i * 4099 % kSlots * kSize;
            if (ucs_status_ptr_t request = ucp_put_nbx(ep, host.data() + offset, kSize, to + offset, key, &param))
                requests.push_back(request);
        }
        check(wait(side, ucp_ep_flush_nbx(ep, &none)), "flush");
        waited = requests.size();
        for (ucs_status_ptr_t request : requests)
            check(wait(side, request), "put");
    };
    put(count); // connects, maps, and makes the requests that are used again
    // The fastest of as many as fit into a while: others of the machine stay out of one of them.
    double best = 0;
    for (double taken = 0; taken < 100e6;) {
        const double once = bench::nanoseconds([&] { put(count); });
        best = taken == 0 ? once : std::min(best, once);
        taken += once;
    }
    return {{"count", count}, {"size_bytes", kSize}, {"ns", best}, {"requests", waited}};
}

} // namespace

int main(int argc, char **argv) {
    const auto count = argc == 2 ? bench::number(argv[1]) : std::nullopt;
    if (!count)
        return bench::usage("bench_descriptors COUNT, where COUNT is a whole number above 0");
    try {
        std::printf("%s\n", measure(*count).dump().c_str());
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_descriptors: %s\n", error.what());
        return 1;
    }
}
