// SPDX-License-Identifier: BSD-3-Clause
// One side of a UCP exchange: context, worker, endpoint, and buffers of host or Gaudi memory.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace e2e {

/// Ends a side with a message; the other side sees the broken pipe.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void check(ucs_status_t status, const char *what);

/// Blocking exchange of bytes and strings between the two processes.
class Pipe {
public:
    explicit Pipe(int socket) : m_socket(socket) {}
    void send(const std::vector<char> &bytes);
    std::vector<char> receive();
    void send_number(std::uint64_t number);
    std::uint64_t receive_number();
    /// Throws when the other side has exited.
    void check_peer() const;
    /// Returns when both sides have called it. `meanwhile` is called until then and returns whether it did anything.
    void meet(const std::function<bool()> &meanwhile);

private:
    int m_socket;
};

/// The result of both sides.
struct Ended {
    std::string problem; // error of the first side, or empty
    bool second_good = false;
};
/// Runs the first side here and the second in a child, which prints its error on stderr.
Ended run_in_two_processes(const std::function<void(Pipe &, bool first)> &side);

/// The address and key that the other side needs for put and get.
struct Place {
    std::vector<char> key;
    std::uint64_t address = 0;
};
std::vector<char> pack_key(ucp_context_h context, ucp_mem_h memh);

struct DestroyKey {
    void operator()(ucp_rkey_h key) const { ucp_rkey_destroy(key); }
};
using RemoteKey = std::unique_ptr<std::remove_pointer_t<ucp_rkey_h>, DestroyKey>;
RemoteKey unpack_key(ucp_ep_h ep, const std::vector<char> &key);

inline constexpr std::uint64_t kAllFeatures = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_STREAM;

struct Options {
    bool wakeup = false;     // sleep on the worker's descriptor instead of polling
    bool threads = false;    // a worker for several threads
    bool complaints = false; // UCX is expected to print errors
    /// Variables set in the second side only.
    std::vector<std::pair<std::string, std::string>> second_environment = {};
    /// Called by each side before UCX starts.
    std::function<void(bool first)> before = {};
};

class Side {
public:
    Side(Pipe &pipe, const Options &options);
    /// A single side with a loopback endpoint.
    explicit Side(std::uint64_t features, const Options &options = {});
    ~Side();
    Side(const Side &) = delete;
    Side &operator=(const Side &) = delete;

    ucp_context_h context() const { return m_context; }
    ucp_worker_h worker() const { return m_worker; }
    ucp_ep_h peer() const { return m_peer; }
    ucp_ep_h self() const { return m_self; }

    void progress();
    /// Progresses the worker until the request has completed.
    void finish(ucs_status_ptr_t request, const char *what);
    void flush(ucp_ep_h ep);
    bool done(ucs_status_ptr_t request) const;
    void meet() {
        m_pipe->meet([this] { return ucp_worker_progress(m_worker) != 0; });
    }
    Pipe &pipe() { return *m_pipe; }
    /// Exchanges values: both sides call it, and each returns the value of the other.
    Place trade(const Place &own);

    // received active messages
    struct Message {
        std::vector<char> header;
        void *data = nullptr; // rendezvous descriptor, or null
        std::vector<char> bytes;
        std::size_t length = 0;
    };
    std::vector<Message> &messages() { return m_messages; }

private:
    Side(Pipe *pipe, const Options &options, std::uint64_t features);
    void take_messages();
    void connect();

    Pipe *m_pipe; // null for a single side
    const Options m_options;
    ucp_context_h m_context = nullptr;
    ucp_worker_h m_worker = nullptr;
    ucp_ep_h m_peer = nullptr;
    ucp_ep_h m_self = nullptr;
    int m_event = -1;
    std::vector<Message> m_messages;
};

/// Memory of either type, registered with UCP. Written and read through the loopback endpoint, which uses the copy
/// transport.
class Memory {
public:
    Memory(Side &side, ucs_memory_type_t type, std::size_t size);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    char *data() const { return m_data; }
    std::size_t size() const { return m_size; }
    ucp_mem_h handle() const { return m_memh; }
    ucs_memory_type_t type() const { return m_type; }
    std::vector<char> key() const;
    Place place() const { return {key(), reinterpret_cast<std::uint64_t>(m_data)}; }

    void write(const std::vector<char> &bytes, std::size_t offset = 0);
    std::vector<char> read(std::size_t length, std::size_t offset = 0);

private:
    Side &m_side;
    const ucs_memory_type_t m_type;
    const std::size_t m_size;
    ucp_mem_h m_memh = nullptr;
    char *m_data = nullptr;
};

std::vector<char> pattern(std::size_t size, unsigned seed);

} // namespace e2e
