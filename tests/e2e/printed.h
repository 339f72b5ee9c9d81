// SPDX-License-Identifier: BSD-3-Clause
// Captures stdout of this process and its children, where UCX logs, and prints it when the capture ends.
#pragma once

#include <string>
#include <vector>

namespace e2e {

class Printed {
public:
    Printed();
    ~Printed();
    Printed(const Printed &) = delete;
    Printed &operator=(const Printed &) = delete;

    std::string text() const;
    /// The warnings and errors that UCX has logged so far.
    std::vector<std::string> complaints() const;

private:
    const int m_file, m_stdout;
};

} // namespace e2e
