// SPDX-License-Identifier: BSD-3-Clause
// A line on stderr that shows how far a run is, where stderr is a terminal; nothing otherwise.
#pragma once

#include <cstddef>
#include <string>

namespace gaudi::cli::bench {

/// The line: "[####......]  4/10  what".
std::string format_progress(std::size_t done, std::size_t all, const std::string &what);

class ProgressBar {
public:
    explicit ProgressBar(std::size_t all);
    ~ProgressBar() { clear(); }
    ProgressBar(const ProgressBar &) = delete;
    ProgressBar &operator=(const ProgressBar &) = delete;

    /// The step that begins.
    void show(const std::string &what);
    void count_step() { ++m_done; }
    /// Clears the bar; call it before other output.
    void clear();

private:
    const bool m_terminal;
    const std::size_t m_all;
    std::size_t m_done = 0;
    bool m_shown = false;
};

} // namespace gaudi::cli::bench
