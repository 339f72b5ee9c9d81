// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "thunk/report.h"

#include <vector>

namespace gaudi::thunk {

/// Collects what destructors report during its lifetime.
class Reported {
public:
    Reported() : m_before(set_report([](const Error &error) { errors().push_back(error); })) { errors().clear(); }
    Reported(const Reported &) = delete;
    Reported &operator=(const Reported &) = delete;
    ~Reported() { set_report(m_before); }

    static std::vector<Error> &errors() {
        static auto *all = new std::vector<Error>;
        return *all;
    }

private:
    Report m_before;
};

} // namespace gaudi::thunk
