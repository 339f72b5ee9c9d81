// SPDX-License-Identifier: BSD-3-Clause
#include "iface.h"

#include "gaudi/card/settings.h"
#include "gaudi/card/verification_record.h"
#include "gaudi/counters/counter_page.h"
#include "os/format.h"
#include "ucx/log.h"
#include "unpacked_key.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace gaudi::uct {

using namespace ucx;

namespace {

constexpr auto kCloseLimit = std::chrono::seconds(10);

// Sentences of failed copies that are remembered, and how long a cause must not have come before it is logged again.
constexpr std::size_t kRemembered = 16;
constexpr auto kSilence = std::chrono::seconds(10);

void complete(uct_completion *comp, ucs_status_t status) {
    if (!comp)
        return;
    if (status != UCS_OK && comp->status == UCS_OK)
        comp->status = status;
    if (--comp->count == 0)
        comp->func(comp);
}

/// The table of this UCX, made once and never freed: interfaces point to it.
uct_iface_internal_ops *internal_ops_of(const Host &host) {
    using Tables = std::vector<std::pair<const Host *, std::unique_ptr<uct_iface_internal_ops>>>;
    static constinit os::Mutex mutex{rank::kInterfaceTables};
    static Tables *tables = nullptr;
    const os::MutexLock lock(mutex);
    if (!tables)
        tables = new Tables;
    for (const auto &[known, table] : *tables)
        if (known == &host)
            return table.get();
    tables->emplace_back(&host, std::make_unique<uct_iface_internal_ops>(make_iface_internal_ops<Iface, Ep>(host)));
    return tables->back().second.get();
}

/// For all interfaces of the process: driver counts before flag, and both before auto.
void set_completion(const IfaceDomain &domain, unsigned completion) {
    change_settings([&](Settings &settings) {
        if (completion == kByDriver)
            settings.completion = CompletionMode::driver;
        else if (completion != kByRecord && settings.completion == CompletionMode::automatic)
            settings.completion = CompletionMode::flag;
    });
    static std::atomic<bool> said{false};
    if (completion != kByRecord || !domain.host.log_enabled(UCS_LOG_LEVEL_DIAG) || said.exchange(true))
        return;
    std::set<std::string> sentences; // a file is ignored for all cards alike
    for (const auto &card : domain.cards.all())
        for (std::string &ignored : find_records(card->library(), card->versions()).ignored)
            sentences.insert(std::move(ignored));
    for (const std::string &sentence : sentences)
        GAUDI_UCX_LOG(domain.host, DIAG, "%s", sentence.c_str());
}

} // namespace

Result<Iface *> Iface::open(const IfaceDomain &domain, uct_worker_h worker, const uct_iface_params &params,
                            const IfaceConfig &config) {
    const Host &host = domain.host;
    set_completion(domain, config.completion);
    std::unique_ptr<Iface, void (*)(Iface *)> iface(new Iface(domain, config), [](Iface *made) { delete made; });
    if (getrandom(&iface->m_id, sizeof iface->m_id, 0) != sizeof iface->m_id)
        return tl::unexpected(Error{errno, "iface_open",
                                    os::format("cannot open gaudi_cpy: getrandom failed: {}", std::strerror(errno))});
    // Tables are per UCX, because some slots hold functions of that UCX.
    auto ops = make_iface_ops<Iface, Ep>(host);
    uct_iface_internal_ops *internal_ops = internal_ops_of(host);
    int count = 1;
    const ucs_status_t status =
        host.call().uct_base_iface_t_init(iface.get(), host.call().uct_base_iface_t_class, &count, &ops, internal_ops,
                                          &domain.md, worker, &params, &iface->m_config.super);
    if (status != UCS_OK)
        return tl::unexpected(Error{EIO, "iface_open",
                                    os::format("cannot open gaudi_cpy: uct_base_iface_t_init failed: {}",
                                               host.call().ucs_status_string(status))});
    return iface.release();
}

Iface::~Iface() {
    m_mover.settle();
    if (m_event >= 0)
        ::close(m_event);
}

