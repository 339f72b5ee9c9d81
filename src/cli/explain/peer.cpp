// SPDX-License-Identifier: BSD-3-Clause
#include "peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace gaudi::cli::explain {
namespace {

constexpr const char *kEnded = "the process of the other end has ended";

void receive_all(int socket, void *to, std::size_t length) {
    ssize_t got = 0;
    do
        got = ::recv(socket, to, length, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(length))
        throw SideFailure(kEnded);
}

} // namespace

void Peer::send(const std::string &bytes) const {
    const std::uint64_t length = bytes.size();
    std::string message(reinterpret_cast<const char *>(&length), sizeof length);
    message += bytes;
    for (std::size_t done = 0; done < message.size();) {
        const ssize_t put = ::send(m_socket, message.data() + done, message.size() - done, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR)
            throw SideFailure(kEnded);
        done += put > 0 ? static_cast<std::size_t>(put) : 0;
    }
}

std::string Peer::receive() const {
    std::uint64_t length = 0;
    receive_all(m_socket, &length, sizeof length);
    std::string bytes(length, '\0');
    if (length != 0)
        receive_all(m_socket, bytes.data(), length);
    return bytes;
}

std::string Peer::trade(const std::string &own) const {
    if (!is_there())
        return own;
    send(own);
    return receive();
}

void Peer::meet(const std::function<bool()> &progress) const {
    if (!is_there())
        return;
    constexpr unsigned kSpins = 256; // then the processor is left to the other side
    send({});
    pollfd ready{m_socket, POLLIN, 0};
    for (unsigned idle = 0; ::poll(&ready, 1, idle < kSpins ? 0 : 1) == 0;)
        idle = progress() ? 0 : idle + 1;
    (void)receive();
}

void Peer::check() const {
    pollfd closed{m_socket, POLLRDHUP, 0}; // also behind bytes that were sent before
    if (is_there() && ::poll(&closed, 1, 0) > 0)
        throw SideFailure(kEnded);
}

} // namespace gaudi::cli::explain
