// SPDX-License-Identifier: BSD-3-Clause
// A libscal.so that has taken all memory of a card in one mapping and made two pools of it, as SCAL does on a Gaudi2
// (github.com/HabanaAI/Intel_Gaudi3_Software, commit adff76c, scal/src/platform/gaudi2: the user's pool lies behind
// those for firmware, and the last 4 KiB belong to none).
#include "standin.h"

#include "thunk/abi.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace {

constexpr std::uint64_t kFirmware = 256ull << 20;
constexpr std::uint64_t kLast = 4096;

struct Scal {
    int fd = -1;
    std::uint64_t memory = 0; // the driver's handle
    std::uint64_t mapping = 0;
    std::uint64_t size = 0;
};

std::mutex mutex;
Scal the_one; // a process has one card

} // namespace

int scal_init(int fd, const char *, gaudi::vendor::ScalHandle *scal, void *) {
    const std::lock_guard guard(mutex);
    hlthunk_hw_ip_info info{};
    if (hlthunk_get_hw_ip_info(fd, &info) != 0)
        return -1;
    const std::uint64_t page = info.device_mem_alloc_default_page_size;
    // All of it, unless a test wants a page to be left.
    const std::uint64_t left = std::getenv("STANDIN_LEAVES_A_PAGE") ? page : 0;
    Scal made{.fd = fd, .size = info.dram_size / page * page - left};
    made.memory = hlthunk_device_memory_alloc(fd, made.size, 0, false, false);
    if (made.memory == 0)
        return -5; // SCAL_OUT_OF_MEMORY
    made.mapping = hlthunk_device_memory_map(fd, made.memory, 0);
    if (made.mapping == 0) {
        hlthunk_device_memory_free(fd, made.memory);
        return -1;
    }
    the_one = made;
    *scal = &the_one;
    return gaudi::vendor::SCAL_SUCCESS;
}

void scal_destroy(gaudi::vendor::ScalHandle) {
    const std::lock_guard guard(mutex);
    hlthunk_memory_unmap(the_one.fd, the_one.mapping);
    hlthunk_device_memory_free(the_one.fd, the_one.memory);
    the_one = {};
}

int scal_get_handle_from_fd(int fd, gaudi::vendor::ScalHandle *scal) {
    if (const auto status = standin::fault("scal_get_handle_from_fd"))
        return *status;
    const std::lock_guard guard(mutex);
    if (fd < 0 || the_one.fd != fd)
        return -1;
    *scal = &the_one;
    return gaudi::vendor::SCAL_SUCCESS;
}

int scal_get_pool_handle_by_name(gaudi::vendor::ScalHandle scal, const char *name, gaudi::vendor::PoolHandle *pool) {
    if (const auto status = standin::fault("scal_get_pool_handle_by_name"))
        return *status;
    if (std::string_view(name) != "global_hbm")
        return -11; // SCAL_NOT_FOUND
    *pool = scal;
    return gaudi::vendor::SCAL_SUCCESS;
}

int scal_pool_get_infoV2(gaudi::vendor::PoolHandle pool, gaudi::vendor::PoolInfo *info) {
    if (const auto status = standin::fault("scal_pool_get_infoV2"))
        return *status;
    const std::lock_guard guard(mutex);
    const std::uint64_t size = the_one.size - kFirmware - kLast;
    *info = {
        .scal = pool,
        .name = "global_hbm",
        .index = 0,
        .base = the_one.mapping + kFirmware,
        .host_base = nullptr,
        .core_base = 0,
        .total = size,
        .free = size,
        .mapping = the_one.mapping,
    };
    return gaudi::vendor::SCAL_SUCCESS;
}
