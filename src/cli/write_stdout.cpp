// SPDX-License-Identifier: BSD-3-Clause
#include "write_stdout.h"

#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gaudi::cli {

namespace {

/// Prints the sentence once, however many writes fail.
void report_failure(int error) {
    static bool reported = false;
    if (!reported)
        os::print(stderr, "ucx_gaudi: cannot write to stdout: {}\n",
                  error ? std::strerror(error) : "an earlier write failed");
    reported = true;
}

} // namespace

bool write_stdout(const std::string &text) {
    errno = 0;
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
        return true;
    report_failure(errno);
    return false;
}

bool finish_stdout() {
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
        return true;
    report_failure(errno);
    return false;
}

} // namespace gaudi::cli