void Iface::close() {
    // Copies write to memory that its owner will free, so all must end here. Their users are gone.
    m_closing = true;
    m_held.clear();
    m_mover.abandon();
    const auto limit = std::chrono::steady_clock::now() + kCloseLimit;
    while (m_mover.outstanding() != 0 && std::chrono::steady_clock::now() < limit)
        m_mover.progress();
    const Host &host = m_host;
    host.call().uct_base_iface_progress_disable(&super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    host.call().ucs_class_call_cleanup_chain(host.call().uct_base_iface_t_class, this, -1);
    if (m_mover.outstanding() == 0)
        delete this;
    else // the engine hands their ends to the mover yet
        GAUDI_UCX_LOG(host, WARN, "%u copies do not end, so the memory of their interface is not freed",
                      m_mover.outstanding());
}

void Iface::failed(const Error &error) const noexcept { GAUDI_UCX_LOG(m_host, ERROR, "%s", error.text.c_str()); }

// ---- what it can do -------------------------------------------------------------------------------------------------

ucs_status_t Iface::query(uct_iface_attr *attr) {
    m_host.call().uct_base_iface_query(this, attr);
    attr->iface_addr_len = sizeof m_id;
    attr->device_addr_len = 0;
    attr->ep_addr_len = 0;
    attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE;
    attr->overhead = m_config.overhead;
    attr->latency = {m_config.latency, 0};
    attr->bandwidth = {0, 0.0001e6}; // UCP takes no interface without any: the least for one without a copy path
    attr->priority = 0;
    if (!m_offers_copies)
        return UCS_OK;
    attr->cap.flags |= UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_PUT_ZCOPY |
                       UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING;
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;
    for (uct_iface_rma_limits *limits : {&attr->cap.put, &attr->cap.get}) {
        limits->max_short = UINT_MAX;
        limits->max_bcopy = 0;
        limits->min_zcopy = 0;
        limits->max_zcopy = SIZE_MAX;
        limits->opt_zcopy_align = 1;
        limits->align_mtu = 1;
        limits->max_iov = 1;
    }
    attr->bandwidth = {0, m_config.bandwidth.down};
    return UCS_OK;
}

ucs_status_t Iface::estimate_perf(uct_perf_attr *attr) {
    const std::uint64_t mask = attr->field_mask;
    const auto given = [&](std::uint64_t field) { return (mask & field) != 0; };
    const bool typed = given(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE) && given(UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE);
    const ucs_memory_type_t local = typed ? attr->local_memory_type : UCS_MEMORY_TYPE_HOST;
    const ucs_memory_type_t remote = typed ? attr->remote_memory_type : UCS_MEMORY_TYPE_GAUDI;
    // Host to host and other vendors' memory is not supported, and UCP must not plan with it.
    if (typed && local == UCS_MEMORY_TYPE_HOST && remote == UCS_MEMORY_TYPE_HOST)
        return UCS_ERR_UNSUPPORTED;
    for (const ucs_memory_type_t type : {local, remote})
        if (type != UCS_MEMORY_TYPE_HOST && type != UCS_MEMORY_TYPE_GAUDI)
            return UCS_ERR_UNSUPPORTED;
    if (!m_offers_copies)
        return UCS_ERR_UNSUPPORTED;

    bool fetches = false, is_short = false;
    if (given(UCT_PERF_ATTR_FIELD_OPERATION)) {
        const uct_ep_operation_t operation = attr->operation;
        fetches =
            operation == UCT_EP_OP_GET_SHORT || operation == UCT_EP_OP_GET_BCOPY || operation == UCT_EP_OP_GET_ZCOPY;
        is_short = operation == UCT_EP_OP_GET_SHORT || operation == UCT_EP_OP_PUT_SHORT;
    }
    const ucs_memory_type_t source = fetches ? remote : local;
    const ucs_memory_type_t destination = fetches ? local : remote;
    const bool two_cards =
        given(UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE) && given(UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE) &&
        attr->local_sys_device != UCS_SYS_DEVICE_ID_UNKNOWN && attr->remote_sys_device != UCS_SYS_DEVICE_ID_UNKNOWN &&
        attr->local_sys_device != attr->remote_sys_device;
    const auto &rates = m_config.bandwidth;
    const double bandwidth = source != destination ? (source == UCS_MEMORY_TYPE_HOST ? rates.down : rates.up)
                             : two_cards           ? std::min(rates.down, rates.up) // over both links at once
                                                   : rates.on_card;
    if (given(UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD))
        attr->send_pre_overhead = m_config.overhead;
    if (given(UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD))
        attr->send_post_overhead = is_short ? m_config.latency : 0; // a short copy waits for its end
    if (given(UCT_PERF_ATTR_FIELD_RECV_OVERHEAD))
        attr->recv_overhead = 0;
    if (given(UCT_PERF_ATTR_FIELD_BANDWIDTH))
        attr->bandwidth = {0, is_short ? bandwidth * 0.95 : bandwidth};
    if (given(UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH))
        attr->path_bandwidth = {0, bandwidth};
    if (given(UCT_PERF_ATTR_FIELD_LATENCY))
        attr->latency = {is_short ? 0 : m_config.latency, 0};
    if (given(UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS))
        attr->max_inflight_eps = SIZE_MAX;
    if (given(UCT_PERF_ATTR_FIELD_FLAGS))
        attr->flags = 0;
    return UCS_OK;
}

// ---- addresses ------------------------------------------------------------------------------------------------------

ucs_status_t Iface::get_address(uct_iface_addr *address) {
    std::memcpy(static_cast<void *>(address), &m_id, sizeof m_id);
    return UCS_OK;
}

int Iface::is_reachable_v2(const uct_iface_is_reachable_params *params) {
    const auto &call = m_host.call();
    if (!call.uct_iface_is_reachable_params_addrs_valid(params))
        return 0;
    if ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) == 0 || !params->iface_addr) {
        call.uct_iface_fill_info_str_buf(params, "no interface address");
        return 0;
    }
    if (std::memcmp(static_cast<const void *>(params->iface_addr), &m_id, sizeof m_id) != 0) {
        call.uct_iface_fill_info_str_buf(params, "gaudi_cpy copies within one process");
        return 0;
    }
    return call.uct_iface_scope_is_reachable(&super, params);
}

