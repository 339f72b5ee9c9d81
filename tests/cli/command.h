// SPDX-License-Identifier: BSD-3-Clause
// Runs ucx_gaudi as a child, as a shell would.
#pragma once

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

inline constexpr auto kPatience = std::chrono::seconds(60);

/// One end of a pipe, read line by line or whole.
class Stream {
public:
    explicit Stream(int fd) : m_fd(fd) {}
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    ~Stream() { ::close(m_fd); }

    /// The next line, without its end; fails the test when none comes.
    std::string line() {
        std::size_t end = 0;
        while ((end = m_text.find('\n')) == std::string::npos) {
            if (!more()) {
                ADD_FAILURE() << "no further line after '" << m_text << "'";
                return {};
            }
        }
        std::string out = m_text.substr(0, end);
        m_text.erase(0, end + 1);
        return out;
    }
    std::string rest() {
        while (more()) {
        }
        return std::exchange(m_text, {});
    }

private:
    bool more() {
        pollfd wanted{m_fd, POLLIN, 0};
        const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
        if (::poll(&wanted, 1, static_cast<int>(limit)) <= 0)
            return false;
        char buffer[4096];
        const ssize_t got = ::read(m_fd, buffer, sizeof buffer);
        if (got <= 0)
            return false;
        m_text.append(buffer, static_cast<std::size_t>(got));
        return true;
    }

    int m_fd;
    std::string m_text;
};

/// A running ucx_gaudi. Its environment is that of the test.
class Command {
public:
    explicit Command(Words words, const std::string &program = UCX_GAUDI_COMMAND) {
        words.insert(words.begin(), program);
        int out[2], err[2];
        EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
        EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
        m_pid = ::fork();
        if (m_pid == 0) {
            ::dup2(out[1], STDOUT_FILENO);
            ::dup2(err[1], STDERR_FILENO);
            for (const int signal : {SIGINT, SIGTERM, SIGHUP}) // a test in the background has some ignored
                ::signal(signal, SIG_DFL);
            std::vector<char *> arguments;
            for (std::string &word : words)
                arguments.push_back(word.data());
            arguments.push_back(nullptr);
            ::execv(arguments.front(), arguments.data());
            ::_exit(99);
        }
        ::close(out[1]);
        ::close(err[1]);
        m_out.emplace(out[0]);
        m_err.emplace(err[0]);
    }
    Command(const Command &) = delete;
    Command &operator=(const Command &) = delete;
    ~Command() {
        if (m_pid > 0) {
            ::kill(m_pid, SIGKILL);
            ::waitpid(m_pid, nullptr, 0);
        }
    }

    pid_t pid() const { return m_pid; }
    Stream &out() { return *m_out; }
    Stream &err() { return *m_err; }
    void kill(int signal) const { EXPECT_EQ(::kill(m_pid, signal), 0); }

    /// The exit code; a negative signal if one ended it.
    int wait() {
        int status = 0;
        while (::waitpid(m_pid, &status, 0) < 0 && errno == EINTR) {
        }
        m_pid = -1;
        return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }

private:
    pid_t m_pid = -1;
    std::optional<Stream> m_out, m_err;
};

struct Result {
    int code = 0;
    std::string out, err;
};

inline Result result(Words words, const std::string &program = UCX_GAUDI_COMMAND) {
    Command command(std::move(words), program);
    Result result;
    result.out = command.out().rest(); // no test fills the other pipe meanwhile
    result.err = command.err().rest();
    result.code = command.wait();
    return result;
}

/// The first line of every `run`.
inline const std::string kSoftware = "ucx_gaudi: software: this runs on softgaudi, not on a Gaudi card\n";
inline const std::string kSoftwareWithHca =
    "ucx_gaudi: software: this runs on softgaudi and softhca, not on a Gaudi card and an RDMA NIC\n";

inline Words run(Words options, Words command) {
    Words words = {"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return words;
}

inline Words shell(const std::string &script) { return {"/bin/sh", "-c", script}; }

} // namespace cli
