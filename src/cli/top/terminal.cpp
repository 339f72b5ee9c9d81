// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.h"

#include "cli/write_stdout.h"
#include "end_signal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>

namespace gaudi::cli::top {
namespace {

constexpr const char *kEnter = "\033[?1049h\033[?25l", *kLeave = "\033[?25h\033[?1049l";

/// The lines that fit, each cut to the width.
std::string cut(const std::string &text, std::size_t width, std::size_t height) {
    std::string out;
    std::size_t begin = 0;
    for (std::size_t line = 0; line < height && begin < text.size(); ++line) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        if (line > 0)
            out += "\r\n";
        out += text.substr(begin, std::min(end - begin, width)) + "\033[K"; // and what an earlier line has left there
        begin = end + 1;
    }
    return out;
}

} // namespace

Terminal::Terminal() {
    note_end_signals();
    if (::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &m_before) == 0) {
        termios keys = m_before;
        keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        keys.c_cc[VMIN] = 0;
        keys.c_cc[VTIME] = 0;
        keys.c_cc[VSUSP] = _POSIX_VDISABLE; // ^Z would leave the shell on this screen
        m_reads_keys = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    write_stdout(kEnter);
}

Terminal::~Terminal() {
    write_stdout(kLeave);
    if (m_reads_keys)
        ::tcsetattr(STDIN_FILENO, TCSANOW, &m_before);
}

bool Terminal::show(const std::string &text) const {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    return write_stdout("\033[H" + cut(text, known ? size.ws_col : 80, known ? size.ws_row : 24) + "\033[J");
}

bool Terminal::wait_for_end(int milliseconds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (!has_end_signal()) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now()).count();
        if (left <= 0)
            return false;
        pollfd keys{STDIN_FILENO, POLLIN, 0};
        if (poll_until_end(std::span(&keys, m_reads_keys ? 1 : 0), static_cast<int>(left)) <= 0)
            continue;
        char key = 0;
        if (::read(STDIN_FILENO, &key, 1) != 1)
            m_reads_keys = false; // the terminal is gone
        if (key == 'q' || key == 'Q')
            return true;
    }
    return true;
}

} // namespace gaudi::cli::top
