// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>
#include <mutex>
#include <type_traits>

#include <fmt/format.h>

#include "objects.h"

namespace gaudi::ucx {
namespace {

std::mutex finding;
Host *hosts = nullptr;
static_assert(std::is_trivially_destructible_v<std::mutex>, "UCX calls after exit handlers ran");

template <class Pointer>
bool resolve(void *object, const char *name, Pointer &pointer) noexcept {
    constexpr bool is_function = std::is_function_v<std::remove_pointer_t<Pointer>>;
    pointer = reinterpret_cast<Pointer>(is_function ? ::dlsym(object, name) : variable(object, name));
    return pointer != nullptr;
}

// The name of the first required symbol that is missing, or nullptr.
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

// The loaded object of that library which works on the same libucs, by the look-up that the loader itself made.
void *sibling(std::string_view library, const Functions &functions) {
    for (const std::string &name : loaded_objects(library)) {
        void *object = reference(name);
        if (object == nullptr)
            continue;
        if (::dlsym(object, "ucs_malloc") == reinterpret_cast<void *>(functions.ucs_malloc))
            return object;
        ::dlclose(object);
    }
    return nullptr;
}

Error lacks(const std::string &who, const char *library, const char *symbol) {
    return {ENOSYS, "dlsym", fmt::format("{} cannot be used: its {} has no {}", who, library, symbol)};
}

} // namespace

Result<Host *> Host::of(const void *caller) {
    Dl_info info{};
    void *ucs = reference_at(caller);
    if (ucs == nullptr || ::dladdr(caller, &info) == 0)
        return tl::unexpected(Error{EINVAL, "dladdr", "the code that loads the module is in no library"});
    const std::string path = info.dli_fname;

    const std::lock_guard lock(finding);
    for (Host *known = hosts; known != nullptr; known = known->m_next) {
        if (known->m_ucs == ucs) {
            ::dlclose(ucs); // the first reference keeps it
            return known;
        }
    }

    Functions functions;
    const char *missing = resolve_ucs(ucs, functions);
    const char *library = "libucs";
    if (missing == nullptr) {
        // libucs depends on its libucm, so a look-up in libucs finds the right one.
        void *ucm = reference_at(::dlsym(ucs, "ucm_event_dispatch"));
        missing = ucm != nullptr ? resolve_ucm(ucm, functions) : "ucm_event_dispatch";
        library = "libucm";
    }
    if (missing != nullptr) {
        Error error = lacks(fmt::format("the UCX of {}", path), library, missing);
        ::dlclose(ucs);
        return tl::unexpected(std::move(error));
    }
    hosts = new Host(hosts, ucs, functions, path);
    return hosts;
}

Result<void> Host::find_uct() {
    const std::lock_guard lock(finding);
    if (m_has_uct)
        return {};
    void *uct = sibling("libuct", m_functions);
    if (uct == nullptr)
        return tl::unexpected(
            Error{ENOENT, "dlopen", fmt::format("{} cannot be used: no libuct that works on it is loaded", name())});
    Functions functions = m_functions;
    if (const char *missing = resolve_uct(uct, functions); missing != nullptr) {
        ::dlclose(uct);
        return tl::unexpected(lacks(name(), "libuct", missing));
    }
    // Only these: another thread may be using the rest.
#define GAUDI_UCX_SET(name) m_functions.name = functions.name;
    GAUDI_UCX_UCT_REQUIRED(GAUDI_UCX_SET)
    GAUDI_UCX_UCT_OPTIONAL(GAUDI_UCX_SET)
#undef GAUDI_UCX_SET
    m_has_uct = true;
    return {};
}

std::optional<Version> Host::version() const {
    void *ucp = sibling("libucp", m_functions);
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
        return fmt::format("UCX ({})", m_ucs_path);
    return fmt::format("UCX {}.{}.{} ({})", found->major, found->minor, found->release, m_ucs_path);
}

void Host::log(ucs_log_level_t level, const char *file, unsigned line, const char *function, const char *format,
               ...) const noexcept {
    if (!log_enabled(level))
        return;
    char text[1024]; // UCX cuts longer lines too
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length >= 0)
        m_functions.ucs_log_dispatch(file, line, function, level, &m_functions.ucs_global_opts->log_component, "%s",
                                     text);
}

} // namespace gaudi::ucx
