// SPDX-License-Identifier: BSD-3-Clause
#include "hooks.h"

#include "gaudi/card/forks.h"
#include "hook_table.h"
#include "hooked_calls.h"
#include "linked_libraries.h"
#include "os/format.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace gaudi::ucm {
namespace {

std::atomic<HookedCalls *> s_calls{nullptr};
// Published before the first hook is in place: a thread may call through it while the others follow.
std::atomic<const RealCalls *> s_real{nullptr};
// In a forked child the hooks do nothing: its cards are the parent's, and a thread that it lacks may hold a lock.
std::atomic<unsigned> s_fork{0};

/// Null while the hooks are being put in place: they only make the call then.
HookedCalls *calls() {
    return s_fork.load(std::memory_order_relaxed) == fork_count() ? s_calls.load(std::memory_order_acquire) : nullptr;
}

const RealCalls &real() { return *s_real.load(std::memory_order_acquire); }

int hooked_open(int device_name, const char *bus_id) {
    const auto name = static_cast<hlthunk_device_name>(device_name);
    HookedCalls *hooked = calls();
    return hooked ? hooked->open(name, bus_id) : real().open(name, bus_id);
}

int hooked_open_by_module_id(std::uint32_t module_id) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->open_by_module_id(module_id) : real().open_by_module_id(module_id);
}

int hooked_close(int fd) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->close(fd) : real().close(fd);
}

std::uint64_t hooked_alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous, bool shared) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->alloc(fd, size, page_size, contiguous, shared)
                  : real().device_memory_alloc(fd, size, page_size, contiguous, shared);
}

int hooked_free(int fd, std::uint64_t handle) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->free(fd, handle) : real().device_memory_free(fd, handle);
}

std::uint64_t hooked_map(int fd, std::uint64_t handle, std::uint64_t hint) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->map(fd, handle, hint) : real().device_memory_map(fd, handle, hint);
}

int hooked_unmap(int fd, std::uint64_t address) {
    HookedCalls *hooked = calls();
    return hooked ? hooked->unmap(fd, address) : real().memory_unmap(fd, address);
}

struct Hook {
    const char *symbol;
    void *replacement;
};

template <class Function>
void *pointer(Function *function) {
    return reinterpret_cast<void *>(function);
}

const std::array kHooks = {
    Hook{"hlthunk_open", pointer(hooked_open)},
    Hook{"hlthunk_open_by_module_id", pointer(hooked_open_by_module_id)},
    Hook{"hlthunk_close", pointer(hooked_close)},
    Hook{"hlthunk_device_memory_alloc", pointer(hooked_alloc)},
    Hook{"hlthunk_device_memory_free", pointer(hooked_free)},
    Hook{"hlthunk_device_memory_map", pointer(hooked_map)},
    Hook{"hlthunk_memory_unmap", pointer(hooked_unmap)},
};
// UCX keeps them in a list for libraries that are loaded later.
std::array<ucx::ucm_reloc_patch, kHooks.size()> s_patches;

/// Whether another libhl-thunk than the one in use is loaded: calls to it would be sent to the one in use. A recorder is
/// in use itself, and the library that it names is called by it alone.
bool has_another_library(const thunk::Library &used) {
    Dl_info own{};
    if (dladdr(pointer(used.call().open), &own) == 0)
        return true;
    const auto differs = [](dl_phdr_info *info, std::size_t, void *base) {
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        const char *behind_recorder = ::secure_getenv("GAUDI_RECORD_THUNK");
        if (behind_recorder && path == behind_recorder)
            return 0;
        // Compared by load address, because one library may have several names.
        return path.substr(path.rfind('/') + 1).starts_with("libhl-thunk.so") &&
                       reinterpret_cast<void *>(info->dlpi_addr) != base
                   ? 1
                   : 0;
    };
    return dl_iterate_phdr(differs, own.dli_fbase) != 0;
}

ucx::Result<void> find_real(const thunk::Library &library) {
    static const RealCalls s_calls_of_library{
        .open = library.call().open,
        .open_by_module_id = library.call().open_by_module_id,
        .close = library.call().close,
        .device_memory_alloc = library.call().device_memory_alloc,
        .device_memory_free = library.call().device_memory_free,
        .device_memory_map = library.call().device_memory_map,
        .memory_unmap = library.call().memory_unmap,
    };
    if (!s_calls_of_library.open_by_module_id)
        return tl::unexpected(library.lacks("hlthunk_open_by_module_id"));
    if (has_another_library(library))
        return tl::unexpected(thunk::make_error(
            EEXIST, "hook", {},
            os::format("another libhl-thunk than {} is loaded; load one only, or name it in GAUDI_THUNK",
                       library.path())));
    s_real.store(&s_calls_of_library, std::memory_order_release);
    return {};
}

constexpr gaudi_hooks kTable = {
    .open = hooked_open,
    .open_by_module_id = hooked_open_by_module_id,
    .close = hooked_close,
    .device_memory_alloc = hooked_alloc,
    .device_memory_free = hooked_free,
    .device_memory_map = hooked_map,
    .memory_unmap = hooked_unmap,
};

/// Makes the names that libucm_gaudi exports global: a library that is loaded from now on finds them before those of its own
/// libhl-thunk. False where they would not be found first.
bool offer_to_later_libraries(const void *module) {
    Dl_info file{};
    if (!module || dladdr(module, &file) == 0)
        return false;
    void *handle = dlopen(file.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    auto *table = handle ? static_cast<gaudi_hooks *>(dlsym(handle, "gaudi_hooks")) : nullptr;
    if (!table)
        return false;
    *table = kTable;
    if (!dlopen(file.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        return false;
    return dlsym(RTLD_DEFAULT, "hlthunk_open") == dlsym(handle, "hlthunk_open");
}

ucx::Result<void> patch_all_libraries(Modify modify) {
    if (!modify)
        return tl::unexpected(thunk::make_error(ENOSYS, "hook", {}, "this UCX has no ucm_reloc_modify"));
    for (std::size_t i = 0; i < kHooks.size(); ++i) {
        s_patches[i] = {};
        s_patches[i].symbol = kHooks[i].symbol;
        s_patches[i].value = kHooks[i].replacement;
        if (modify(&s_patches[i]) != ucx::UCS_OK)
            return tl::unexpected(thunk::make_error(EIO, "ucm_reloc_modify", kHooks[i].symbol));
    }
    return {};
}

ucx::Result<void> install(Modify modify, const void *module) {
    const auto cards = Cards::get();
    if (!cards || !(*cards)->has_library())
        return {}; // there is no call to hook
    if (auto found = find_real((*cards)->library()); !found)
        return found;
    s_fork.store(fork_count(), std::memory_order_relaxed);
    // In this order, for a library that another thread loads meanwhile.
    const bool offered = offer_to_later_libraries(module);
    if (!offered || is_linked_by_loaded_library((*cards)->library()))
        if (auto patched = patch_all_libraries(modify); !patched)
            return patched;
    // All of them or none: a mapping that is seen when it is made must be seen when it is unmapped.
    s_calls.store(new HookedCalls(**cards, real()), std::memory_order_release);
    return {};
}

} // namespace

ucx::Result<void> install_hooks(Modify modify, const void *module) {
    static constinit os::Mutex mutex{rank::kHookInstallation};
    static bool done = false;
    const os::MutexLock lock(mutex);
    if (done)
        return {};
    done = true;
    return install(modify, module);
}

} // namespace gaudi::ucm