Result<void> Iface::create_ep(const uct_ep_params *, uct_ep_h *ep) {
    *ep = new Ep(*this);
    return {};
}

// ---- copies ---------------------------------------------------------------------------------------------------------

Iface::Operation *Iface::take_operation(uct_completion *comp) {
    if (!m_free) {
        m_operations.push_back(std::make_unique<Operation>());
        m_free = m_operations.back().get();
        m_free->next = nullptr;
    }
    Operation *operation = m_free;
    m_free = operation->next;
    *operation = {this, m_open, comp, nullptr, 0, UCS_OK};
    return operation;
}

bool Iface::start(Operation &operation, const Mover::Operation &copy) {
    if (!m_held.empty()) {
        m_held.push_back({copy, false});
        ++operation.copies;
        return true;
    }
    return note_posted(operation, m_mover.post(copy));
}

/// What the call returns to UCX, after its copies have started. None ends before that.
ucs_status_t Iface::finish_call(Operation &operation) {
    if (operation.copies != 0) {
        ++operation.epoch->pending;
        return UCS_INPROGRESS;
    }
    operation.next = m_free;
    m_free = &operation;
    return operation.status;
}

ucs_status_t Iface::copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range,
                         uct_completion *comp) {
    Operation *operation = take_operation(comp);
    start(*operation, {destination, source, length, range, ended, operation});
    return finish_call(*operation);
}

/// One cause may fail copy after copy: its sentence is logged the first time, and again after a while without it.
bool Iface::is_new(const std::string &sentence) {
    const auto now = std::chrono::steady_clock::now();
    const auto known = std::find_if(m_reported.begin(), m_reported.end(),
                                    [&](const Reported &reported) { return reported.sentence == sentence; });
    if (known == m_reported.end()) {
        if (m_reported.size() == kRemembered)
            m_reported.pop_front();
        m_reported.push_back({sentence, now});
        return true;
    }
    return now - std::exchange(known->last, now) > kSilence;
}

ucs_status_t Iface::refuse(ucs_status_t status, const std::string &sentence) {
    if (is_new(sentence))
        GAUDI_UCX_LOG(m_host, ERROR, "%s", sentence.c_str());
    return status;
}

