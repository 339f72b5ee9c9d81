// SPDX-License-Identifier: BSD-3-Clause
#include "output_of.h"

#include "thunk/fd.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace gaudi::cli {
namespace {

FullOutput run(const std::vector<std::string> &command, bool with_errors) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return {};
    const thunk::Fd in(ends[0]);
    thunk::Fd out(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    if (with_errors)
        ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDERR_FILENO);
    else
        ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<char *> words;
    for (const std::string &word : command)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    pid_t child = -1;
    const int failed = ::posix_spawnp(&child, words.front(), &actions, nullptr, words.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&actions);
    (void)out.close();
    if (failed != 0)
        return {};
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(in.get(), buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return {status == 0, std::move(text)};
}

} // namespace

std::string output_of(const std::vector<std::string> &command) {
    FullOutput got = run(command, false);
    return got.succeeded ? std::move(got.text) : std::string();
}

FullOutput full_output_of(const std::vector<std::string> &command) { return run(command, true); }

} // namespace gaudi::cli
