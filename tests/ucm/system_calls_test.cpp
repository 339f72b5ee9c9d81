// SPDX-License-Identifier: BSD-3-Clause
// Hooked calls in a process that the kernel ends at its next system call.
#include "framework_program.h"

#include "ucm/hooked_calls.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>

using namespace gaudi;
using namespace gaudi::test;

namespace {

/// Device memory without a driver.
struct DriverlessMemory {
    static inline std::uint64_t handles = 0, lowest = 0;

    static std::uint64_t alloc(int, std::uint64_t, std::uint64_t, bool, bool) { return ++handles; }
    static int free(int, std::uint64_t) { return 0; }
    static std::uint64_t map(int, std::uint64_t handle, std::uint64_t) { return lowest + handle % 8 * kMiB; }
    static int unmap(int, std::uint64_t) { return 0; }
};

/// Makes the kernel end the process at any system call but exit_group. False where the kernel does not allow that.
bool forbid_system_calls() {
    std::array<sock_filter, 4> rules = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    }};
    sock_fprog program{rules.size(), rules.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class HookedCall : public GaudiTest {
protected:
    HookedCall() { DriverlessMemory::lowest = card().address_range().base; }

    void use(int fd) {
        const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
        const std::uint64_t address = m_calls.map(fd, handle, 0);
        if (!find_region(address) || m_calls.unmap(fd, address) != 0 || find_region(address) ||
            m_calls.free(fd, handle) != 0)
            _exit(1);
    }

    ucm::HookedCalls m_calls{cards(),
                             {FrameworkProgram::call().open, FrameworkProgram::call().open_by_module_id,
                              FrameworkProgram::call().close, DriverlessMemory::alloc, DriverlessMemory::free,
                              DriverlessMemory::map, DriverlessMemory::unmap}};
};

TEST_F(HookedCall, makes_no_system_call) {
    const FrameworkProgram program(card().bus_id()); // opened without the hooks
    const int fd = program.fd();
    EXPECT_EXIT(
        {
            use(fd); // allocates tables, identifies the card and probes whether it exports
            if (!forbid_system_calls())
                _exit(2);
            for (int time = 0; time < 1000; ++time)
                use(fd);
            _exit(42);
        },
        ::testing::ExitedWithCode(42), "");
}

} // namespace
