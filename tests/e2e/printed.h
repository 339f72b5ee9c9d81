// SPDX-License-Identifier: BSD-3-Clause
// What this process and its children print on stdout, where UCX logs. Printed for real at the end.
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
    /// UCX's warnings and errors so far.
    std::vector<std::string> complaints() const;

private:
    const int m_file, m_stdout;
};

} // namespace e2e
