// SPDX-License-Identifier: BSD-3-Clause
// What a program would write that knows nothing but libhl-thunk: a card of its own, memory mapped once, packets into a
// command buffer, a submission, and a look at the completion flag that the card writes. Nothing else happens here:
// it is the baseline for gaudi_cpy.
#pragma once

#include "thunk/owners.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bench {

/// Anonymous memory of whole pages, unmapped at the end.
class Pages {
public:
    explicit Pages(std::size_t size);
    ~Pages();
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    char *data() const { return m_data; }
    std::size_t size() const { return m_size; }

private:
    std::size_t m_size;
    char *m_data;
};

class Bare {
public:
    /// Opens a free card; `size` bytes of host and of card memory to copy between.
    explicit Bare(std::size_t size);

    const std::string &bus_id() const { return m_bus_id; }

    /// `count` copies of `size` bytes, `stride` bytes apart, from host to card memory, in so many submissions; returns
    /// when the card has done them all.
    void put(std::size_t size, std::size_t stride, unsigned count, unsigned submissions);

private:
    void submit(std::size_t size, std::size_t stride, unsigned first, unsigned count);
    std::atomic<std::uint32_t> &completion_flag() const;

    gaudi::thunk::DeviceFd m_device; // closed last
    std::string m_bus_id;
    Pages m_host, m_ring;
    gaudi::thunk::Allocation m_allocation;
    gaudi::thunk::Mapping m_card_map, m_host_map, m_ring_map;
    std::uint32_t m_value = 0;
};

} // namespace bench
