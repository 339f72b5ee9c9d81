// SPDX-License-Identifier: BSD-3-Clause
#include "common/kernel.h"

#include "os/format.h"
#include "os/system_call.h"

#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace soft {
namespace {

using gaudi::os::system_call;

constexpr std::string_view kMemoryKernel = "a kernel with CONFIG_CROSS_MEMORY_ATTACH";
constexpr uint64_t kLeastRoom = 8 << 20; // above the state of eight open cards (5.3 MiB) and of a fabric (3.2 MiB)

Unexpected describe_denial(std::string_view call, std::string_view kernel, int error, std::string_view use) {
    return Unexpected(
        gaudi::os::format("{} is {} ({}), so {}: allow it in the seccomp profile of the container (Docker: "
                          "--cap-add SYS_PTRACE){}",
                          call, error == ENOSYS ? "missing or denied" : "denied", name_errno(error), use,
                          error == ENOSYS ? gaudi::os::format(", or run {}", kernel) : ""));
}

/// A shortage says nothing of the calls.
bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

} // namespace

Expected<void> try_memory_calls(std::string_view use) {
    char from = 0, to = 0;
    const iovec local{&to, 1}, remote{&from, 1};
    if (system_call(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) != 1)
        return describe_denial("process_vm_readv", kMemoryKernel, errno, use);
    if (system_call(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0) != 1)
        return describe_denial("process_vm_writev", kMemoryKernel, errno, use);
    return {};
}

Expected<void> try_descriptor_calls(std::string_view use) {
    const auto process = static_cast<int>(system_call(SYS_pidfd_open, getpid(), 0));
    if (process < 0)
        return is_shortage(errno) ? Expected<void>() : describe_denial("pidfd_open", "Linux 5.3 or later", errno, use);
    const auto copy = static_cast<int>(system_call(SYS_pidfd_getfd, process, process, 0));
    const int error = errno;
    close(process);
    if (copy < 0)
        return is_shortage(error) ? Expected<void>() : describe_denial("pidfd_getfd", "Linux 5.6 or later", error, use);
    close(copy);
    return {};
}

Expected<void> check_room(const std::string &dir, const char *variable) {
    struct statfs info {};
    if (statfs(dir.c_str(), &info) != 0 || info.f_blocks == 0) // a tmpfs without a limit has 0 blocks
        return {};
    const uint64_t free = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
    if (free >= kLeastRoom)
        return {};
    return Unexpected(
        gaudi::os::format("{}: its tmpfs has {} KiB free, and {} KiB are needed: free space there, enlarge it "
                          "(Docker: --shm-size), or set {} to a directory on another tmpfs",
                          dir, free >> 10, kLeastRoom >> 10, variable));
}

} // namespace soft