/// Logs less severely: memory of other vendors had to be registered for UCX's sake.
ucs_status_t Iface::refuse_foreign_memory(const std::string &sentence) {
    if (is_new(sentence))
        GAUDI_UCX_LOG(m_host, DIAG, "%s", sentence.c_str());
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t Iface::refuse_unreachable(const void *buffer) {
    return refuse_foreign_memory(
        os::format("the memory at {:#x} is neither Gaudi nor host memory, and was registered without a dma-buf: "
                   "gaudi_cpy cannot reach it",
                   reinterpret_cast<std::uint64_t>(buffer)));
}

ucs_status_t Iface::refuse(const Error &error) {
    if (error.code == EXDEV)
        return refuse_foreign_memory(error.text);
    return refuse(error.code == ENOTSUP ? UCS_ERR_UNSUPPORTED : UCS_ERR_IO_ERROR, error.text);
}

/// Copies after a fence must not overtake those before it, and the card's queues are not ordered among each other.
ucs_status_t Iface::fence(unsigned) {
    if (!idle())
        m_held.push_back({{}, true});
    return UCS_OK;
}

void Iface::release_held() {
    while (!m_held.empty()) {
        if (m_held.front().fence) {
            if (m_mover.outstanding() != 0)
                return;
            m_held.pop_front();
            continue;
        }
        const Mover::Operation next = m_held.front().operation;
        m_held.pop_front();
        const Result<Mover::Posted> posted = m_mover.post(next);
        if (!posted || *posted == Mover::Posted::done)
            end_copy(*static_cast<Operation *>(next.user), posted ? UCS_OK : refuse(posted.error()));
    }
}

void Iface::ended(void *user, const Error *error) {
    auto &operation = *static_cast<Operation *>(user);
    Iface &iface = *operation.iface;
    if (error && !iface.m_closing)
        iface.refuse(UCS_ERR_IO_ERROR, error->text);
    iface.end_copy(operation, error ? status_from_errno(error->code) : UCS_OK);
}

void Iface::end_copy(Operation &operation, ucs_status_t failure) {
    if (failure != UCS_OK && operation.status == UCS_OK)
        operation.status = failure;
    if (--operation.copies != 0)
        return;
    const ucs_status_t status = operation.status;
    uct_completion *comp = operation.comp;
    --operation.epoch->pending;
    operation.next = m_free;
    m_free = &operation;
    if (status != UCS_OK)
        m_flush_status = status;
    if (!m_closing) // else its user is gone
        complete(comp, status);
}

ucs_status_t Iface::copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
    while (!m_held.empty()) // behind a fence
        progress();
    const Result<void> copied = m_mover.copy_now(destination, source, length);
    if (copied)
        return UCS_OK;
    // UCP ends the process on this status: the reason must be logged before.
    return refuse(status_from_errno(copied.error().code), copied.error().text);
}

ucs_status_t Iface::refuse_key(uct_rkey_t rkey, std::uint64_t address, std::uint64_t length) {
    count_up(counters().refused_copies);
    const UnpackedKey *unpacked = UnpackedKey::from(rkey);
    if (!unpacked)
        return refuse(UCS_ERR_INVALID_PARAM,
                      "the remote key of a copy was released, or was not unpacked by gaudi_copy");
    const RemoteKey &key = unpacked->key();
    if (!key.own())
        return refuse(UCS_ERR_UNREACHABLE,
                      os::format("the remote key is another process's ({}): gaudi_cpy copies within one", key.process));
    if (!unpacked->is_reachable())
        return refuse(UCS_ERR_UNREACHABLE, "the remote key names memory that is neither Gaudi nor host memory");
    if (!unpacked->is_current())
        return refuse(UCS_ERR_INVALID_ADDR,
                      os::format("the Gaudi memory at {:#x} that the remote key names was unmapped", key.address));
    return refuse(UCS_ERR_INVALID_ADDR,
                  os::format("{} bytes at {:#x} are not inside the {} bytes at {:#x} that the remote key names", length,
                             address, key.length, key.address));
}

// ---- progress ---------------------------------------------------------------------------------------------------------

/// Completes flushes whose copies, and those before them, have all ended.
void Iface::end_epochs(ucs_status_t status) {
    while (m_epochs.size() > 1 && m_epochs.front().pending == 0) {
        const std::vector<uct_completion *> flushes = std::move(m_epochs.front().flushes);
        m_epochs.pop_front();
        for (uct_completion *comp : flushes)
            complete(comp, status);
    }
}

unsigned Iface::progress() {
    const unsigned count = m_mover.progress();
    if (m_epochs.size() > 1)
        end_epochs(m_flush_status);
    if (!m_held.empty())
        release_held();
    return count;
}

