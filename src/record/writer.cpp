// SPDX-License-Identifier: BSD-3-Clause
#include "writer.h"

#include "os/mutex.h"
#include "os/system_call.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace gaudi::record {
namespace {

enum class State : int { unknown, off, on };

constexpr os::LockRank kStart{30, "start of the recording"}; // a fork takes it after that of the host ranges
constinit os::Mutex s_starting{kStart};
std::atomic<State> s_state{State::unknown};
Head *s_head = nullptr; // set before s_state says `on`

// Which process of a chain of forks this is: what a thread cached before a fork is another process's.
std::atomic<std::uint32_t> s_forks{1};
std::atomic<std::uint32_t> s_announced{0}; // the fork whose process record is written

struct Self {
    std::uint32_t forks;
    std::uint32_t process;
    std::uint32_t thread;
};
constinit thread_local Self t_self{};

const Self &self() noexcept {
    const std::uint32_t forks = s_forks.load(std::memory_order_relaxed);
    if (t_self.forks != forks)
        t_self = {forks, static_cast<std::uint32_t>(::getpid()),
                  static_cast<std::uint32_t>(os::system_call(SYS_gettid))};
    return t_self;
}

void refuse(const char *file, const char *reason) noexcept {
    std::fprintf(stderr, "ucx_gaudi record: process %d is not recorded: %s: %s\n", ::getpid(), file, reason);
}

Head *map_file(const char *file) noexcept {
    const int fd = ::open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        refuse(file, std::strerror(errno));
        return nullptr;
    }
    Head *head = nullptr;
    struct stat status {};
    if (::fstat(fd, &status) == 0 && status.st_size > static_cast<off_t>(sizeof(Head))) {
        const auto size = static_cast<std::size_t>(status.st_size);
        void *mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) {
            head = static_cast<Head *>(mapped);
            // A file that `record` has closed is mostly shorter than its limit.
            if (std::memcmp(head->magic, kMagic, sizeof kMagic) != 0 || head->version != kVersion ||
                head->limit > size || head->end.load() != 0) {
                ::munmap(mapped, size);
                head = nullptr;
                errno = EINVAL;
            }
        }
    }
    if (!head)
        refuse(file, "it is no open recording of this version");
    ::close(fd);
    return head;
}

void before_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_starting.lock(); }
void after_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_starting.unlock(); }
void in_child() {
    after_fork();
    s_forks.fetch_add(1, std::memory_order_relaxed);
}

void start() noexcept {
    const os::MutexLock lock(s_starting);
    if (s_state.load(std::memory_order_acquire) != State::unknown)
        return;
    const char *file = ::secure_getenv(kFileVariable);
    s_head = file && *file ? map_file(file) : nullptr;
    ::pthread_atfork(before_fork, after_fork, in_child);
    s_state.store(s_head ? State::on : State::off, std::memory_order_release);
}

/// The first record of a process.
void announce() noexcept {
    char program[4096];
    const ssize_t got = ::readlink("/proc/self/exe", program, sizeof program);
    const std::size_t length = got > 0 ? static_cast<std::size_t>(got) : 0;
    const char *library = ::secure_getenv(kThunkVariable);
    const std::size_t named = library ? std::strlen(library) : 0;
    Record *record = reserve(sizeof(Record) + piece_size(length) + piece_size(named), Kind::process);
    if (!record)
        return;
    record->start_ns = record->end_ns = now_ns();
    record->result = static_cast<std::uint64_t>(::getppid());
    record->pieces = 2;
    PieceWriter pieces(reinterpret_cast<char *>(record + 1));
    pieces.add(PieceKind::name, 0, 0, program, length);
    pieces.add(PieceKind::library, 0, 0, library, named);
    commit(*record);
}

/// The process ran to its end. One that is killed, or ends by _exit, has no such record.
__attribute__((destructor)) void note_exit() {
    if (s_state.load(std::memory_order_acquire) != State::on || s_announced.load() != s_forks.load())
        return;
    if (Record *record = reserve(sizeof(Record), Kind::exit)) {
        record->start_ns = record->end_ns = now_ns();
        commit(*record);
    }
}

} // namespace

bool is_recording() noexcept {
    State state = s_state.load(std::memory_order_acquire);
    if (state == State::unknown) {
        start();
        state = s_state.load(std::memory_order_acquire);
    }
    if (state != State::on)
        return false;
    const std::uint32_t forks = s_forks.load(std::memory_order_relaxed);
    if (s_announced.load(std::memory_order_relaxed) != forks &&
        s_announced.exchange(forks, std::memory_order_relaxed) != forks)
        announce();
    return true;
}

Record *reserve(std::size_t size, Kind kind) noexcept {
    const std::uint64_t at = s_head->cursor.fetch_add(size, std::memory_order_relaxed);
    if (at + size > s_head->limit) {
        s_head->lost.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    auto *record = reinterpret_cast<Record *>(reinterpret_cast<char *>(s_head) + at);
    record->size = static_cast<std::uint32_t>(size);
    record->mark = kRecordMark;
    record->kind = kind;
    record->process = self().process;
    record->thread = self().thread;
    return record;
}

void commit(Record &record) noexcept { record.complete.store(1, std::memory_order_release); }

void PieceWriter::add(PieceKind kind, std::uint16_t argument, std::uint64_t address, const void *bytes,
                      std::size_t length) noexcept {
    auto *piece = reinterpret_cast<Piece *>(m_at);
    piece->kind = kind;
    piece->argument = argument;
    piece->length = static_cast<std::uint32_t>(length);
    piece->address = address;
    if (length != 0)
        std::memcpy(piece + 1, bytes, length);
    m_at += piece_size(length);
}

std::uint64_t now_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace gaudi::record
