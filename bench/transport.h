// SPDX-License-Identifier: BSD-3-Clause
// gaudi_cpy through the API of UCT, with the memory for its copies: registered host memory and Gaudi memory of its
// domain.
#pragma once

#include "bare.h"
#include "uct_open.h"

#include <cstddef>
#include <cstdint>

namespace bench {

class Transport {
public:
    explicit Transport(std::size_t size);
    ~Transport();
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;

    char *host() const { return m_host.data(); }

    /// Makes `count` copies of `size` bytes, `stride` bytes apart, and waits for their completion callbacks.
    void put(std::size_t size, std::size_t stride, unsigned count);
    void get(std::size_t size, std::size_t stride, unsigned count);

private:
    template <class Post>
    void copy(std::size_t size, std::size_t stride, unsigned count, Post post);

    Pages m_host;
    uct_open::Domain m_domain{"gaudi_copy"};
    uct_open::Interface m_interface{m_domain, "gaudi_cpy", "gaudi"};
    uct_open::Endpoint m_ep = m_interface.endpoint_to_itself();
    uct_open::CardMemory m_card;
    uct_mem_h m_registered = nullptr;
};

} // namespace bench
