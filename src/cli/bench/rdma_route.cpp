// SPDX-License-Identifier: BSD-3-Clause
#include "rdma_route.h"

#include "cli/verify/bench.h"

#include <cstring>
#include <utility>

namespace gaudi::cli::bench {
namespace {

using Pieces = verify::RdmaLoopback::Pieces;

/// One transfer, of a length that the caller keeps below 4 GiB.
Pieces one_piece(bool write, std::uint64_t remote_offset, std::uint64_t length) {
    return {.write = write, .remote_offset = remote_offset, .size = static_cast<std::uint32_t>(length)};
}

} // namespace

OrSentence<std::unique_ptr<Route>> RdmaRoute::make(Cards &cards, RdmaKind kind, Card &card, Card *source,
                                                   const std::string &nic, std::uint64_t length) {
    std::unique_ptr<RdmaRoute> route(new RdmaRoute(kind));
    auto host = HostBuffer::make(cards, length);
    auto device = DeviceBuffer::make(cards, card, length);
    if (!host || !device)
        return Sentence(!host ? host.error() : device.error());
    route->m_host = std::move(*host);
    route->m_device = std::move(*device);
    auto exported = route->m_device->export_block();
    if (!exported)
        return Sentence(exported.error());
    route->m_device_offset = exported->offset;
    const auto connect = [&](std::unique_ptr<verify::RdmaLoopback> &loopback, const DeviceBuffer::Export &remote) {
        auto opened = verify::RdmaLoopback::open(nic);
        if (!opened)
            return OrSentence<void>(Sentence(opened.error()));
        loopback = std::move(*opened);
        return loopback->register_dmabuf(remote.dmabuf.get(), remote.offset + length);
    };
    auto ready = connect(route->m_nic, *exported);
    if (ready && kind != RdmaKind::write_between_cards)
        ready = route->m_nic->register_host(route->m_host->data(), length);
    if (ready && kind == RdmaKind::write_between_cards) {
        auto from = DeviceBuffer::make(cards, *source, length);
        if (!from)
            return Sentence(from.error());
        route->m_source = std::move(*from);
        auto block = route->m_source->export_block();
        if (!block)
            return Sentence(block.error());
        route->m_source_offset = block->offset;
        ready = route->m_nic->register_local_dmabuf(block->dmabuf.get(), block->offset + length);
        if (ready)
            ready = connect(route->m_feeder, *block);
        if (ready)
            ready = route->m_feeder->register_host(route->m_host->data(), length);
        if (ready)
            ready = connect(route->m_reader, *exported);
        if (ready)
            ready = route->m_reader->register_host(route->m_host->data(), length);
    }
    if (!ready)
        return Sentence(ready.error());
    return route;
}

OrSentence<void> RdmaRoute::transfer(std::uint64_t size, std::uint64_t count) {
    return m_nic->transfer({.write = m_kind != RdmaKind::read,
                            .local_offset = m_source_offset,
                            .remote_offset = m_device_offset,
                            .size = static_cast<std::uint32_t>(size),
                            .count = count});
}

OrSentence<void> RdmaRoute::fill(std::uint64_t length, std::uint32_t seed) {
    verify::fill(m_host->data(), length, seed);
    if (m_kind == RdmaKind::write)
        return {};
    const bool between = m_kind == RdmaKind::write_between_cards;
    auto written =
        (between ? m_feeder : m_nic)->transfer(one_piece(true, between ? m_source_offset : m_device_offset, length));
    std::memset(m_host->data(), 0, length); // the host memory is where the data are looked for afterwards
    return written;
}

OrSentence<bool> RdmaRoute::check(std::uint64_t length, std::uint32_t seed) {
    if (m_kind != RdmaKind::read) {
        std::memset(m_host->data(), 0, length);
        const auto read = (m_reader ? m_reader : m_nic)->transfer(one_piece(false, m_device_offset, length));
        if (!read)
            return Sentence(read.error());
    }
    return verify::is_filled(m_host->data(), length, seed);
}

} // namespace gaudi::cli::bench
