// SPDX-License-Identifier: BSD-3-Clause
// The transport gaudi_cpy: copies between host memory and cards, within a card and between cards. It reaches only itself.
#pragma once

#include "config.h"
#include "gaudi/copy/mover.h"
#include "memory_handle.h"
#include "ucx/edge.h"
#include "ucx/host.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace gaudi::uct {

class Ep;

/// A list of copies as UCX passes it, with one value per element in each array. The arrays are valid during the call.
struct CopyList {
    void *const *buffers;
    const std::size_t *lengths;
    const ucx::uct_mem_h *memhs;
    const std::uint64_t *remote_addresses;
    const ucx::uct_rkey_t *rkeys;
    const std::size_t *counts; // of the blocks of an element, or null: one each
    const std::size_t *strides;
    std::size_t count;

    std::size_t blocks(std::size_t element) const { return counts ? counts[element] : 1; }
    std::size_t stride(std::size_t element) const { return strides ? strides[element] : 0; }
};

/// The domain of an interface, as far as the interface needs it.
struct IfaceDomain {
    ucx::uct_md &md;
    const ucx::Host &host;
    Cards &cards;
    bool offers_copies;
};

class Iface : public ucx::uct_base_iface {
public:
    static Result<Iface *> open(const IfaceDomain &domain, ucx::uct_worker_h worker,
                                const ucx::uct_iface_params &params, const IfaceConfig &config);

    // ---- for UCX, through the edge
    void close();
    ucx::ucs_status_t query(ucx::uct_iface_attr *attr);
    ucx::ucs_status_t query_v2(ucx::uct_iface_attr_v2 *attr);
    ucx::ucs_status_t estimate_perf(ucx::uct_perf_attr *attr);
    ucx::ucs_status_t get_address(ucx::uct_iface_addr *address);
    ucx::ucs_status_t get_device_address(ucx::uct_device_addr *) { return ucx::UCS_OK; }
    int is_reachable_v2(const ucx::uct_iface_is_reachable_params *params);
    ucx::ucs_status_t flush(unsigned flags, ucx::uct_completion *comp);
    ucx::ucs_status_t fence(unsigned flags);
    unsigned progress();
    Result<void> event_fd_get(int *fd);
    ucx::ucs_status_t event_arm(unsigned events);
    Result<void> create_ep(const ucx::uct_ep_params *params, ucx::uct_ep_h *ep);
    void failed(const Error &error) const noexcept;

    // ---- for the endpoint
    ucx::ucs_status_t copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range,
                           ucx::uct_completion *comp);
    /// All copies of a list, with one completion: iface_sgl.cpp.
    ucx::ucs_status_t copy_list(const CopyList &list, bool put, ucx::uct_completion *comp);
    ucx::ucs_status_t copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length);
    /// Logs why a copy of these bytes is not allowed with the key.
    ucx::ucs_status_t refuse_key(ucx::uct_rkey_t rkey, std::uint64_t address, std::uint64_t length);
    /// Logs why a copy fails and returns the status.
    ucx::ucs_status_t refuse(ucx::ucs_status_t status, const std::string &sentence);
    ucx::ucs_status_t refuse(const Error &error);
    /// Refuses memory that was registered although the transport cannot reach it.
    ucx::ucs_status_t refuse_unreachable(const void *buffer);

