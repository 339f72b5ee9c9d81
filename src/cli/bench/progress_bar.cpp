// SPDX-License-Identifier: BSD-3-Clause
#include "progress_bar.h"

#include "os/format.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gaudi::cli::bench {

std::string format_progress(std::size_t done, std::size_t all, const std::string &what) {
    constexpr std::size_t kWidth = 30;
    const std::size_t full = all == 0 ? kWidth : std::min(done, all) * kWidth / all;
    return os::format("[{}{}] {:>3}/{}  {}", std::string(full, '#'), std::string(kWidth - full, '.'), done, all, what);
}

ProgressBar::ProgressBar(std::size_t all) : m_terminal(::isatty(STDERR_FILENO) == 1), m_all(all) {}

void ProgressBar::show(const std::string &what) {
    if (!m_terminal)
        return;
    std::string line = format_progress(m_done, m_all, what);
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        line.resize(std::min<std::size_t>(line.size(), size.ws_col - 1u)); // a line that wraps cannot be cleared
    os::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
    m_shown = true;
}

void ProgressBar::clear() {
    if (!m_shown)
        return;
    os::print(stderr, "\r\033[K");
    std::fflush(stderr);
    m_shown = false;
}

} // namespace gaudi::cli::bench
