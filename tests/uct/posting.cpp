// SPDX-License-Identifier: BSD-3-Clause
// Posts copies of 4 KiB and completes them, 64 at a time, for tests/instructions.py to count instructions.
//
//     posting uct|ucp|list COPIES
#include "uct_side.h"

#include "ucp_side.h"

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kSize = 4096;
constexpr unsigned kBatch = 64;

void copy_through_uct(unsigned copies) {
    uct_side::Domain domain;
    const uct_side::Transport transport(domain);
    const uct_side::Buffer buffer(domain, 2 * kBatch * kSize);
    uct_side::Bytes host(2 * kBatch * kSize, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    uct_rkey_bundle_t key{};
    uct_side::check(uct_rkey_unpack(domain.component(), domain.pack_key(buffer.memh()).data(), &key),
                    "uct_rkey_unpack");
    for (unsigned done = 0; done < copies; done += kBatch) {
        uct_completion_t comp = uct_side::make_completion();
        for (unsigned i = 0; i < kBatch; ++i) {
            const std::size_t offset = 2 * i * kSize; // apart, so that no two are merged
            const uct_iov_t iov{host.data() + offset, kSize, memh, 0, 1};
            const ucs_status_t status =
                uct_ep_put_zcopy(transport.ep(), &iov, 1, buffer.address(offset), key.rkey, &comp);
            if (status != UCS_INPROGRESS)
                throw std::runtime_error("uct_ep_put_zcopy did not start a copy");
            ++comp.count;
        }
        while (comp.count > 1)
            transport.progress();
    }
    uct_rkey_release(domain.component(), &key);
    domain.dereg(memh);
}

/// The same copies as the elements of one list per batch.
void copy_as_lists(unsigned copies) {
    uct_side::Domain domain;
    const uct_side::Transport transport(domain);
    const uct_side::Buffer buffer(domain, 2 * kBatch * kSize);
    uct_side::Bytes host(2 * kBatch * kSize, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    uct_rkey_bundle_t key{};
    uct_side::check(uct_rkey_unpack(domain.component(), domain.pack_key(buffer.memh()).data(), &key),
                    "uct_rkey_unpack");
    std::vector<void *> buffers;
    std::vector<std::uint64_t> addresses;
    for (unsigned i = 0; i < kBatch; ++i) {
        buffers.push_back(host.data() + 2 * i * kSize); // apart, so that no two are merged
        addresses.push_back(buffer.address(2 * i * kSize));
    }
    const std::vector<std::size_t> lengths(kBatch, kSize);
    const std::vector<uct_mem_h> memhs(kBatch, memh);
    const std::vector<uct_rkey_t> keys(kBatch, key.rkey);
    for (unsigned done = 0; done < copies; done += kBatch) {
        uct_completion_t comp = uct_side::make_completion();
        const ucs_status_t status =
            uct_ep_put_sgl_zcopy(transport.ep(), buffers.data(), lengths.data(), memhs.data(), addresses.data(),
                                 keys.data(), nullptr, nullptr, kBatch, &comp);
        if (status != UCS_INPROGRESS)
            throw std::runtime_error("uct_ep_put_sgl_zcopy did not start the copies");
        while (comp.count > 0)
            transport.progress();
    }
    uct_rkey_release(domain.component(), &key);
    domain.dereg(memh);
}

/// Puts on the endpoint to the own worker.
void copy_through_ucp(unsigned copies) {
    e2e::Side side(e2e::kAllFeatures);
    e2e::Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 2 * kBatch * kSize);
    e2e::Memory host(side, UCS_MEMORY_TYPE_HOST, 2 * kBatch * kSize);
    const e2e::RemoteKey key = e2e::unpack_key(side.self(), memory.key());
    for (unsigned done = 0; done < copies; done += kBatch) {
        std::vector<ucs_status_ptr_t> requests;
        for (unsigned i = 0; i < kBatch; ++i) {
            const std::size_t offset = 2 * i * kSize;
            ucp_request_param_t param{};
            param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
            param.memh = host.handle();
            requests.push_back(ucp_put_nbx(side.self(), host.data() + offset, kSize,
                                           reinterpret_cast<std::uint64_t>(memory.data() + offset), key.get(), &param));
        }
        for (ucs_status_ptr_t request : requests)
            side.finish(request, "put");
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::string way = argc == 3 ? argv[1] : "";
    const std::string_view number = argc == 3 ? argv[2] : "";
    unsigned copies = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), copies);
    if ((way != "uct" && way != "ucp" && way != "list") || error != std::errc() ||
        end != number.data() + number.size()) {
        std::fprintf(stderr, "usage: posting uct|ucp|list COPIES\n");
        return 2;
    }
    try {
        way == "uct" ? copy_through_uct(copies) : way == "ucp" ? copy_through_ucp(copies) : copy_as_lists(copies);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "posting: %s\n", failure.what());
        return 1;
    }
    return 0;
}
