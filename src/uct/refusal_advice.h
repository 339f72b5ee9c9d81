// SPDX-License-Identifier: BSD-3-Clause
// A NIC may answer UCX's probe for dma-bufs well and then refuse to register one. UCX fails the program's call then and
// asks no other module, so the only sign of it is a line in UCX's log. Where that line is about Gaudi memory, one more is
// added, which says what helps.
#pragma once

#include "ucx/host.h"

#include <mutex>

namespace gaudi::uct {

class RefusalAdvice {
public:
    explicit RefusalAdvice(const ucx::Host &host) : m_host(host) {}

    /// Brackets the life of each domain: outside of it UCX's stack of log handlers is as we found it, unless somebody
    /// has put another handler on top of ours meanwhile.
    void begin();
    void end();

private:
    const ucx::Host &m_host;
    std::mutex m_mutex;
    unsigned m_domains = 0;
    unsigned m_depth = 0; // of the stack with our handler on top; 0 while it is not in it
};

} // namespace gaudi::uct