ucs_status_t Iface::flush(unsigned flags, uct_completion *comp) {
    if ((flags & UCT_FLUSH_FLAG_CANCEL) != 0)
        return UCS_ERR_UNSUPPORTED;
    if (idle()) {
        const ucs_status_t status = m_flush_status;
        m_flush_status = UCS_OK;
        return status;
    }
    if (comp) {
        // The open epoch ends here, but stays where it is: copies in it point to it.
        m_epochs.back().flushes.push_back(comp);
        m_open = &m_epochs.emplace_back();
    }
    return UCS_INPROGRESS;
}

Result<void> Iface::event_fd_get(int *fd) {
    if (m_event < 0)
        m_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (m_event < 0)
        return tl::unexpected(Error{
            errno, "event_fd_get",
            os::format("cannot make an event descriptor for gaudi_cpy: eventfd failed: {}", std::strerror(errno))});
    *fd = m_event;
    return {};
}

ucs_status_t Iface::event_arm(unsigned) {
    if (m_event < 0) {
        int ignored = -1;
        if (!event_fd_get(&ignored))
            return UCS_ERR_IO_ERROR;
    }
    std::uint64_t count = 0;
    while (read(m_event, &count, sizeof count) == sizeof count) {
    }
    if (!m_held.empty() && m_mover.outstanding() == 0)
        return UCS_ERR_BUSY; // the next progress sends them
    return m_mover.arm(m_event) ? UCS_OK : UCS_ERR_BUSY;
}

// ---- endpoints --------------------------------------------------------------------------------------------------------

void Ep::destroy() { delete this; }

// An empty copy succeeds whatever its addresses and its key are: UCP passes any, NULL included.

ucs_status_t Ep::put_short(const void *buffer, unsigned length, std::uint64_t remote_address, uct_rkey_t rkey) {
    if (length == 0)
        return UCS_OK;
    if (!UnpackedKey::allows(rkey, remote_address, length))
        return interface().refuse_key(rkey, remote_address, length);
    return interface().copy_now(remote_address, reinterpret_cast<std::uint64_t>(buffer), length);
}

ucs_status_t Ep::get_short(void *buffer, unsigned length, std::uint64_t remote_address, uct_rkey_t rkey) {
    if (length == 0)
        return UCS_OK;
    if (!UnpackedKey::allows(rkey, remote_address, length))
        return interface().refuse_key(rkey, remote_address, length);
    return interface().copy_now(reinterpret_cast<std::uint64_t>(buffer), remote_address, length);
}

ucs_status_t Ep::put_zcopy(const uct_iov *iov, std::size_t count, std::uint64_t remote_address, uct_rkey_t rkey,
                           uct_completion *comp) {
    return zcopy(iov, count, remote_address, rkey, true, comp);
}

ucs_status_t Ep::get_zcopy(const uct_iov *iov, std::size_t count, std::uint64_t remote_address, uct_rkey_t rkey,
                           uct_completion *comp) {
    return zcopy(iov, count, remote_address, rkey, false, comp);
}

ucs_status_t Ep::zcopy(const uct_iov *iov, std::size_t count, std::uint64_t remote_address, uct_rkey_t rkey, bool put,
                       uct_completion *comp) {
    if (count == 0)
        return UCS_OK;
    if (count > 1 || iov->count > 1)
        return interface().refuse(UCS_ERR_INVALID_PARAM, "gaudi_cpy takes one buffer per copy (max_iov is 1)");
    const std::uint64_t length = iov->length;
    if (iov->count == 0 || length == 0)
        return UCS_OK;
    if (!UnpackedKey::allows(rkey, remote_address, length))
        return interface().refuse_key(rkey, remote_address, length);
    const auto local = reinterpret_cast<std::uint64_t>(iov->buffer);
    MemoryHandle *handle = MemoryHandle::from(iov->memh);
    if (handle && handle->kind == MemoryHandle::Kind::nothing)
        return interface().refuse_unreachable(iov->buffer);
    HostRange *range = handle ? handle->range.get() : nullptr;
    return put ? interface().copy(remote_address, local, length, range, comp)
               : interface().copy(local, remote_address, length, range, comp);
}

} // namespace gaudi::uct
