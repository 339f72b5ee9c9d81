// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <termios.h>

#include <string>

namespace gaudi::cli::top {

/// The terminal while a table is shown on it that changes: a screen of its own, keys without Enter. The destructor gives
/// the terminal back as it was.
class Terminal {
public:
    Terminal();
    ~Terminal();
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;

    /// Shows the text from the first line on, cut to the size of the terminal; false where stdout fails.
    bool show(const std::string &text) const;
    /// Waits; whether the user has typed q or a signal has asked for the end meanwhile.
    bool wait_for_end(int milliseconds);

private:
    bool m_reads_keys = false;
    termios m_before{};
};

} // namespace gaudi::cli::top
