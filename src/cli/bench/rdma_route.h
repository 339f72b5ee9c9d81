// SPDX-License-Identifier: BSD-3-Clause
// Transfers by an RDMA NIC into and out of card memory, whose dma-buf is registered with the NIC.
#pragma once

#include "buffers.h"
#include "cli/verify/rdma_loopback.h"
#include "route.h"

#include <memory>
#include <string>

namespace gaudi::cli::bench {

enum class RdmaKind {
    write, // host memory to a card
    read,  // a card to host memory
    write_between_cards,
};

class RdmaRoute : public Route {
public:
    /// `source`: the card that is written from, for write_between_cards only.
    static OrSentence<std::unique_ptr<Route>> make(Cards &cards, RdmaKind kind, Card &card, Card *source,
                                                   const std::string &nic, std::uint64_t length);
    ~RdmaRoute() override = default;

    unsigned paths() const override { return 1; }
    OrSentence<void> fill(std::uint64_t length, std::uint32_t seed) override;
    OrSentence<void> transfer(std::uint64_t size, std::uint64_t count) override;
    OrSentence<bool> check(std::uint64_t length, std::uint32_t seed) override;

private:
    explicit RdmaRoute(RdmaKind kind) : m_kind(kind) {}

    const RdmaKind m_kind;
    std::unique_ptr<HostBuffer> m_host;
    std::unique_ptr<DeviceBuffer> m_device, m_source;
    std::uint64_t m_device_offset = 0, m_source_offset = 0; // of the buffers in the dma-bufs
    // Between cards, two further connections fill the source from host memory and read the destination into it. They come
    // last: registrations end before the memory does.
    std::unique_ptr<verify::RdmaLoopback> m_nic, m_feeder, m_reader;
};

} // namespace gaudi::cli::bench
