// SPDX-License-Identifier: BSD-3-Clause
// Posts copies of 4 KiB and completes them, 64 at a time, for tests/instructions.py to count instructions.
//
//     posting uct|ucp|list|touching|apart COPIES
//
// touching, apart: through UCT, in turn from thousands of registered ranges, one behind the other or on every other page.
#include "uct_side.h"

#include "ucp_side.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kSize = 4096;
constexpr unsigned kBatch = 64;

/// A piece of host memory, and the registration that it is part of.
struct Source {
    unsigned char *data;
    uct_mem_h memh;
};

/// Puts from the sources in turn.
void copy_through_uct(const uct_side::Domain &domain, const uct_side::Transport &transport,
                      const std::vector<Source> &sources, unsigned copies) {
    const uct_side::Buffer buffer(domain, 2 * kBatch * kSize);
    uct_rkey_bundle_t key{};
    uct_side::check(uct_rkey_unpack(domain.component(), domain.pack_key(buffer.memh()).data(), &key),
                    "uct_rkey_unpack");
    for (unsigned done = 0; done < copies; done += kBatch) {
        uct_completion_t comp = uct_side::make_completion();
        for (unsigned i = 0; i < kBatch; ++i) {
            const std::size_t offset = 2 * i * kSize; // apart, so that no two are merged
            const Source &source = sources[(done + i) % sources.size()];
            const uct_iov_t iov{source.data, kSize, source.memh, 0, 1};
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
}

void copy_from_one_range(unsigned copies) {
    uct_side::Domain domain;
    const uct_side::Transport transport(domain);
    uct_side::Bytes host(2 * kBatch * kSize, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    std::vector<Source> sources;
    for (unsigned i = 0; i < kBatch; ++i)
        sources.push_back({host.data() + 2 * i * kSize, memh});
    copy_through_uct(domain, transport, sources, copies);
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

void copy_from_many_ranges(std::size_t distance, unsigned copies) {
    constexpr std::size_t kRanges = 72 * kBatch;
    uct_side::Domain domain;
    const uct_side::Transport transport(domain);
    uct_side::Bytes host(kRanges * distance + kSize, 1);
    unsigned char *page = host.data() + (kSize - reinterpret_cast<std::uintptr_t>(host.data()) % kSize) % kSize;
    std::vector<Source> sources;
    for (std::size_t i = 0; i < kRanges; ++i)
        sources.push_back({page + i * distance, domain.reg(page + i * distance, kSize)});
    copy_through_uct(domain, transport, sources, 2 * kRanges); // a first small copy is staged, a second maps
    copy_through_uct(domain, transport, sources, copies);
    for (const Source &source : sources)
        domain.dereg(source.memh);
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
    const bool known = way == "uct" || way == "ucp" || way == "list" || way == "touching" || way == "apart";
    if (!known || error != std::errc() || end != number.data() + number.size()) {
        std::fprintf(stderr, "usage: posting uct|ucp|list|touching|apart COPIES\n");
        return 2;
    }
    try {
        if (way == "ucp")
            copy_through_ucp(copies);
        else if (way == "uct")
            copy_from_one_range(copies);
        else if (way == "list")
            copy_as_lists(copies);
        else
            copy_from_many_ranges(way == "touching" ? kSize : 2 * kSize, copies);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "posting: %s\n", failure.what());
        return 1;
    }
    return 0;
}
