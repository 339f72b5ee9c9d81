// SPDX-License-Identifier: BSD-3-Clause
// Copies by the cards' own engines, posted to a Mover as the transport gaudi_cpy posts them.
#pragma once

#include "buffers.h"
#include "gaudi/copy/mover.h"
#include "route.h"

#include <memory>
#include <string>
#include <vector>

namespace gaudi::cli::bench {

/// One path. A null card is the host.
struct PathEnds {
    Card *from = nullptr, *to = nullptr;
};

class CopyRoute : public Route {
public:
    static OrSentence<std::unique_ptr<Route>> make(Cards &cards, const std::vector<PathEnds> &paths,
                                                   std::uint64_t length);
    ~CopyRoute() override = default;

    unsigned paths() const override { return static_cast<unsigned>(m_paths.size()); }
    OrSentence<void> fill(std::uint64_t length, std::uint32_t seed) override;
    OrSentence<void> transfer(std::uint64_t size, std::uint64_t count) override;
    OrSentence<bool> check(std::uint64_t length, std::uint32_t seed) override;

private:
    /// One end of a path: one of the two.
    struct Memory {
        std::unique_ptr<HostBuffer> host;
        std::unique_ptr<DeviceBuffer> device;

        std::uint64_t address() const { return host ? host->address() : device->address(); }
    };
    struct Path {
        Memory source, destination;
        HostRange *range = nullptr; // of the end that is host memory
    };

    explicit CopyRoute(Cards &cards) : m_cards(cards), m_mover(cards) {}
    OrSentence<Memory> make_memory(Card *card, std::uint64_t length) const;
    OrSentence<void> post(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range);
    OrSentence<void> finish();

    Cards &m_cards;
    std::unique_ptr<HostBuffer> m_scratch; // what device memory is filled from and compared in
    std::vector<Path> m_paths;
    std::uint64_t m_under_way = 0;
    std::string m_failure; // the first one
    Mover m_mover;         // last: it ends before the memory does
};

} // namespace gaudi::cli::bench
