// SPDX-License-Identifier: BSD-3-Clause
// Many small puts through UCP, as a program moves the blocks of a cache: posted one after another, then flushed. It
// runs on any module that has Gaudi memory, so that ours can be compared with one that does nothing (null_module.cpp).
//
//     bench_descriptors COUNT           prints the nanoseconds that COUNT puts of 4 KiB and their flush take
#include "samples.h"
#include "ucp_side.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using e2e::check;

constexpr std::size_t kSize = 4096;
constexpr std::size_t kSlots = 8192; // 32 MiB

/// A UCP worker with an endpoint to itself.
class Loopback {
public:
    Loopback() {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA;
        ucp_config_t *config = nullptr;
        check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        const ucs_status_t status = ucp_init(&params, config, &m_context);
        ucp_config_release(config);
        check(status, "ucp_init");
        ucp_worker_params_t worker{};
        worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker.thread_mode = UCS_THREAD_MODE_SINGLE;
        check(ucp_worker_create(m_context, &worker, &m_worker), "ucp_worker_create");
        ucp_address_t *address = nullptr;
        std::size_t length = 0;
        check(ucp_worker_get_address(m_worker, &address, &length), "ucp_worker_get_address");
        ucp_ep_params_t ep{};
        ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        ep.address = address;
        const ucs_status_t connected = ucp_ep_create(m_worker, &ep, &m_ep);
        ucp_worker_release_address(m_worker, address);
        check(connected, "ucp_ep_create");
    }
    ~Loopback() {
        ucp_request_param_t param{};
        wait(ucp_ep_close_nbx(m_ep, &param));
        ucp_worker_destroy(m_worker);
        ucp_cleanup(m_context);
    }
    Loopback(const Loopback &) = delete;
    Loopback &operator=(const Loopback &) = delete;

    ucp_context_h context() const { return m_context; }
    ucp_ep_h ep() const { return m_ep; }

    ucs_status_t wait(ucs_status_ptr_t request) const {
        if (!UCS_PTR_IS_PTR(request))
            return UCS_PTR_STATUS(request);
        ucs_status_t status = UCS_INPROGRESS;
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
            ucp_worker_progress(m_worker);
        ucp_request_free(request);
        return status;
    }

private:
    ucp_context_h m_context = nullptr;
    ucp_worker_h m_worker = nullptr;
    ucp_ep_h m_ep = nullptr;
};

/// Memory that UCX has allocated and registered.
class Memory {
public:
    Memory(const Loopback &side, ucs_memory_type_t type) : m_side(side) {
        ucp_mem_map_params_t params{};
        params.field_mask =
            UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.length = kSize * kSlots;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        params.memory_type = type;
        check(ucp_mem_map(side.context(), &params, &m_handle), "ucp_mem_map");
        ucp_mem_attr_t attr{};
        attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
        check(ucp_mem_query(m_handle, &attr), "ucp_mem_query");
        m_data = static_cast<char *>(attr.address);
    }
    ~Memory() { ucp_mem_unmap(m_side.context(), m_handle); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    char *data() const { return m_data; }
    ucp_mem_h handle() const { return m_handle; }
    ucp_rkey_h key() const {
        void *buffer = nullptr;
        std::size_t length = 0;
        check(ucp_rkey_pack(m_side.context(), m_handle, &buffer, &length), "ucp_rkey_pack");
        ucp_rkey_h key = nullptr;
        const ucs_status_t status = ucp_ep_rkey_unpack(m_side.ep(), buffer, &key);
        ucp_rkey_buffer_release(buffer);
        check(status, "ucp_ep_rkey_unpack");
        return key;
    }

private:
    const Loopback &m_side;
    ucp_mem_h m_handle = nullptr;
    char *m_data = nullptr;
};

bench::Json measure(std::size_t count) {
    const Loopback side;
    const Memory host(side, UCS_MEMORY_TYPE_HOST), card(side, UCS_MEMORY_TYPE_GAUDI);
    ucp_rkey_h key = card.key();
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
            if (ucs_status_ptr_t request =
                    ucp_put_nbx(side.ep(), host.data() + offset, kSize, to + offset, key, &param))
                requests.push_back(request);
        }
        check(side.wait(ucp_ep_flush_nbx(side.ep(), &none)), "flush");
        waited = requests.size();
        for (ucs_status_ptr_t request : requests)
            check(side.wait(request), "put");
    };
    put(count); // connects, maps, and makes the requests that are used again
    // The fastest of as many as fit into a while: others of the machine stay out of one of them.
    double best = 0;
    for (double taken = 0; taken < 100e6;) {
        const double once = bench::nanoseconds([&] { put(count); });
        best = taken == 0 ? once : std::min(best, once);
        taken += once;
    }
    ucp_rkey_destroy(key);
    return {{"count", count}, {"size_bytes", kSize}, {"ns", best}, {"requests", waited}};
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: bench_descriptors COUNT\n");
        return 2;
    }
    try {
        std::printf("%s\n", measure(std::stoul(argv[1])).dump().c_str());
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_descriptors: %s\n", error.what());
        return 1;
    }
}
