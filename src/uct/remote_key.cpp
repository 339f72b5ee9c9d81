// SPDX-License-Identifier: BSD-3-Clause
#include "remote_key.h"

#include "os/format.h"
#include "os/system_call.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

namespace gaudi::uct {
namespace {

constexpr const char *kExporter = "habanalabs"; // the kernel's name of the driver

/// getpid without the system call: keys are packed for every message.
std::int32_t own_process() {
    static std::atomic<std::int32_t> known{0};
    std::int32_t pid = known.load(std::memory_order_relaxed);
    if (pid == 0) {
        static std::atomic<bool> hooked{false};
        if (!hooked.exchange(true))
            pthread_atfork(nullptr, nullptr, [] { known.store(0, std::memory_order_relaxed); });
        pid = getpid();
        known.store(pid, std::memory_order_relaxed);
    }
    return pid;
}

/// The exporter's name of a descriptor, from the kernel; empty where the kernel does not give it.
std::string exporter(int fd) {
    std::ifstream lines(os::format("/proc/self/fdinfo/{}", fd));
    constexpr std::string_view key = "exp_name:";
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(key))
            return line.substr(line.find_first_not_of(" \t", key.size()));
    return {};
}

tl::unexpected<Error> refuse(int code, std::string sentence) {
    return tl::unexpected(Error{code, "remote key", std::move(sentence)});
}

} // namespace

bool is_dmabuf(int fd) {
    std::array<char, 256> name{};
    const std::string link = os::format("/proc/self/fd/{}", fd);
    const ssize_t length = readlink(link.c_str(), name.data(), name.size());
    if (length <= 0)
        return false;
    const std::string_view path(name.data(), static_cast<std::size_t>(length));
    return path.substr(path.rfind('/') + 1).starts_with("dmabuf");
}

bool RemoteKey::own() const { return process == own_process(); }

RemoteKey RemoteKey::of(const MemoryHandle &handle) {
    if (handle.process != 0)
        return {handle.address, handle.length, handle.descriptor, handle.process};
    using Kind = MemoryHandle::Kind;
    const bool reachable = handle.kind != Kind::nothing && handle.kind != Kind::dmabuf;
    RemoteKey key{handle.address, handle.length, reachable ? kNotExported : kUnreachable, own_process()};
    if (handle.memory) {
        Region &region = handle.memory.region();
        // UCX rounds the ranges that it registers, so the end may lie beyond the mapping.
        key.length = std::min(key.length, region.export_size() - handle.memory.offset(key.address));
        key.descriptor = region.export_descriptor();
    }
    return key;
}

Result<RemoteKey> RemoteKey::read(const void *buffer) {
    RemoteKey key;
    std::memcpy(&key, buffer, sizeof key);
    if (key.process <= 0)
        return refuse(EINVAL,
                      os::format("a remote key names process {}, which is none: the key is damaged", key.process));
    if (key.descriptor < kUnreachable)
        return refuse(
            EINVAL, os::format("a remote key names descriptor {}, which is none: the key is damaged", key.descriptor));
    if (key.length == 0 || key.address + key.length < key.address)
        return refuse(EINVAL, os::format("a remote key names {} bytes at {:#x}, which is no range: the key is damaged",
                                         key.length, key.address));
    return key;
}

Result<Resolved> RemoteKey::find_mapping(Cards &cards) const {
    if (!own() || descriptor == kUnreachable)
        return Resolved{};
    if (const Resolved found = resolve(cards, address, length)) {
        const bool inside = length <= found.region().export_size() - found.offset(address);
        const bool named = descriptor < 0 || descriptor == found.region().known_export_descriptor();
        if (inside && named && found.is_current())
            return found;
    } else if (const Range range = cards.address_range();
               descriptor < 0 && (address >= range.base + range.length || address + length <= range.base)) {
        return Resolved{}; // host memory
    }
    return refuse(EINVAL, os::format("a remote key of this process names {} bytes at {:#x} with dma-buf descriptor {}, "
                                     "and no mapping of Gaudi memory has both: it was freed, or the key is damaged",
                                     length, address, descriptor));
}

Result<thunk::Fd> RemoteKey::fetch() const {
    if (descriptor < 0)
        return refuse(ENOTSUP, "the memory that a remote key names is not exported as a dma-buf");
    const thunk::Fd target(static_cast<int>(os::system_call(SYS_pidfd_open, process, 0)));
    if (!target)
        return refuse(errno, os::format("process {} of a remote key cannot be reached: {} (is it in another pid "
                                        "namespace?)",
                                        process, std::strerror(errno)));
    thunk::Fd fetched(static_cast<int>(os::system_call(SYS_pidfd_getfd, target.get(), descriptor, 0)));
    if (!fetched)
        return refuse(errno,
                      os::format("descriptor {} of process {} cannot be fetched: {}{}", descriptor, process,
                                 std::strerror(errno),
                                 errno == EPERM ? " (ptrace rules forbid it, see kernel.yama.ptrace_scope)" : ""));
    const off_t size = lseek(fetched.get(), 0, SEEK_END);
    if (!is_dmabuf(fetched.get()) || size < 0 || static_cast<std::uint64_t>(size) < length)
        return refuse(EINVAL, os::format("descriptor {} of process {} is not a dma-buf of at least {} bytes",
                                         descriptor, process, length));
    if (const std::string name = exporter(fetched.get()); !name.empty() && name != kExporter)
        return refuse(EINVAL, os::format("the dma-buf {} of process {} is exported by {}, not by {}", descriptor,
                                         process, name, kExporter));
    return fetched;
}

} // namespace gaudi::uct
