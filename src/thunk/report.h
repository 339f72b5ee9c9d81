// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "error.h"

namespace gaudi::thunk {

/// Receives an error that has no caller to return to: a release that failed in a destructor.
using Report = void (*)(const Error &);

/// Replaces the report function and returns the one before it. nullptr restores the default: a line on stderr.
Report set_report(Report report) noexcept;

void report(const Error &error) noexcept;

/// Runs a release for a destructor: a failure is reported, nothing is thrown.
template <class Release>
void release_or_report(Release &&release) noexcept {
    try {
        if (const Result<void> released = release(); !released)
            report(released.error());
    } catch (...) { // memory for the sentence is all that can be short, and then there is nothing to report with
    }
}

} // namespace gaudi::thunk
