// SPDX-License-Identifier: BSD-3-Clause
// Answers access(), by which the product looks for drivers, in place of the C library.
#include "machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace gaudi::test {
bool machine_has_nic = true;
std::atomic<unsigned> looks_at_machine{0};
} // namespace gaudi::test

extern "C" __attribute__((visibility("default"))) int access(const char *path, int mode) noexcept {
    const std::string_view name = path;
    ++gaudi::test::looks_at_machine;
    if (name == "/sys/class/infiniband" && gaudi::test::machine_has_nic)
        return 0;
    if (name == "/sys/class" || name == "/sys/module")
        return 0;
    if (name.starts_with("/dev/infiniband") || name.starts_with("/sys/")) {
        errno = ENOENT;
        return -1;
    }
    return faccessat(AT_FDCWD, path, mode, 0);
}