private:
    /// Copies that a flush waits for: those posted since the flush before it.
    struct Epoch {
        unsigned pending = 0;
        std::vector<ucx::uct_completion *> flushes;
    };
    /// One call: a copy, or a list of copies.
    struct Operation {
        Iface *iface;
        Epoch *epoch;
        ucx::uct_completion *comp;
        Operation *next;
        std::size_t copies;       // that have started and not ended
        ucx::ucs_status_t status; // the first failure
    };
    /// A copy behind a fence, which waits for those in front of it.
    struct Held {
        Mover::Operation operation;
        bool fence; // nothing but the fence
    };

    Iface(const IfaceDomain &domain, const IfaceConfig &settings)
        : m_host(domain.host), m_offers_copies(domain.offers_copies), m_config(settings), m_mover(domain.cards) {}
    ~Iface();

    Operation *take_operation(ucx::uct_completion *comp);
    bool start(Operation &operation, const Mover::Operation &copy);
    void start_list(Operation &operation, CopyList list, bool put);
    /// False when the copy is refused; the operation then has the status.
    bool note_posted(Operation &operation, const Result<Mover::Posted> &posted) {
        if (!posted) [[unlikely]]
            operation.status = refuse(posted.error());
        else if (*posted == Mover::Posted::started)
            ++operation.copies;
        return posted.has_value();
    }
    ucx::ucs_status_t finish_call(Operation &operation);
    static void ended(void *user, const Error *error);
    void end_copy(Operation &operation, ucx::ucs_status_t failure);
    ucx::ucs_status_t check_element(const CopyList &list, std::size_t element);
    ucx::ucs_status_t refuse_foreign_memory(const std::string &sentence);
    void end_epochs(ucx::ucs_status_t status);
    bool idle() const { return m_mover.outstanding() == 0 && m_held.empty(); }
    bool is_new(const std::string &sentence);
    void release_held();

    const ucx::Host &m_host;
    const bool m_offers_copies;
    const IfaceConfig m_config;
    Mover m_mover;
    std::uint64_t m_id = 0;
    int m_event = -1;
    std::deque<Epoch> m_epochs{1};
    Epoch *m_open = &m_epochs.back(); // the last one
    std::deque<Held> m_held;
    bool m_closing = false;
    std::vector<std::unique_ptr<Operation>> m_operations;
    Operation *m_free = nullptr;
    ucx::ucs_status_t m_flush_status = ucx::UCS_OK;
    struct Reported {
        std::string sentence;
        std::chrono::steady_clock::time_point last;
    };
    std::deque<Reported> m_reported;
};

class Ep : public ucx::uct_ep {
public:
    explicit Ep(Iface &owner) : uct_ep{&owner.super} {}

    ucx::ucs_status_t put_short(const void *buffer, unsigned length, std::uint64_t remote_address, ucx::uct_rkey_t);
    ucx::ucs_status_t get_short(void *buffer, unsigned length, std::uint64_t remote_address, ucx::uct_rkey_t);
    ucx::ucs_status_t put_zcopy(const ucx::uct_iov *iov, std::size_t count, std::uint64_t remote_address,
                                ucx::uct_rkey_t rkey, ucx::uct_completion *comp);
    ucx::ucs_status_t get_zcopy(const ucx::uct_iov *iov, std::size_t count, std::uint64_t remote_address,
                                ucx::uct_rkey_t rkey, ucx::uct_completion *comp);
    ucx::ucs_status_t put_sgl_zcopy(void *const *buffers, const std::size_t *lengths, const ucx::uct_mem_h *memhs,
                                    const std::uint64_t *remote_addresses, const ucx::uct_rkey_t *rkeys,
                                    const std::size_t *counts, const std::size_t *strides, std::size_t count,
                                    ucx::uct_completion *comp);
    ucx::ucs_status_t get_sgl_zcopy(void *const *buffers, const std::size_t *lengths, const ucx::uct_mem_h *memhs,
                                    const std::uint64_t *remote_addresses, const ucx::uct_rkey_t *rkeys,
                                    const std::size_t *counts, const std::size_t *strides, std::size_t count,
                                    ucx::uct_completion *comp);
    /// The transport always has room, so a request may be tried again at once.
    ucx::ucs_status_t pending_add(ucx::uct_pending_req *, unsigned) { return ucx::UCS_ERR_BUSY; }
    void pending_purge(ucx::uct_pending_purge_callback_t, void *) {}
    ucx::ucs_status_t flush(unsigned flags, ucx::uct_completion *comp) { return interface().flush(flags, comp); }
    ucx::ucs_status_t fence(unsigned flags) { return interface().fence(flags); }
    ucx::ucs_status_t check(unsigned, ucx::uct_completion *) { return ucx::UCS_OK; }
    void destroy();

private:
    Iface &interface() const { return ucx::edge::object<Iface>(iface); }
    ucx::ucs_status_t zcopy(const ucx::uct_iov *iov, std::size_t count, std::uint64_t remote_address,
                            ucx::uct_rkey_t rkey, bool put, ucx::uct_completion *comp);
};

} // namespace gaudi::uct
