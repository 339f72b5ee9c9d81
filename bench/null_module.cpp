// SPDX-License-Identifier: BSD-3-Clause
// A UCX module with host memory in place of Gaudi memory, and a transport that does nothing and reports success. It
// advertises the same as gaudi_cpy, so that UCX takes the same path: the time of a program with it is UCX's own share.
//
// With BENCH_NULL_LATER set the transport reports success at the next progress, as one does whose work takes time:
// UCX's share is larger then, because it keeps a request for each operation.
#include "e2e/plain_module.h"

#include <cstdlib>
#include <utility>
#include <vector>

namespace {

using namespace gaudi::ucx;

struct Ep : plain::Ep<Ep> {
    using plain::Ep<Ep>::Ep;

    ucs_status_t put_short(const void *, unsigned, std::uint64_t, uct_rkey_t) { return UCS_OK; }
    ucs_status_t get_short(void *, unsigned, std::uint64_t, uct_rkey_t) { return UCS_OK; }
    ucs_status_t put_zcopy(const uct_iov *, std::size_t, std::uint64_t, uct_rkey_t, uct_completion *comp) {
        return end(comp);
    }
    ucs_status_t get_zcopy(const uct_iov *, std::size_t, std::uint64_t, uct_rkey_t, uct_completion *comp) {
        return end(comp);
    }
    ucs_status_t flush(unsigned flags, uct_completion *comp);

    ucs_status_t end(uct_completion *comp);
};

struct Iface : plain::Iface<Iface, Ep> {
    using plain::Iface<Iface, Ep>::Iface;

    static constexpr ucs_memory_type_t kType = UCS_MEMORY_TYPE_GAUDI;
    // What gaudi_cpy advertises by default (src/uct/config.cpp) for copies from host memory to a card.
    static constexpr double kBandwidth = 24e9, kLatency = 6e-6, kOverhead = 1e-6;

    ucs_status_t estimate_perf(uct_perf_attr *attr) {
        const ucs_status_t status = plain::Iface<Iface, Ep>::estimate_perf(attr);
        if ((attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) != 0 &&
            (attr->operation == UCT_EP_OP_PUT_SHORT || attr->operation == UCT_EP_OP_GET_SHORT)) {
            attr->send_post_overhead = kLatency;
            attr->bandwidth = {0, kBandwidth * 0.95};
            attr->latency = {0, 0};
        }
        return status;
    }
    ucs_status_t flush(unsigned, uct_completion *comp) { return waiting.empty() ? UCS_OK : end(comp); }
    ucs_status_t end(uct_completion *comp) {
        if (!later)
            return UCS_OK;
        if (comp)
            waiting.push_back(comp);
        return UCS_INPROGRESS;
    }
    unsigned progress() {
        if (waiting.empty())
            return 0;
        std::swap(waiting, ending); // a completion may start the next operation
        for (uct_completion *comp : ending)
            if (--comp->count == 0)
                comp->func(comp);
        const auto count = static_cast<unsigned>(ending.size());
        ending.clear();
        return count;
    }

    const bool later = std::getenv("BENCH_NULL_LATER") != nullptr;
    std::vector<uct_completion *> waiting, ending;
};

ucs_status_t Ep::end(uct_completion *comp) { return edge::object<Iface>(iface).end(comp); }
ucs_status_t Ep::flush(unsigned flags, uct_completion *comp) { return edge::object<Iface>(iface).flush(flags, comp); }

struct Md : plain::Md<Md, Iface> {
    using plain::Md<Md, Iface>::Md;

    static constexpr plain::Names kNames{"null", "null_cpy", "NULL_", "NULL_CPY_"};

    ucs_status_t query(uct_md_attr_v2 *attr) {
        const ucs_status_t status = plain::Md<Md, Iface>::query(attr);
        attr->flags |= UCT_MD_FLAG_NEED_MEMH;
        return status;
    }
    static void *map(std::size_t length, int &) {
        return mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
};

} // namespace

extern "C" __attribute__((visibility("protected"))) signed char ucs_module_global_init() {
    return plain::start<Md>(__builtin_return_address(0));
}
