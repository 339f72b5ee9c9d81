// SPDX-License-Identifier: BSD-3-Clause
// The objects behind the program's pointers: each starts with the structure of libibverbs. An object belongs to one
// process; the entries in the shared tables hold what other processes need.
#pragma once

#include "fabric.h"
#include "os/mutex.h"

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

namespace softhca {

class Hca;

struct Device {
    ibv_device verbs;
    std::array<char, 1024> provider; // zeroes, where libraries of real devices expect their own data
    unsigned index;
};

struct Context {
    verbs_context verbs;
    std::array<char, 1024> provider; // zeroes, as above
    Hca *hca;
    unsigned device;
    uint32_t id;

    static Context &of(ibv_context *context) { return *reinterpret_cast<Context *>(verbs_get_ctx(context)); }
};

struct Pd {
    ibv_pd verbs;
    uint32_t id;
    std::atomic<int> users;

    static Pd &of(ibv_pd *pd) { return *reinterpret_cast<Pd *>(pd); }
};

struct Mr {
    ibv_mr verbs;
    MrEntry *entry;
    std::shared_ptr<const File> descriptor; // duplicate of a dma-buf's descriptor, shared by its regions

    static Mr &of(ibv_mr *mr) { return *reinterpret_cast<Mr *>(mr); }
};

struct Ah {
    ibv_ah verbs;
    ibv_ah_attr attr;

    static Ah &of(ibv_ah *ah) { return *reinterpret_cast<Ah *>(ah); }
};

struct Channel {
    ibv_comp_channel verbs;
    ChannelEntry *entry;
    uint32_t id;

    static Channel &of(ibv_comp_channel *channel) { return *reinterpret_cast<Channel *>(channel); }
};

/// Counts events that were delivered and not yet acknowledged; destruction of the object waits for them.
class Unacknowledged {
public:
    void delivered() {
        const gaudi::os::MutexLock lock(m_mutex);
        ++m_count;
    }
    void acknowledged(unsigned count) {
        const gaudi::os::MutexLock lock(m_mutex);
        m_count -= count;
        m_changed.notify_all();
    }
    void wait() {
        const gaudi::os::MutexLock lock(m_mutex);
        while (m_count != 0)
            m_changed.wait(m_mutex);
    }

private:
    gaudi::os::Mutex m_mutex{Rank::events};
    gaudi::os::CondVar m_changed;
    unsigned m_count GAUDI_GUARDED_BY(m_mutex) = 0;
};

struct Cq {
    ibv_cq verbs;
    CqEntry *entry;
    uint32_t id;
    std::atomic<int> users;
    Unacknowledged completion_events, async_events;

    static Cq &of(ibv_cq *cq) { return *reinterpret_cast<Cq *>(cq); }
};

struct Srq {
    ibv_srq verbs;
    SrqEntry *entry;
    uint32_t id;
    std::atomic<int> users;
    Unacknowledged async_events;

    static Srq &of(ibv_srq *srq) { return *reinterpret_cast<Srq *>(srq); }
};

/// One posted send request.
struct Work {
    uint64_t wr_id;
    ibv_wr_opcode opcode;
    unsigned flags;
    uint32_t imm_data;
    uint64_t remote_address, compare_add, swap;
    uint32_t rkey;
    uint32_t lid, qp_num, qkey; // datagrams only
    bool global;
    uint32_t sges;
    std::array<Sge, kMaxSge> sge;
    std::vector<unsigned char> inline_data;
};

struct Qp {
    ibv_qp verbs;
    QpEntry *entry;
    uint32_t id; // also the queue pair number
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    Unacknowledged async_events;

    gaudi::os::Mutex mutex{Rank::send_queue};
    std::deque<Work> work GAUDI_GUARDED_BY(mutex);
    bool listed GAUDI_GUARDED_BY(mutex); // the engine knows that there is work

    uint64_t not_before; // this and the following belong to the engine
    uint32_t rnr_tries, tries;
    uint64_t last_delivery;

    static Qp &of(ibv_qp *qp) { return *reinterpret_cast<Qp *>(qp); }
};

} // namespace softhca
