// SPDX-License-Identifier: BSD-3-Clause
#include "allocator.h"

#include "gaudi/copy/mover.h"
#include "os/mutex.h"
#include "ucx/abi_perftest.h"
#include "ucx/log.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace gaudi::perftest {

using namespace ucx;

namespace {

Host *s_host = nullptr; // ucx_perftest runs on one UCX

constexpr os::LockRank kMoverRank{100, "mover of ucx_perftest"}; // before all locks of the device layer

/// The tool copies in several threads, and a mover serves one.
struct SharedMover {
    explicit SharedMover(Cards &cards) : mover(cards) {}
    os::Mutex mutex{kMoverRank};
    Mover mover GAUDI_GUARDED_BY(mutex);
};

SharedMover *shared_mover() {
    static SharedMover *only = [] {
        const auto cards = Cards::get();
        return cards && !(*cards)->empty() ? new SharedMover(**cards) : nullptr;
    }();
    return only;
}

void copy(void *target, const void *source, std::size_t length) {
    SharedMover *shared = shared_mover();
    if (!shared)
        return;
    const os::MutexLock lock(shared->mutex);
    if (const auto copied = shared->mover.copy_now(reinterpret_cast<std::uint64_t>(target),
                                                   reinterpret_cast<std::uint64_t>(source), length);
        !copied)
        GAUDI_UCX_LOG(*s_host, ERROR, "%s", copied.error().text.c_str());
}

ucs_status_t init(ucx_perf_context *) noexcept {
    if (shared_mover())
        return UCS_OK;
    // The tool calls this before UCX opens a domain, so nothing has been logged about the cards yet.
    const auto cards = Cards::get();
    GAUDI_UCX_LOG(*s_host, ERROR, "%s", (cards ? (*cards)->why_empty() : cards.error().text).c_str());
    return UCS_ERR_NO_DEVICE;
}

/// The part of the tool's context around `memory`, which is one of the two buffers in it.
const ucx_perf_uct_part &part_around(const uct_allocated_memory *memory) {
    // The tool allocates the first buffer first. So `memory` is the second one exactly if the buffer before it has been
    // allocated in the domain of the same part; otherwise it is the first.
    const auto first = reinterpret_cast<const char *>(memory) - offsetof(ucx_perf_uct_part, send_mem);
    const auto second = reinterpret_cast<const char *>(memory) - offsetof(ucx_perf_uct_part, recv_mem);
    const auto *as_second = reinterpret_cast<const ucx_perf_uct_part *>(second);
    const bool is_second = as_second->send_mem.md != nullptr && as_second->send_mem.md == as_second->md;
    return is_second ? *as_second : *reinterpret_cast<const ucx_perf_uct_part *>(first);
}

ucs_status_t uct_alloc(const ucx_perf_context *, std::size_t length, unsigned flags,
                       uct_allocated_memory *memory) noexcept {
    const uct_md_h md = part_around(memory).md;
    const auto &call = s_host->call();
    void *address = nullptr;
    uct_mem_h memh = nullptr;
    std::size_t size = length;
    const ucs_status_t status = call.uct_md_mem_alloc(md, &size, &address, UCS_MEMORY_TYPE_GAUDI,
                                                      UCS_SYS_DEVICE_ID_UNKNOWN, flags, "ucx_perftest", &memh);
    if (status != UCS_OK)
        return status;
    memory->address = address;
    memory->length = size;
    memory->method = UCT_ALLOC_METHOD_MD;
    memory->mem_type = UCS_MEMORY_TYPE_GAUDI;
    memory->md = md;
    memory->memh = memh;
    memory->sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
    return UCS_OK;
}

void uct_free(const ucx_perf_context *, uct_allocated_memory *memory) noexcept {
    s_host->call().uct_md_mem_free(memory->md, memory->memh);
}

void copy_any(void *target, ucs_memory_type_t target_type, const void *source, ucs_memory_type_t source_type,
              std::size_t length) noexcept {
    if (target_type == UCS_MEMORY_TYPE_HOST && source_type == UCS_MEMORY_TYPE_HOST)
        std::memcpy(target, source, length);
    else
        copy(target, source, length);
}

void *fill(void *target, int value, std::size_t length) noexcept {
    constexpr std::size_t kPiece = 1 << 20;
    const std::vector<unsigned char> bytes(std::min(length, kPiece), static_cast<unsigned char>(value));
    for (std::size_t done = 0; done < length; done += bytes.size())
        copy(static_cast<char *>(target) + done, bytes.data(), std::min(bytes.size(), length - done));
    return target;
}

constexpr ucx_perf_allocator kAllocator = {
    .mem_type = UCS_MEMORY_TYPE_GAUDI,
    .init = init,
    .uct_alloc = uct_alloc,
    .uct_free = uct_free,
    .memcpy = copy_any,
    .memset = fill,
};

} // namespace

ucs_status_t register_allocator(Host &host) {
    auto **allocators = static_cast<const ucx_perf_allocator **>(dlsym(RTLD_DEFAULT, ucx_perf_allocators_symbol));
    if (!allocators)
        return UCS_ERR_UNSUPPORTED;
    if (const auto found = host.find_uct(); !found)
        return UCS_ERR_UNSUPPORTED;
    s_host = &host;
    allocators[UCS_MEMORY_TYPE_GAUDI] = &kAllocator;
    return UCS_OK;
}

} // namespace gaudi::perftest
