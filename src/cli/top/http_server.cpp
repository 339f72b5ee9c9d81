// SPDX-License-Identifier: BSD-3-Clause
#include "http_server.h"

#include "end_signal.h"
#include "os/format.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace gaudi::cli::top {
namespace {

using Clock = std::chrono::steady_clock;

struct Endpoint {
    sockaddr_storage address{};
    socklen_t length = 0;
};

OrSentence<Endpoint> parse(const std::string &where) {
    const auto refuse = [&](const char *why) {
        return Sentence(
            os::format("cannot listen on '{}': {}; give ADDRESS:PORT, as in 127.0.0.1:9400 or [::1]:9400", where, why));
    };
    const std::size_t colon = where.rfind(':');
    if (colon == std::string::npos || colon == 0)
        return refuse("it has no address or no port");
    std::uint16_t port = 0;
    const char *begin = where.data() + colon + 1, *end = where.data() + where.size();
    if (const auto [stop, failed] = std::from_chars(begin, end, port); failed != std::errc() || stop != end)
        return refuse("the port is no number from 0 to 65535");
    std::string address = where.substr(0, colon);
    Endpoint endpoint;
    auto *v4 = reinterpret_cast<sockaddr_in *>(&endpoint.address);
    auto *v6 = reinterpret_cast<sockaddr_in6 *>(&endpoint.address);
    if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
        address = address.substr(1, address.size() - 2);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        endpoint.length = sizeof *v6;
        if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) != 1)
            return refuse("the address is no IPv6 address");
        return endpoint;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    endpoint.length = sizeof *v4;
    if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) != 1)
        return refuse("the address is no IPv4 address");
    return endpoint;
}

std::string describe(const Endpoint &endpoint) {
    char text[INET6_ADDRSTRLEN] = "";
    if (endpoint.address.ss_family == AF_INET6) {
        const auto &v6 = reinterpret_cast<const sockaddr_in6 &>(endpoint.address);
        ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
        return os::format("[{}]:{}", text, ntohs(v6.sin6_port));
    }
    const auto &v4 = reinterpret_cast<const sockaddr_in &>(endpoint.address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return os::format("{}:{}", text, ntohs(v4.sin_port));
}

/// Whether the whole header of a request is there. A bare line end is accepted, as by most servers.
bool is_complete(const std::string &request) {
    return request.find("\r\n\r\n") != std::string::npos || request.find("\n\n") != std::string::npos;
}

bool is_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

} // namespace

std::string HttpServer::find_mistake(const std::string &where) {
    const auto endpoint = parse(where);
    return endpoint ? std::string() : endpoint.error();
}

OrSentence<HttpServer> HttpServer::listen(const std::string &where, MetricsPage page) {
    const auto endpoint = parse(where);
    if (!endpoint)
        return Sentence(endpoint.error());
    const auto refuse = [&] {
        return Sentence(os::format("cannot listen on {}: {}", where,
                                   errno == EADDRINUSE ? "another program uses that port" : std::strerror(errno)));
    };
    thunk::Fd socket(::socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
        return refuse();
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (endpoint->address.ss_family == AF_INET6) // [::] is IPv6 alone: nothing is opened that was not typed
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr *>(&endpoint->address), endpoint->length) != 0 ||
        ::listen(socket.get(), static_cast<int>(kMaxConnections)) != 0)
        return refuse();
    Endpoint bound;
    bound.length = sizeof bound.address;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&bound.address), &bound.length) != 0)
        return refuse();
    return HttpServer(std::move(socket), describe(bound), std::move(page));
}

OrSentence<void> HttpServer::serve() {
    std::vector<pollfd> waiting;
    while (!has_end_signal()) {
        waiting.clear();
        // Further clients wait in the kernel's queue while all connections are taken, or descriptors are short.
        const bool paused = Clock::now() < m_accept_from;
        waiting.push_back({!paused && m_connections.size() < kMaxConnections ? m_socket.get() : -1, POLLIN, 0});
        auto next = paused ? m_accept_from : Clock::time_point::max();
        for (const Connection &connection : m_connections) {
            waiting.push_back(
                {connection.socket.get(), static_cast<short>(connection.answers() ? POLLOUT : POLLIN), 0});
            next = std::min(next, connection.limit);
        }
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
        const int limit = m_connections.empty() && !paused ? -1 : static_cast<int>(std::max<std::int64_t>(0, left + 1));
        if (poll_until_end(waiting, limit) < 0 && errno != EINTR)
            return Sentence(os::format("cannot serve {}: poll: {}", m_address, std::strerror(errno)));
        if (has_end_signal())
            break;
        const auto now = Clock::now();
        std::size_t index = 0;
        const std::size_t closed = std::erase_if(m_connections, [&](Connection &connection) {
            const bool ready = waiting[++index].revents != 0;
            return (ready && !advance(connection)) || connection.limit <= now;
        });
        if (closed > 0)
            m_accept_from = {};
        if (waiting.front().revents != 0)
            accept_one();
    }
    return {};
}

void HttpServer::accept_one() {
    thunk::Fd socket(::accept4(m_socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket)
        m_connections.push_back({std::move(socket), Clock::now() + kPatience, {}, {}, 0, false});
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        m_accept_from = Clock::now() + kPause; // the client stays in the queue, and poll would return at once
}

/// False when the connection is over.
bool HttpServer::advance(Connection &connection) {
    return connection.answers() ? send(connection) : receive(connection);
}

bool HttpServer::receive(Connection &connection) {
    char buffer[4096];
    const ssize_t got = ::recv(connection.socket.get(), buffer, sizeof buffer, 0);
    if (got < 0)
        return is_again(errno);
    if (got == 0)
        return false;
    if (connection.closing)
        return true;
    connection.request.append(buffer, static_cast<std::size_t>(got));
    if (is_complete(connection.request))
        connection.answer = answer_request(connection.request, m_page);
    else if (connection.request.size() > kMaxRequest)
        connection.answer = refuse_long_request();
    return true;
}

bool HttpServer::send(Connection &connection) {
    const ssize_t sent = ::send(connection.socket.get(), connection.answer.data() + connection.sent,
                                connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0)
        return is_again(errno);
    connection.sent += static_cast<std::size_t>(sent);
    if (connection.sent < connection.answer.size())
        return true;
    // A socket that is closed with unread bytes resets the connection, and the client may lose the answer.
    ::shutdown(connection.socket.get(), SHUT_WR);
    connection.closing = true;
    return true;
}

} // namespace gaudi::cli::top
