// SPDX-License-Identifier: BSD-3-Clause
// Executes one work request on both sides: the initiator's and the responder's HCA. The responder's process takes no
// part, so it may be stopped.
#pragma once

#include "objects.h"
#include "transfer.h"

namespace softhca {

/// A completion and its queue.
struct Notice {
    uint32_t cq;
    Completion completion;
};

struct Outcome {
    enum class Next {
        done,      // with `status`
        not_ready, // no receive was posted: retry after `delay_ns`
        no_answer, // no acknowledgement: retry after the timeout
    };
    Next next = Next::done;
    ibv_wc_status status = IBV_WC_SUCCESS;
    uint64_t delay_ns = 0;
    uint64_t bytes = 0;
    unsigned source = 0;         // device that sent the bytes
    std::vector<Notice> notices; // completions of the responder
    uint32_t failed_qp = 0;      // queue pair of the responder that moves to the error state
    int event = -1;              // asynchronous event for the responder
};

class Requester {
public:
    explicit Requester(Fabric &fabric) : m_fabric(fabric), m_transfer(fabric) {}

    Peers &peers() { return m_transfer.peers(); }

    Outcome perform(const Qp &qp, const Work &work);

private:
    Outcome perform_reliable(const Qp &qp, const Work &work);
    Outcome perform_datagram(const Qp &qp, const Work &work);
    Outcome perform_send(const Qp &qp, const Work &work, const Segments &local, uint32_t peer);
    Outcome perform_rdma(const Qp &qp, const Work &work, const Segments &local, QpEntry &peer);
    Outcome perform_atomic(const Qp &qp, const Work &work, const Segments &local, QpEntry &peer);

    /// Collects the memory of the request; false when a region or its rights do not allow the access.
    bool gather(const Qp &qp, const Work &work, bool write, Segments &out);
    /// Collects the memory of a receive; false as above.
    bool scatter(const Receive &receive, uint32_t device, uint32_t pd, Segments &out);
    bool is_access_allowed(uint32_t key, uint32_t device, uint32_t pd, uint64_t address, uint64_t length,
                           uint32_t access);
    bool is_link_up(uint32_t device) const;

    struct Taken {
        enum class State { taken, no_receive, no_queue_pair } state = State::no_queue_pair;
        Receive receive{};
        uint32_t recv_cq = 0;
        uint32_t device = 0, pd = 0, process = 0;
        uint64_t rnr_ns = 0;
    };
    /// Takes a receive of queue pair `id`, or of its shared receive queue.
    Taken take_receive(uint32_t id);

    Fabric &m_fabric;
    Transfer m_transfer;
};

/// Nanoseconds of the 5-bit timer codes of the IB specification.
uint64_t rnr_timer_ns(uint32_t code);
uint64_t ack_timeout_ns(uint32_t code);

// ---- the addresses of a device's only port
inline uint16_t lid_of(unsigned device) { return static_cast<uint16_t>(0x10 + device); }
uint64_t guid(unsigned device);
ibv_gid gid_of(unsigned device);

} // namespace softhca
