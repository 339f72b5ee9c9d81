// SPDX-License-Identifier: BSD-3-Clause
// A libscal.so that allocates all memory of a card in one call, maps it at an address of its own choice and divides it into
// two pools, as SCAL does on a Gaudi2 (github.com/HabanaAI/Intel_Gaudi3_Software, commit adff76c,
// scal/src/platform/gaudi2: the user's pool follows the pools for firmware, and the last 4 KiB are in no pool). Any other
// allocation on the card makes it fail, and a driver that maps elsewhere ends the process.
#include "standin.h"

#include "thunk/abi.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace {

constexpr std::uint64_t kFirmwareSize = 256ull << 20;
constexpr std::uint64_t kUnusedTail = 4096;

/// Where SCAL maps the memory of a Gaudi2: the first of its addresses that is a multiple of the page in its lower 48 bits.
std::uint64_t choose_hint(std::uint64_t page) {
    constexpr std::uint64_t kFirst = 0x1001900000000000, kStep = 0x100000000000, kLower = (1ull << 48) - 1;
    std::uint64_t hint = kFirst;
    while ((hint & kLower) % page != 0)
        hint += kStep;
    return hint;
}

struct Scal {
    int fd = -1;
    std::uint64_t memory = 0; // the driver's handle
    std::uint64_t mapping = 0;
    std::uint64_t size = 0;
};

std::mutex s_mutex;
Scal s_scal; // a process has one card

} // namespace

int scal_init(int fd, const char *, gaudi::vendor::ScalHandle *scal, void *) {
    const std::lock_guard guard(s_mutex);
    hlthunk_hw_ip_info info{};
    if (hlthunk_get_hw_ip_info(fd, &info) != 0)
        return -1;
    const std::uint64_t page = info.device_mem_alloc_default_page_size;
    const std::uint64_t spare = std::getenv("STANDIN_SPARES_A_PAGE") ? page : 0;
    Scal made{.fd = fd, .size = info.dram_size / page * page - spare};
    made.memory = hlthunk_device_memory_alloc(fd, made.size, 0, false, false);
    if (made.memory == 0)
        return -5; // SCAL_OUT_OF_MEMORY
    const std::uint64_t hint = info.device_id == HL_PCI_ID_GAUDI2 ? choose_hint(page) : 0;
    made.mapping = hlthunk_device_memory_map(fd, made.memory, hint);
    if (made.mapping == 0) {
        hlthunk_device_memory_free(fd, made.memory);
        return -1;
    }
    if (hint != 0 && made.mapping != hint) { // an assertion of SCAL
        std::fprintf(stderr, "libscal stand-in: mapped at %#" PRIx64 " instead of the hint %#" PRIx64 "\n",
                     made.mapping, hint);
        std::abort();
    }
    s_scal = made;
    *scal = &s_scal;
    return gaudi::vendor::SCAL_SUCCESS;
}

void scal_destroy(gaudi::vendor::ScalHandle) {
    const std::lock_guard guard(s_mutex);
    hlthunk_memory_unmap(s_scal.fd, s_scal.mapping);
    hlthunk_device_memory_free(s_scal.fd, s_scal.memory);
    s_scal = {};
}

int scal_get_handle_from_fd(int fd, gaudi::vendor::ScalHandle *scal) {
    if (const auto status = standin::find_fault("scal_get_handle_from_fd"))
        return *status;
    const std::lock_guard guard(s_mutex);
    if (fd < 0 || s_scal.fd != fd)
        return -1;
    *scal = &s_scal;
    return gaudi::vendor::SCAL_SUCCESS;
}

int scal_get_pool_handle_by_name(gaudi::vendor::ScalHandle scal, const char *name, gaudi::vendor::PoolHandle *pool) {
    if (const auto status = standin::find_fault("scal_get_pool_handle_by_name"))
        return *status;
    if (std::string_view(name) != "global_hbm")
        return -11; // SCAL_NOT_FOUND
    *pool = scal;
    return gaudi::vendor::SCAL_SUCCESS;
}

int scal_pool_get_infoV2(gaudi::vendor::PoolHandle pool, gaudi::vendor::PoolInfo *info) {
    if (const auto status = standin::find_fault("scal_pool_get_infoV2"))
        return *status;
    const std::lock_guard guard(s_mutex);
    const std::uint64_t size = s_scal.size - kFirmwareSize - kUnusedTail;
    *info = {
        .scal = pool,
        .name = "global_hbm",
        .index = 0,
        .base = s_scal.mapping + kFirmwareSize,
        .host_base = nullptr,
        .core_base = 0,
        .total = size,
        .free = size,
        .mapping = s_scal.mapping,
    };
    return gaudi::vendor::SCAL_SUCCESS;
}
