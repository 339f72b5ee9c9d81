// SPDX-License-Identifier: BSD-3-Clause
#include "counter_page.h"

#include "counter_directory.h"
#include "lock_ranks.h"
#include "os/format.h"
#include "os/mutex.h"
#include "os/system_call.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <string_view>

namespace gaudi {
namespace {

constexpr std::size_t kSweep = 64; // files of other processes that a start looks at

constinit os::Mutex g_mutex{rank::kCounterPage};
constinit CounterPage g_private;
constinit bool g_tried GAUDI_GUARDED_BY(g_mutex) = false;
constinit std::string *g_failure GAUDI_GUARDED_BY(g_mutex) = nullptr; // never freed
// The path of the file, and the process that removes it at exit.
constinit char g_path[512] = "";
constinit pid_t g_owner = 0;

template <std::size_t Size>
void copy_text(std::array<char, Size> &to, std::string_view from) {
    to[from.copy(to.data(), Size - 1)] = '\0';
}

void fill(CounterPage &page, const std::string &library_version) {
    page.layout = CounterPage::kLayout;
    page.size = sizeof(CounterPage);
    page.process = static_cast<std::uint32_t>(::getpid());
    page.started_seconds = static_cast<std::uint64_t>(::time(nullptr));
    copy_text(page.command, program_invocation_short_name);
    copy_text(page.library, library_version);
    page.refused_copies.store(value_of(counters().refused_copies), std::memory_order_relaxed);
    page.magic = CounterPage::kMagic;
}

/// Null on failure. Not by the C library, whose functions UCX hooks: in a forked child its hook can wait for a lock that a
/// thread of the parent held.
void *map_page(void *place, int flags, int file) {
    const long address = os::system_call(SYS_mmap, place, sizeof(CounterPage), PROT_READ | PROT_WRITE, flags, file, 0);
    return address == -1 ? nullptr : reinterpret_cast<void *>(address);
}

/// A file that has no name before it is complete and locked.
thunk::Result<CounterPage *> create_page(const std::string &library_version) {
    auto directory = CounterDirectory::open(true);
    if (!directory)
        return tl::unexpected(directory.error());
    directory->for_each(kSweep, [](int, const std::string &) {}); // killed processes leave their pages
    const auto refuse = [](const char *call) {
        return tl::unexpected(thunk::Error{errno, call,
                                           os::format("counters cannot be published in {}: {}: {}",
                                                      CounterDirectory::path(), call, std::strerror(errno))});
    };
    const thunk::Fd file(::openat(directory->fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file)
        return refuse("open");
    rlimit most{}; // beyond it the kernel would send SIGXFSZ to the program
    if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < sizeof(CounterPage)) {
        errno = EFBIG;
        return refuse("fallocate");
    }
    // A page that a full file system cannot provide later would end the program with SIGBUS.
    if (::fallocate(file.get(), 0, 0, sizeof(CounterPage)) != 0)
        return refuse("fallocate");
    if (::flock(file.get(), LOCK_EX) != 0)
        return refuse("flock");
    void *memory = map_page(nullptr, MAP_SHARED, file.get());
    if (!memory)
        return refuse("mmap");
    auto *page = new (memory) CounterPage;
    fill(*page, library_version);
    const std::string name = CounterDirectory::make_page_name();
    const std::string own = os::format("/proc/self/fd/{}", file.get());
    if (::linkat(AT_FDCWD, own.c_str(), directory->fd(), name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        const auto refusal = refuse("linkat");
        os::system_call(SYS_munmap, memory, sizeof(CounterPage));
        return refusal;
    }
    const std::string path = CounterDirectory::path() + "/" + name;
    if (path.size() < sizeof g_path)
        g_path[path.copy(g_path, sizeof g_path - 1)] = '\0';
    g_owner = ::getpid();
    return page;
}

void remove_at_exit() {
    if (g_owner == ::getpid() && g_path[0] != '\0')
        ::unlink(g_path);
}

void lock_for_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { g_mutex.lock(); }
void unlock_after_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { g_mutex.unlock(); }

/// The file is the parent's, and its lock must end with the parent: memory of the child's own takes the place of the
/// mapping, because sessions of the parent still point there.
void start_over_in_child() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    CounterPage *page = detail::counter_page.load(std::memory_order_relaxed);
    if (page != &g_private)
        map_page(page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    else
        new (page) CounterPage;
    g_tried = false;
    g_failure = nullptr;
    g_path[0] = '\0';
    g_mutex.unlock();
}

// When the library is loaded: a fork while another thread publishes the page must find the handlers.
[[maybe_unused]] const int s_registered = ::pthread_atfork(lock_for_fork, unlock_after_fork, start_over_in_child);

} // namespace

constinit std::atomic<CounterPage *> detail::counter_page{&g_private};

void publish_counters(const std::string &library_version) {
    const os::MutexLock lock(g_mutex);
    if (g_tried)
        return;
    g_tried = true;
    static bool s_removed_at_exit = false; // also by a forked child
    if (!s_removed_at_exit) {
        s_removed_at_exit = true;
        std::atexit(remove_at_exit);
    }
    const auto created = create_page(library_version);
    if (created) {
        detail::counter_page.store(*created, std::memory_order_release);
        return;
    }
    fill(counters(), library_version);
    g_failure = new std::string(created.error().text);
}

std::string why_not_published() {
    const os::MutexLock lock(g_mutex);
    return g_failure ? *g_failure : "";
}

} // namespace gaudi
