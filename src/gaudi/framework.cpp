// SPDX-License-Identifier: BSD-3-Clause
#include "framework.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <new>
#include <type_traits>

namespace gaudi {
namespace {

/// How many libraries this process has loaded so far.
unsigned long long loads() noexcept {
    unsigned long long count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *result) {
            *static_cast<unsigned long long *>(result) = info->dlpi_adds;
            return 1; // the first tells it for all
        },
        &count);
    return count;
}

/// The functions of a library that somebody else may load, sooner or later.
template <class Functions>
class Sought {
public:
    explicit constexpr Sought(const char *name) : m_name(name) {}

    const Functions *get() noexcept {
        if (const Functions *found = m_found.load(std::memory_order_acquire))
            return found;
        // A look that finds nothing searches the whole library path, so it is only done when something was loaded.
        const unsigned long long now = loads();
        if (now == m_looked.load(std::memory_order_acquire))
            return nullptr;
        // No lock of ours is held: this may be called while the loader has its own.
        void *library = dlopen(m_name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
        if (library == nullptr) {
            m_looked.store(now, std::memory_order_release);
            return nullptr;
        }
        // The handle is kept: what was found must not be unloaded under us.
        const Functions *mine = new (std::nothrow) Functions(library), *found = nullptr;
        if (mine != nullptr && m_found.compare_exchange_strong(found, mine, std::memory_order_acq_rel))
            return mine;
        delete mine; // another thread was faster
        dlclose(library);
        return found;
    }

    /// By an earlier get().
    const Functions *found() const noexcept { return m_found.load(std::memory_order_acquire); }

private:
    const char *m_name;
    std::atomic<const Functions *> m_found{nullptr};
    std::atomic<unsigned long long> m_looked{0};
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

constinit Sought<Framework> synapse{"libSynapse.so"};
constinit Sought<Scal> scal{"libscal.so"};
static_assert(std::is_trivially_destructible_v<Sought<Framework>>, "it is used by calls that come after exit handlers");

/// What the library does not write stays -1: an older one, whose structure is shorter, gives no descriptor.
template <class Info>
int ask(vendor::Status (*call)(vendor::DeviceId, Info *)) noexcept {
    struct {
        Info info;
        char spare[64]; // newer ones may have grown
    } answer;
    std::memset(static_cast<void *>(&answer), 0xff, sizeof(answer));
    return call(Framework::kDevice, &answer.info) == vendor::synSuccess ? static_cast<int>(answer.info.fd) : -1;
}

} // namespace

const Framework *Framework::loaded() noexcept {
    scal.get(); // pools() is called with locks held, and must not be the first to look
    return synapse.get();
}

Framework::Framework(void *library) noexcept {
#define GAUDI_FRAMEWORK_FIND(name) m_call.name = reinterpret_cast<vendor::syn##name *>(dlsym(library, "syn" #name));
    GAUDI_FRAMEWORK_INFO(GAUDI_FRAMEWORK_FIND)
    GAUDI_FRAMEWORK_COPY(GAUDI_FRAMEWORK_FIND)
#undef GAUDI_FRAMEWORK_FIND
}

int Framework::descriptor() const noexcept {
    int fd = -1;
    if (m_call.DeviceGetInfoV2 != nullptr)
        fd = ask(m_call.DeviceGetInfoV2);
    else if (m_call.DeviceGetInfo != nullptr)
        fd = ask(m_call.DeviceGetInfo);
    return fd < 0 ? -1 : fd;
}

std::vector<Framework::Pool> Framework::pools(int fd) const {
    const Scal *library = scal.found();
    if (fd < 0 || library == nullptr || library->handle == nullptr || library->pool == nullptr ||
        library->info == nullptr)
        return {};
    vendor::ScalHandle handle = nullptr;
    vendor::PoolHandle pool = nullptr;
    struct {
        vendor::PoolInfo info;
        char spare[64]; // as above
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

bool Framework::copies() const noexcept {
#define GAUDI_FRAMEWORK_THERE(name) &&m_call.name != nullptr
    return true GAUDI_FRAMEWORK_COPY(GAUDI_FRAMEWORK_THERE);
#undef GAUDI_FRAMEWORK_THERE
}

} // namespace gaudi
