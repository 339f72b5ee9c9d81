// SPDX-License-Identifier: BSD-3-Clause
// UCP in the process of one end: context, worker, the endpoint to the other end, and requests.
#pragma once

#include "peer.h"
#include "ucp_library.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli::explain {

class UcpSide {
public:
    UcpSide(const UcpLibrary &library, const Peer &peer);
    ~UcpSide();
    UcpSide(const UcpSide &) = delete;
    UcpSide &operator=(const UcpSide &) = delete;

    /// Whether this UCX has a memory domain for the memory of cards.
    bool knows_gaudi() const;
    /// To the worker of the other end, or to the own one if this process has both.
    void connect();

    /// Registered for the lifetime of this object.
    ucp_mem *map(void *address, std::uint64_t bytes, ucs_memory_type_t type);
    std::string pack_key(ucp_mem *memory) const;
    /// Valid for the lifetime of this object.
    ucp_rkey *unpack_key(const std::string &key);

    ucp_ep *ep() const { return m_ep; }
    ucp_worker *worker() const { return m_worker; }
    bool progress() { return m_library.ucp_worker_progress(m_worker) != 0; }
    /// UCP's words about the protocol and lanes of a request.
    std::string describe(RequestPointer request) const;
    /// Progresses until the request has ended, and frees it. Fails with its status.
    void finish(RequestPointer request, const char *what);
    void flush();
    void meet() {
        m_peer.meet([this] { return progress(); });
    }

private:
    void check(ucs_status_t status, const char *what) const;

    const UcpLibrary &m_library;
    const Peer &m_peer;
    ucp_context *m_context = nullptr;
    ucp_worker *m_worker = nullptr;
    ucp_ep *m_ep = nullptr;
    std::vector<ucp_mem *> m_mapped;
    std::vector<ucp_rkey *> m_keys;
};

} // namespace gaudi::cli::explain
