// SPDX-License-Identifier: BSD-3-Clause
#include "write_stdout.h"

#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gaudi::cli {

bool write_stdout(const std::string &text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
        return true;
    os::print(stderr, "ucx_gaudi: cannot write to stdout: {}\n", std::strerror(errno));
    return false;
}

} // namespace gaudi::cli
