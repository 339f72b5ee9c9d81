// SPDX-License-Identifier: BSD-3-Clause
#include "ucp_side.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace e2e {

void check(ucs_status_t status, const char *what) {
    if (status != UCS_OK)
        throw Failure(std::string(what) + ": " + ucs_status_string(status));
}

void Pipe::send(const std::vector<char> &bytes) {
    const std::size_t size = bytes.size();
    if (::send(m_socket, &size, sizeof size, MSG_NOSIGNAL) != sizeof size)
        throw Failure("the other process has exited");
    for (std::size_t done = 0; done < size;) {
        const ssize_t put = ::send(m_socket, bytes.data() + done, size - done, MSG_NOSIGNAL);
        if (put <= 0)
            throw Failure("the other process has exited");
        done += static_cast<std::size_t>(put);
    }
}

std::vector<char> Pipe::receive() {
    std::size_t size = 0;
    if (recv(m_socket, &size, sizeof size, MSG_WAITALL) != sizeof size)
        throw Failure("the other process has exited");
    std::vector<char> bytes(size);
    if (size != 0 && recv(m_socket, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
        throw Failure("the other process has exited");
    return bytes;
}

void Pipe::send_number(std::uint64_t number) {
    std::vector<char> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    send(bytes);
}

std::uint64_t Pipe::receive_number() {
    const std::vector<char> bytes = receive();
    std::uint64_t number = 0;
    if (bytes.size() != sizeof number)
        throw Failure("the other process sent something other than a number");
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

void Pipe::check_peer() const {
    pollfd closed{m_socket, POLLRDHUP, 0}; // also behind what it has sent before
    if (poll(&closed, 1, 0) > 0)
        throw Failure("the other process has exited");
}

void Pipe::meet(const std::function<bool()> &meanwhile) {
    constexpr unsigned kSpins = 256; // then the core is left to the other side
    send({'m'});
    pollfd ready{m_socket, POLLIN, 0};
    for (unsigned idle = 0; poll(&ready, 1, idle < kSpins ? 0 : 1) == 0;)
        idle = meanwhile() ? 0 : idle + 1;
    receive();
}

Ended run_in_two_processes(const std::function<void(Pipe &, bool first)> &side) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw Failure("cannot create a socket pair");
    const pid_t child = fork();
    const bool first = child != 0;
    close(ends[first ? 1 : 0]);
    Ended ended;
    try {
        Pipe pipe(ends[first ? 0 : 1]);
        side(pipe, first);
    } catch (const std::exception &error) {
        ended.problem = error.what();
    }
    close(ends[first ? 0 : 1]);
    if (!first) {
        if (!ended.problem.empty())
            std::fprintf(stderr, "second side: %s\n", ended.problem.c_str());
        std::fflush(stdout);
        _exit(ended.problem.empty() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    ended.second_good = status == 0;
    return ended;
}

std::vector<char> pack_key(ucp_context_h context, ucp_mem_h memh) {
    void *buffer = nullptr;
    std::size_t length = 0;
    check(ucp_rkey_pack(context, memh, &buffer, &length), "ucp_rkey_pack");
    std::vector<char> key(static_cast<char *>(buffer), static_cast<char *>(buffer) + length);
    ucp_rkey_buffer_release(buffer);
    return key;
}

RemoteKey unpack_key(ucp_ep_h ep, const std::vector<char> &key) {
    ucp_rkey_h unpacked = nullptr;
    check(ucp_ep_rkey_unpack(ep, key.data(), &unpacked), "ucp_ep_rkey_unpack");
    return RemoteKey(unpacked);
}

Side::Side(Pipe &pipe, const Options &options) : Side(&pipe, options, kAllFeatures) {}

Side::Side(std::uint64_t features, const Options &options) : Side(nullptr, options, features) {}

Side::Side(Pipe *pipe, const Options &options, std::uint64_t features) : m_pipe(pipe), m_options(options) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    if (options.wakeup)
        params.features |= UCP_FEATURE_WAKEUP;
    if (options.threads) {
        params.field_mask |= UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        params.mt_workers_shared = 1;
    }
    ucp_config_t *config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const ucs_status_t status = ucp_init(&params, config, &m_context);
    ucp_config_release(config);
    check(status, "ucp_init");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = options.threads ? UCS_THREAD_MODE_MULTI : UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(m_context, &worker, &m_worker), "ucp_worker_create");
    if (options.wakeup)
        check(ucp_worker_get_efd(m_worker, &m_event), "ucp_worker_get_efd");
    if ((features & UCP_FEATURE_AM) != 0)
        take_messages();
    connect();
}

void Side::take_messages() {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 7;
    handler.arg = this;
    handler.cb = [](void *arg, const void *header, size_t header_length, void *data, size_t length,
                    const ucp_am_recv_param_t *param) -> ucs_status_t {
        auto &side = *static_cast<Side *>(arg);
        Message message;
        message.header.assign(static_cast<const char *>(header), static_cast<const char *>(header) + header_length);
        message.length = length;
        if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
            message.data = data;
            side.m_messages.push_back(std::move(message));
            return UCS_INPROGRESS;
        }
        message.bytes.assign(static_cast<const char *>(data), static_cast<const char *>(data) + length);
        side.m_messages.push_back(std::move(message));
        return UCS_OK;
    };
    check(ucp_worker_set_am_recv_handler(m_worker, &handler), "ucp_worker_set_am_recv_handler");
}

void Side::connect() {
    ucp_address_t *address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(m_worker, &address, &length), "ucp_worker_get_address");
    const auto *bytes = reinterpret_cast<const char *>(address);
    const std::vector<char> own(bytes, bytes + length);
    ucp_worker_release_address(m_worker, address);
    const auto create = [&](const std::vector<char> &to, ucp_ep_h &ep) {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t *>(to.data());
        check(ucp_ep_create(m_worker, &params, &ep), "ucp_ep_create");
    };
    if (m_pipe) {
        m_pipe->send(own);
        create(m_pipe->receive(), m_peer);
    }
    create(own, m_self);
}

