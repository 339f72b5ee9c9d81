// SPDX-License-Identifier: BSD-3-Clause
// Restrictions of a container, put on the process of a test: a denied system call, a small tmpfs. No privilege is needed.
#pragma once

#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace soft {

/// A system call of which a test denies every use.
struct DeniedCall {
    const char *name;
    int number;
    bool required; // nothing works without it

    friend void PrintTo(const DeniedCall &call, std::ostream *out) { *out << call.name; }
};
inline constexpr std::array kDeniedCalls = {
    DeniedCall{"process_vm_readv", SYS_process_vm_readv, true},
    DeniedCall{"process_vm_writev", SYS_process_vm_writev, true},
    DeniedCall{"pidfd_open", SYS_pidfd_open, false},
    DeniedCall{"pidfd_getfd", SYS_pidfd_getfd, false},
};

/// Lets the call fail with `error` from now on, as the seccomp profile of a container does.
inline void deny(const DeniedCall &call, int error) {
    std::array filter = {
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0) << std::strerror(errno);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0) << std::strerror(errno);
}

/// Denies io_uring, without which a card maps host memory unpinned.
inline void leave_unpinned() {
    unsetenv("SOFTGAUDI_PIN");
    deny({"io_uring_setup", SYS_io_uring_setup, false}, EPERM);
}

/// A tmpfs with a limit on a directory, in namespaces of this process; 0 KiB is no limit.
class LimitedTmpfs {
public:
    LimitedTmpfs(const std::string &directory, unsigned kibibytes) : m_directory(directory) {
        const unsigned user = getuid(), group = getgid();
        EXPECT_EQ(unshare(CLONE_NEWUSER | CLONE_NEWNS), 0) << std::strerror(errno);
        // A user without an id in the namespace cannot create files.
        write("/proc/self/setgroups", "deny");
        write("/proc/self/uid_map", std::to_string(user) + " " + std::to_string(user) + " 1");
        write("/proc/self/gid_map", std::to_string(group) + " " + std::to_string(group) + " 1");
        const std::string options = "size=" + std::to_string(kibibytes) + "k";
        EXPECT_EQ(mount("tmpfs", directory.c_str(), "tmpfs", 0, options.c_str()), 0) << std::strerror(errno);
    }
    ~LimitedTmpfs() { EXPECT_EQ(umount2(m_directory.c_str(), MNT_DETACH), 0) << std::strerror(errno); }
    LimitedTmpfs(const LimitedTmpfs &) = delete;
    LimitedTmpfs &operator=(const LimitedTmpfs &) = delete;

private:
    static void write(const char *file, const std::string &text) {
        std::ofstream out(file);
        out << text << std::flush;
        EXPECT_TRUE(out.good()) << file;
    }

    std::string m_directory;
};

} // namespace soft
