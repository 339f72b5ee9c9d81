// SPDX-License-Identifier: BSD-3-Clause
// gaudi_cpy as a program uses it through UCT's own API, with the memory that it copies between: host memory registered
// once, and Gaudi memory of its domain.
#pragma once

#include "bare.h"

#include <uct/api/uct.h>

#include <cstddef>
#include <cstdint>

namespace bench {

void check(ucs_status_t status, const char *what);

class Transport {
public:
    explicit Transport(std::size_t size);
    ~Transport();
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;

    char *host() const { return m_host.data(); }

    /// `count` copies of `size` bytes, `stride` bytes apart; returns when their completions have been called.
    void put(std::size_t size, std::size_t stride, unsigned count);
    void get(std::size_t size, std::size_t stride, unsigned count);

private:
    template <class Post>
    void copy(std::size_t size, std::size_t stride, unsigned count, Post post);
    void open_domain();
    void open_interface();

    Pages m_host;
    uct_md_h m_md = nullptr;
    ucs_async_context_t *m_async = nullptr;
    uct_worker_h m_worker = nullptr;
    uct_iface_h m_iface = nullptr;
    uct_ep_h m_ep = nullptr;
    uct_mem_h m_registered = nullptr;
    uct_allocated_memory_t m_card{};
};

} // namespace bench
