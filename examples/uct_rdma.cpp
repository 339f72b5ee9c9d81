// SPDX-License-Identifier: BSD-3-Clause
// RDMA between the Gaudi memory of two processes with UCT alone, as in programs with their own protocol: allocate on
// gaudi_copy, query the dma-buf, register that with the HCA's domain, and send the packed key to the peer.
//
//     uct_rdma        both processes; needs an HCA with rc_verbs
#include "uct_open.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

// Exported by libuct, but not declared in an installed header.
extern "C" {
struct uct_md_mem_reg_params {
    std::uint64_t field_mask; // 1 flags, 2 descriptor, 4 offset, 8 memory type
    std::uint64_t flags;
    int dmabuf_fd;
    std::size_t dmabuf_offset;
    ucs_memory_type_t mem_type;
};
ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, std::size_t length, const uct_md_mem_reg_params *params,
                               uct_mem_h *memh);
}

namespace {

using namespace uct_open;

constexpr std::size_t kBytes = 4 << 20;

/// Memory that the HCA can read and write.
class Registered {
public:
    Registered(const Domain &ib, void *address, std::size_t length, const uct_md_mem_reg_params &params) : m_ib(ib) {
        check(uct_md_mem_reg_v2(ib.md(), address, length, &params, &m_memh), "uct_md_mem_reg_v2");
    }
    ~Registered() { uct_md_mem_dereg(m_ib.md(), m_memh); }
    Registered(const Registered &) = delete;
    Registered &operator=(const Registered &) = delete;

