// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"

#include "lock_ranks.h"
#include "objects.h"
#include "os/format.h"
#include "os/mutex.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

namespace gaudi::ucx {
namespace {

os::Mutex s_finding{Rank::hosts};                    // also guards what find_uct writes into a Host
Host *s_hosts GAUDI_GUARDED_BY(s_finding) = nullptr; // the list of all
static_assert(std::is_trivially_destructible_v<os::Mutex>, "UCX calls even after exit handlers have run");

template <class Pointer>
bool resolve(void *object, const char *name, Pointer &pointer) noexcept {
    constexpr bool is_function = std::is_function_v<std::remove_pointer_t<Pointer>>;
    pointer = reinterpret_cast<Pointer>(is_function ? ::dlsym(object, name) : find_variable(object, name));
    return pointer != nullptr;
}

// These functions return the name of the first required symbol that is missing, or nullptr.
#define GAUDI_UCX_REQUIRE(name)                                                                                        \
    if (!resolve(object, #name, functions.name))                                                                       \
        return #name;
#define GAUDI_UCX_TRY(name) resolve(object, #name, functions.name);

const char *resolve_ucs(void *object, Functions &functions) noexcept {
    GAUDI_UCX_UCS_REQUIRED(GAUDI_UCX_REQUIRE)
    GAUDI_UCX_UCS_OPTIONAL(GAUDI_UCX_TRY)
    return nullptr;
}

const char *resolve_ucm(void *object, Functions &functions) noexcept {
    GAUDI_UCX_UCM_REQUIRED(GAUDI_UCX_REQUIRE)
    GAUDI_UCX_UCM_OPTIONAL(GAUDI_UCX_TRY)
    return nullptr;
}

const char *resolve_uct(void *object, Functions &functions) noexcept {
    GAUDI_UCX_UCT_REQUIRED(GAUDI_UCX_REQUIRE)
    GAUDI_UCX_UCT_OPTIONAL(GAUDI_UCX_TRY)
    return nullptr;
}

#undef GAUDI_UCX_REQUIRE
#undef GAUDI_UCX_TRY

/// The loaded object of a library that uses the same libucs, judged by the function that the loader finds from it.
void *find_sibling(std::string_view library, const Functions &functions) {
    for (const std::string &name : list_loaded_objects(library)) {
        void *object = reference_object(name);
        if (object == nullptr)
            continue;
        if (::dlsym(object, "ucs_malloc") == reinterpret_cast<void *>(functions.ucs_malloc))
            return object;
        ::dlclose(object);
    }
    return nullptr;
}

Error make_missing_error(const std::string &ucx, const char *library, const char *symbol) {
    return {ENOSYS, "dlsym", os::format("{} cannot be used: its {} has no {}", ucx, library, symbol)};
}

} // namespace

Result<Host *> Host::find(const void *caller) {
    Dl_info info{};
    void *ucs = reference_object_at(caller);
    if (ucs == nullptr || ::dladdr(caller, &info) == 0)
        return tl::unexpected(
            Error{EINVAL, "dladdr", os::format("the module's caller at {} is in no shared library", caller)});
    const std::string path = info.dli_fname;

    const os::MutexLock lock(s_finding);
    for (Host *known = s_hosts; known != nullptr; known = known->m_next) {
        if (known->m_ucs == ucs) {
            ::dlclose(ucs); // the Host holds a reference of its own
            return known;
        }
    }

    Functions functions;
    const char *missing = resolve_ucs(ucs, functions);
    const char *library = "libucs";
    if (missing == nullptr) {
        // libucs depends on its libucm, so a look-up in libucs finds the right one of several.
        void *ucm = reference_object_at(::dlsym(ucs, "ucm_event_dispatch"));
        missing = ucm != nullptr ? resolve_ucm(ucm, functions) : "ucm_event_dispatch";
        library = "libucm";
    }
    if (missing != nullptr) {
        Error error = make_missing_error(os::format("the UCX of {}", path), library, missing);
        ::dlclose(ucs);
        return tl::unexpected(std::move(error));
    }
    s_hosts = new Host(s_hosts, ucs, functions, path);
    return s_hosts;
}

Result<void> Host::find_uct() {
    const os::MutexLock lock(s_finding);
    if (m_has_uct)
        return {};
    void *uct = find_sibling("libuct", m_functions);
    if (uct == nullptr)
        return tl::unexpected(
            Error{ENOENT, "dlopen", os::format("{} cannot be used: the process has not loaded its libuct", name())});
    Functions functions = m_functions;
    if (const char *missing = resolve_uct(uct, functions); missing != nullptr) {
        ::dlclose(uct);
        return tl::unexpected(make_missing_error(name(), "libuct", missing));
    }
    // Only the uct_* functions: another thread may be calling the others.
#define GAUDI_UCX_SET(name) m_functions.name = functions.name;
    GAUDI_UCX_UCT_REQUIRED(GAUDI_UCX_SET)
    GAUDI_UCX_UCT_OPTIONAL(GAUDI_UCX_SET)
#undef GAUDI_UCX_SET
    m_has_uct = true;
    return {};
}

std::optional<Version> Host::version() const {
    void *ucp = find_sibling("libucp", m_functions);
    if (ucp == nullptr)
        return std::nullopt;
    decltype(&declared::ucp_get_version) get = nullptr;
    std::optional<Version> found;
    if (resolve(ucp, "ucp_get_version", get)) {
        found.emplace();
        get(&found->major, &found->minor, &found->release);
    }
    ::dlclose(ucp);
    return found;
}

std::string Host::name() const {
    const std::optional<Version> found = version();
    if (!found)
        return os::format("UCX ({})", m_ucs_path);
    return os::format("UCX {}.{}.{} ({})", found->major, found->minor, found->release, m_ucs_path);
}

void Host::log(ucs_log_level_t level, const char *file, unsigned line, const char *function, const char *format,
               ...) const noexcept {
    if (!log_enabled(level))
        return;
    char text[1024]; // UCX truncates longer lines as well
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length >= 0)
        m_functions.ucs_log_dispatch(file, line, function, level, &m_functions.ucs_global_opts->log_component, "%s",
                                     text);
}

} // namespace gaudi::ucx
