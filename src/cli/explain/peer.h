// SPDX-License-Identifier: BSD-3-Clause
// The socket between the processes of the two ends.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace gaudi::cli::explain {

/// Ends a side with a sentence.
struct SideFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Without a socket, of a process that has both ends, all functions return at once.
class Peer {
public:
    explicit Peer(int socket) : m_socket(socket) {}

    bool is_there() const { return m_socket >= 0; }
    /// Sends `own` and returns what the other side sends. For few bytes, which the socket has room for.
    std::string trade(const std::string &own) const;
    /// Returns when both sides have called it. `progress` is called until then and returns whether it did anything.
    void meet(const std::function<bool()> &progress) const;
    /// Fails if the other side has ended.
    void check() const;

private:
    void send(const std::string &bytes) const;
    std::string receive() const;

    const int m_socket;
};

} // namespace gaudi::cli::explain
