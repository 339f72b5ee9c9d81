// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_GAUDI_TESTS_THUNK_REPORTED_H
#define UCX_GAUDI_TESTS_THUNK_REPORTED_H

#include <vector>

#include "thunk/report.h"

namespace gaudi::thunk {

// Collects what destructors report while it lives.
class Reported {
public:
    Reported() : before_(set_report([](const Error &error) { errors().push_back(error); })) { errors().clear(); }
    Reported(const Reported &) = delete;
    Reported &operator=(const Reported &) = delete;
    ~Reported() { set_report(before_); }

    static std::vector<Error> &errors() {
        static auto *all = new std::vector<Error>;
        return *all;
    }

private:
    Report before_;
};

} // namespace gaudi::thunk

#endif