Side::~Side() {
    for (ucp_ep_h ep : {m_peer, m_self}) {
        if (!ep)
            continue;
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
        ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
        while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
            ucp_worker_progress(m_worker);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
    if (m_worker)
        ucp_worker_destroy(m_worker);
    if (m_context)
        ucp_cleanup(m_context);
}

void Side::progress() {
    if (ucp_worker_progress(m_worker) != 0 || !m_options.wakeup)
        return;
    const ucs_status_t armed = ucp_worker_arm(m_worker);
    if (armed == UCS_ERR_BUSY)
        return;
    check(armed, "ucp_worker_arm");
    pollfd ready{m_event, POLLIN, 0};
    // The limit is for a wake-up that never comes: the request then never ends, and the test times out.
    poll(&ready, 1, 1000);
}

bool Side::done(ucs_status_ptr_t request) const {
    return !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
}

void Side::finish(ucs_status_ptr_t request, const char *what) {
    for (unsigned i = 1; !done(request); ++i) {
        progress();
        if (m_pipe && i % 100'000 == 0)
            m_pipe->check_peer(); // detects a crashed peer
    }
    ucs_status_t status = UCS_OK;
    if (UCS_PTR_IS_PTR(request)) {
        status = ucp_request_check_status(request);
        ucp_request_free(request);
    } else {
        status = UCS_PTR_STATUS(request);
    }
    check(status, what);
}

void Side::flush(ucp_ep_h ep) {
    ucp_request_param_t none{};
    finish(ucp_ep_flush_nbx(ep, &none), "flush");
}

Place Side::trade(const Place &own) {
    m_pipe->send(own.key);
    m_pipe->send_number(own.address);
    Place peer;
    peer.key = m_pipe->receive();
    peer.address = m_pipe->receive_number();
    return peer;
}

Memory::Memory(Side &side, ucs_memory_type_t type, std::size_t size)
    : m_side(side), m_type(type), m_size(size == 0 ? 1 : size) {
    ucp_mem_map_params_t params{};
    params.field_mask =
        UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.length = m_size;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    params.memory_type = type;
    check(ucp_mem_map(side.context(), &params, &m_memh), "ucp_mem_map");
    ucp_mem_attr_t attr{};
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_MEM_TYPE;
    check(ucp_mem_query(m_memh, &attr), "ucp_mem_query");
    if (attr.mem_type != type)
        throw Failure("UCX allocated memory of another type");
    m_data = static_cast<char *>(attr.address);
}

Memory::~Memory() {
    if (m_memh)
        ucp_mem_unmap(m_side.context(), m_memh);
}

std::vector<char> Memory::key() const { return pack_key(m_side.context(), m_memh); }

namespace {

/// Runs `operation` with a key of the side's own memory, on the loopback endpoint.
template <class Operation>
void loopback(Side &side, const Memory &memory, Operation operation, const char *what) {
    const RemoteKey key = unpack_key(side.self(), memory.key());
    ucp_request_param_t param{};
    side.finish(operation(key.get(), &param), what);
    side.flush(side.self());
}

} // namespace

void Memory::write(const std::vector<char> &bytes, std::size_t offset) {
    if (m_type == UCS_MEMORY_TYPE_HOST) {
        std::copy(bytes.begin(), bytes.end(), m_data + offset);
        return;
    }
    loopback(
        m_side, *this,
        [&](ucp_rkey_h key, ucp_request_param_t *param) {
            return ucp_put_nbx(m_side.self(), bytes.data(), bytes.size(),
                               reinterpret_cast<std::uint64_t>(m_data + offset), key, param);
        },
        "fill by put");
}

std::vector<char> Memory::read(std::size_t length, std::size_t offset) {
    std::vector<char> bytes(length);
    if (m_type == UCS_MEMORY_TYPE_HOST) {
        std::copy_n(m_data + offset, length, bytes.begin());
        return bytes;
    }
    loopback(
        m_side, *this,
        [&](ucp_rkey_h key, ucp_request_param_t *param) {
            return ucp_get_nbx(m_side.self(), bytes.data(), length, reinterpret_cast<std::uint64_t>(m_data + offset),
                               key, param);
        },
        "read by get");
    return bytes;
}

std::vector<char> pattern(std::size_t size, unsigned seed) {
    std::vector<char> bytes(size);
    std::uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
    std::size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::memcpy(bytes.data() + i, &state, 8);
    }
    for (; i < size; ++i)
        bytes[i] = static_cast<char>(i * 31 + seed);
    return bytes;
}

} // namespace e2e
