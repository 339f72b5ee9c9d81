// SPDX-License-Identifier: BSD-3-Clause
#include "synapse.h"

#include "gaudi/card/adoption.h"
#include "gaudi/card/card_identity.h"
#include "os/format.h"
#include "synapse_status.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <new>
#include <type_traits>

namespace gaudi {
namespace {

/// The number of libraries that this process has loaded so far.
unsigned long long count_loads() noexcept {
    unsigned long long count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *result) {
            *static_cast<unsigned long long *>(result) = info->dlpi_adds;
            return 1; // each entry has the same number
        },
        &count);
    return count;
}

/// The functions of a library that the program may load at any time.
template <class Functions>
class LateLibrary {
public:
    explicit constexpr LateLibrary(const char *name) : m_name(name) {}

    const Functions *get() noexcept {
        if (const Functions *found = m_found.load(std::memory_order_acquire))
            return found;
        // A dlopen that finds nothing searches the whole library path, so it is made only after a library was loaded.
        const unsigned long long now = count_loads();
        if (now == m_searched.load(std::memory_order_acquire))
            return nullptr;
        // No lock is taken here: the caller may hold the loader's own.
        void *library = dlopen(m_name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
        if (library == nullptr) {
            m_searched.store(now, std::memory_order_release);
            return nullptr;
        }
        // The handle is kept, so that the functions are not unloaded.
        const Functions *mine = new (std::nothrow) Functions(library), *found = nullptr;
        if (mine != nullptr && m_found.compare_exchange_strong(found, mine, std::memory_order_acq_rel))
            return mine;
        delete mine; // another thread was faster
        dlclose(library);
        return found;
    }

    /// The result of an earlier get().
    const Functions *found() const noexcept { return m_found.load(std::memory_order_acquire); }

private:
    const char *m_name;
    std::atomic<const Functions *> m_found{nullptr};
    std::atomic<unsigned long long> m_searched{0};
};

struct Scal {
    explicit Scal(void *library) noexcept
        : handle(reinterpret_cast<vendor::scal_get_handle_from_fd *>(dlsym(library, "scal_get_handle_from_fd"))),
          pool(
              reinterpret_cast<vendor::scal_get_pool_handle_by_name *>(dlsym(library, "scal_get_pool_handle_by_name"))),
          info(reinterpret_cast<vendor::scal_pool_get_infoV2 *>(dlsym(library, "scal_pool_get_infoV2"))) {}

    vendor::scal_get_handle_from_fd *handle;
    vendor::scal_get_pool_handle_by_name *pool;
    vendor::scal_pool_get_infoV2 *info;
};

constinit LateLibrary<Synapse> synapse{"libSynapse.so"};
constinit LateLibrary<Scal> scal{"libscal.so"};
static_assert(std::is_trivially_destructible_v<LateLibrary<Synapse>>, "calls come after exit handlers have run");

/// The descriptor of the device. Bytes that the library does not write stay -1: an older one, whose structure is shorter,
/// gives no descriptor.
template <class Info>
int query_descriptor(vendor::Status (*call)(vendor::DeviceId, Info *)) noexcept {
    struct {
        Info info;
        char spare[64]; // newer ones may have grown
    } answer;
    std::memset(static_cast<void *>(&answer), 0xff, sizeof(answer));
    return call(Synapse::kDevice, &answer.info) == vendor::synSuccess ? static_cast<int>(answer.info.fd) : -1;
}

} // namespace

const Synapse *Synapse::loaded() noexcept {
    scal.get(); // pools() is called with locks held, and must not be the first to look
    return synapse.get();
}

const Synapse *Synapse::holder_of(const CardIdentity &card) noexcept {
    const Synapse *found = loaded();
    const int fd = found ? found->descriptor() : -1;
    return fd >= 0 && is_compute_node(card, fd).value_or(false) ? found : nullptr;
}

Synapse::Synapse(void *library) noexcept {
#define GAUDI_SYNAPSE_FIND(name) m_call.name = reinterpret_cast<vendor::syn##name *>(dlsym(library, "syn" #name));
    GAUDI_SYNAPSE_INFO(GAUDI_SYNAPSE_FIND)
    GAUDI_SYNAPSE_MEMORY(GAUDI_SYNAPSE_FIND)
    GAUDI_SYNAPSE_COPY(GAUDI_SYNAPSE_FIND)
#undef GAUDI_SYNAPSE_FIND
}

int Synapse::descriptor() const noexcept {
    int fd = -1;
    if (m_call.DeviceGetInfoV2 != nullptr)
        fd = query_descriptor(m_call.DeviceGetInfoV2);
    else if (m_call.DeviceGetInfo != nullptr)
        fd = query_descriptor(m_call.DeviceGetInfo);
    return fd < 0 ? -1 : fd;
}

std::vector<Synapse::Pool> Synapse::pools(int fd) const {
    const Scal *library = scal.found();
    if (fd < 0 || library == nullptr || library->handle == nullptr || library->pool == nullptr ||
        library->info == nullptr)
        return {};
    vendor::ScalHandle handle = nullptr;
    vendor::PoolHandle pool = nullptr;
    struct {
        vendor::PoolInfo info;
        char spare[64]; // newer ones may have grown
    } answer{};
    // In SCAL's debug builds a null handle is an assertion, so each step must have succeeded before the next.
    if (library->handle(fd, &handle) != vendor::SCAL_SUCCESS || handle == nullptr ||
        library->pool(handle, vendor::kUserPool, &pool) != vendor::SCAL_SUCCESS || pool == nullptr ||
        library->info(pool, &answer.info) != vendor::SCAL_SUCCESS)
        return {};
    const vendor::PoolInfo &info = answer.info;
    if (info.mapping == 0 || info.total == 0 || info.base < info.mapping || info.base + info.total < info.base)
        return {};
    return {{.mapping = info.mapping, .begin = info.base, .size = info.total}};
}

bool Synapse::can_allocate() const noexcept { return m_call.DeviceMalloc != nullptr && m_call.DeviceFree != nullptr; }

Result<void> Synapse::allocate(std::uint64_t length, std::uint64_t *address) const {
    return vendor::outcome(m_call.DeviceMalloc(kDevice, length, 0, 0, address), "synDeviceMalloc",
                           os::format("{} bytes", length));
}

Result<void> Synapse::free(std::uint64_t address) const {
    return vendor::outcome(m_call.DeviceFree(kDevice, address, 0), "synDeviceFree", os::format("{:#x}", address));
}

bool Synapse::can_copy() const noexcept {
#define GAUDI_SYNAPSE_THERE(name) &&m_call.name != nullptr
    return true GAUDI_SYNAPSE_COPY(GAUDI_SYNAPSE_THERE);
#undef GAUDI_SYNAPSE_THERE
}

} // namespace gaudi