    uct_mem_h memh() const { return m_memh; }
    std::vector<char> key() const {
        uct_md_attr_t attr{};
        check(uct_md_query(m_ib.md(), &attr), "uct_md_query");
        std::vector<char> key(attr.rkey_packed_size);
        check(uct_md_mkey_pack(m_ib.md(), m_memh, key.data()), "uct_md_mkey_pack");
        return key;
    }

private:
    const Domain &m_ib;
    uct_mem_h m_memh = nullptr;
};

/// The dma-buf of card memory, for registration with the HCA's domain; the caller closes the descriptor afterwards.
uct_md_mem_reg_params dmabuf_of(const Domain &gaudi, const CardMemory &memory, std::size_t length) {
    uct_md_mem_attr_t attr{};
    attr.field_mask = UCT_MD_MEM_ATTR_FIELD_DMABUF_FD | UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET;
    check(uct_md_mem_query(gaudi.md(), memory.data(), length, &attr), "uct_md_mem_query");
    if (attr.dmabuf_fd == UCT_DMABUF_FD_INVALID)
        throw Failure("the driver does not export Gaudi memory as a dma-buf");
    return {15, UCT_MD_MEM_ACCESS_ALL, attr.dmabuf_fd, attr.dmabuf_offset, UCS_MEMORY_TYPE_GAUDI};
}

/// Exchanges keys and addresses with the peer over a socket.
class Wire {
public:
    explicit Wire(int socket) : m_socket(socket) {}
    void send(const std::vector<char> &bytes) const {
        if (::send(m_socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
            throw Failure("the other process has exited");
    }
    std::vector<char> receive() const {
        std::vector<char> bytes(4096);
        const ssize_t got = recv(m_socket, bytes.data(), bytes.size(), 0);
        if (got <= 0)
            throw Failure("the other process has exited");
        bytes.resize(static_cast<std::size_t>(got));
        return bytes;
    }

private:
    int m_socket;
};

/// The HCA's first device with rc_verbs.
std::string rc_device(const Domain &ib) {
    uct_tl_resource_desc_t *resources = nullptr;
    unsigned count = 0;
    check(uct_md_query_tl_resources(ib.md(), &resources, &count), "uct_md_query_tl_resources");
    std::string device;
    for (unsigned i = 0; i < count && device.empty(); ++i)
        if (std::strcmp(resources[i].tl_name, "rc_verbs") == 0)
            device = resources[i].dev_name;
    uct_release_tl_resource_list(resources);
    if (device.empty())
        throw Failure("no HCA offers the transport rc_verbs");
    return device;
}

/// An rc_verbs endpoint, connected to that of the peer.
class Connection {
public:
    Connection(const Domain &ib, const Wire &wire) : m_interface(ib, "rc_verbs", rc_device(ib).c_str()) {
        const uct_iface_attr_t attr = m_interface.attributes();
        std::vector<char> device(attr.device_addr_len), endpoint(attr.ep_addr_len);
        check(uct_iface_get_device_address(m_interface.iface(), reinterpret_cast<uct_device_addr_t *>(device.data())),
              "uct_iface_get_device_address");
        check(uct_ep_get_address(m_ep.get(), reinterpret_cast<uct_ep_addr_t *>(endpoint.data())), "uct_ep_get_address");
        wire.send(device);
        const std::vector<char> their_device = wire.receive();
        wire.send(endpoint);
        const std::vector<char> their_endpoint = wire.receive();
        check(uct_ep_connect_to_ep(m_ep.get(), reinterpret_cast<const uct_device_addr_t *>(their_device.data()),
                                   reinterpret_cast<const uct_ep_addr_t *>(their_endpoint.data())),
              "uct_ep_connect_to_ep");
    }

    using Operation = decltype(&uct_ep_put_zcopy);
    /// Runs a put or a get, and waits for its completion.
    void run(Operation operation, void *local, uct_mem_h memh, std::uint64_t remote, uct_rkey_t key, const char *what) {
        uct_completion_t done{[](uct_completion_t *) {}, 1, UCS_OK};
        const uct_iov_t iov{local, kBytes, memh, 0, 1};
        ucs_status_t status = UCS_ERR_NO_RESOURCE;
        while ((status = operation(m_ep.get(), &iov, 1, remote, key, &done)) == UCS_ERR_NO_RESOURCE)
            uct_worker_progress(m_interface.worker());
        if (status == UCS_INPROGRESS) {
            while (done.count != 0)
                uct_worker_progress(m_interface.worker());
            status = done.status;
        }
        check(status, what);
        std::printf("%s: %zu MiB\n", what, kBytes >> 20);
    }

private:
    Interface m_interface;
    Endpoint m_ep = m_interface.endpoint();
};

/// Allocates card memory, sends its address and key, and takes no further part.
void be_target(const Wire &wire) {
    const Domain gaudi("gaudi_copy"), ib("ib");
    const Connection connection(ib, wire);
    const CardMemory memory(gaudi, 2 * kBytes);
    const uct_md_mem_reg_params dmabuf = dmabuf_of(gaudi, memory, 2 * kBytes);
    const Registered registered(ib, memory.data(), 2 * kBytes, dmabuf);
    close(dmabuf.dmabuf_fd);
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    std::vector<char> offer(sizeof address);
    std::memcpy(offer.data(), &address, sizeof address);
    const std::vector<char> key = registered.key();
    offer.insert(offer.end(), key.begin(), key.end());
    wire.send(offer);
    wire.receive(); // until the peer has finished
}

/// Returns whether the bytes came back through both cards unchanged.
bool be_initiator(const Wire &wire) {
    const Domain gaudi("gaudi_copy"), ib("ib");
    Connection connection(ib, wire);
    std::vector<std::uint32_t> out(kBytes / 4), back(kBytes / 4);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<std::uint32_t>(i) * 2654435761u;
    const uct_md_mem_reg_params host{1, UCT_MD_MEM_ACCESS_ALL, UCT_DMABUF_FD_INVALID, 0, UCS_MEMORY_TYPE_HOST};
    const Registered source(ib, out.data(), kBytes, host), sink(ib, back.data(), kBytes, host);
    const CardMemory memory(gaudi, kBytes);
    const uct_md_mem_reg_params dmabuf = dmabuf_of(gaudi, memory, kBytes);
    const Registered card(ib, memory.data(), kBytes, dmabuf);
    close(dmabuf.dmabuf_fd);

    const std::vector<char> offer = wire.receive();
    std::uint64_t there = 0;
    std::memcpy(&there, offer.data(), sizeof there);
    uct_rkey_bundle_t key{};
    check(uct_rkey_unpack(ib.component(), offer.data() + sizeof there, &key), "uct_rkey_unpack");
    connection.run(uct_ep_put_zcopy, out.data(), source.memh(), there, key.rkey, "host memory to the other card");
    connection.run(uct_ep_get_zcopy, memory.data(), card.memh(), there, key.rkey, "the other card to this card");
    connection.run(uct_ep_put_zcopy, memory.data(), card.memh(), there + kBytes, key.rkey,
                   "this card to the other card");
    connection.run(uct_ep_get_zcopy, back.data(), sink.memh(), there + kBytes, key.rkey,
                   "the other card to host memory");
    uct_rkey_release(ib.component(), &key);
    wire.send({'e'});
    std::printf("%s\n", out == back ? "every byte came back" : "BYTES DIFFER");
    return out == back;
}

} // namespace

int main() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return 1;
    const pid_t target = fork();
    const bool first = target != 0;
    close(ends[first ? 1 : 0]);
    bool good = false;
    try {
        const Wire wire(ends[first ? 0 : 1]);
        if (first)
            good = be_initiator(wire);
        else
            be_target(wire);
        good = good || !first;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "uct_rdma: %s\n", error.what());
    }
    close(ends[first ? 0 : 1]);
    std::fflush(stdout);
    if (!first)
        _exit(good ? 0 : 1);
    int status = 1;
    waitpid(target, &status, 0);
    return good && status == 0 ? 0 : 1;
}
