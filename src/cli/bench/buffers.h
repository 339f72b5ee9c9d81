// SPDX-License-Identifier: BSD-3-Clause
// Memory of a benchmark: on the host, registered with the cards as UCX registers it, and on a card.
#pragma once

#include "cli/sentence.h"
#include "gaudi/card/cards.h"
#include "gaudi/host/host_range.h"
#include "thunk/fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gaudi::cli::bench {

class HostBuffer {
public:
    static OrSentence<std::unique_ptr<HostBuffer>> make(const Cards &cards, std::uint64_t length);
    ~HostBuffer();
    HostBuffer(const HostBuffer &) = delete;
    HostBuffer &operator=(const HostBuffer &) = delete;

    std::byte *data() const { return m_data; }
    std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(m_data); }
    std::uint64_t length() const { return m_length; }
    HostRange &range() { return *m_range; }

private:
    HostBuffer(std::byte *data, std::uint64_t length) : m_data(data), m_length(length) {}

    std::byte *m_data;
    std::uint64_t m_length;
    std::unique_ptr<HostRange> m_range;
};

class DeviceBuffer {
public:
    static OrSentence<std::unique_ptr<DeviceBuffer>> make(Cards &cards, Card &card, std::uint64_t length);
    ~DeviceBuffer();
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;

    std::uint64_t address() const { return m_address; }
    /// The dma-buf of the block that holds the buffer, as UCX gets it.
    struct Export {
        thunk::Fd dmabuf;
        std::uint64_t offset = 0; // of the buffer in it
    };
    OrSentence<Export> export_block() const;

private:
    DeviceBuffer(Cards &cards, std::uint64_t address) : m_cards(cards), m_address(address) {}

    Cards &m_cards;
    std::uint64_t m_address;
};

} // namespace gaudi::cli::bench
