// SPDX-License-Identifier: BSD-3-Clause
// A server for one page of text, for scrapers: GET and HEAD, one thread, each connection answered once and closed. What
// a client can hold is bounded: connections, bytes of a request, seconds.
#pragma once

#include "cli/sentence.h"
#include "http_answer.h"
#include "thunk/fd.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli::top {

class HttpServer {
public:
    static constexpr std::size_t kMaxConnections = 32;
    static constexpr std::size_t kMaxRequest = 8192; // bytes
    static constexpr auto kPatience = std::chrono::seconds(3);
    static constexpr auto kPause = std::chrono::milliseconds(200); // without descriptors for a further connection

    /// What is wrong with the value of --listen, whatever this machine's addresses are; empty if nothing is.
    static std::string find_mistake(const std::string &where);
    /// `where` is ADDRESS:PORT, with an IPv6 address in brackets; port 0 takes a free one.
    static OrSentence<HttpServer> listen(const std::string &where, MetricsPage page);

    /// ADDRESS:PORT as it is now.
    const std::string &address() const { return m_address; }
    /// Serves until a signal asks for the end; note_end_signals() was called.
    OrSentence<void> serve();

private:
    struct Connection {
        thunk::Fd socket;
        std::chrono::steady_clock::time_point limit;
        std::string request, answer;
        std::size_t sent = 0;
        bool closing = false; // all is sent: what the client still sends is read until it closes

        bool answers() const { return !answer.empty() && !closing; }
    };

    HttpServer(thunk::Fd socket, std::string address, MetricsPage page)
        : m_socket(std::move(socket)), m_address(std::move(address)), m_page(std::move(page)) {}

    void accept_one();
    bool advance(Connection &connection);
    bool receive(Connection &connection);
    bool send(Connection &connection);

    thunk::Fd m_socket;
    std::string m_address;
    MetricsPage m_page;
    std::vector<Connection> m_connections;
    std::chrono::steady_clock::time_point m_accept_from{};
};

} // namespace gaudi::cli::top
