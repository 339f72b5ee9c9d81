// SPDX-License-Identifier: BSD-3-Clause
#include "library.h"

#include "dl_handle.h"
#include "lock_ranks.h"
#include "os/format.h"
#include "os/mutex.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <type_traits>

namespace gaudi::thunk {
namespace {

constexpr const char *kPlaces[] = {"libhl-thunk.so", "/usr/lib/habanalabs/libhl-thunk.so"};

os::Mutex s_loading{Rank::libraries};
const Library *s_loaded GAUDI_GUARDED_BY(s_loading) = nullptr; // the list of all
static_assert(std::is_trivially_destructible_v<os::Mutex>, "calls come even after exit handlers have run");

template <class Function>
bool resolve(const DlHandle &library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(library.symbol(name));
    return function != nullptr;
}

Result<Functions> resolve_all(const DlHandle &library) {
    Functions functions;
#define GAUDI_THUNK_RESOLVE(name)                                                                                      \
    if (!resolve(library, "hlthunk_" #name, functions.name))                                                           \
        return tl::unexpected(                                                                                         \
            Error{ENOSYS, "dlsym",                                                                                     \
                  os::format("{} cannot be used as libhl-thunk: it has no hlthunk_" #name, library.path())});
    GAUDI_THUNK_REQUIRED(GAUDI_THUNK_RESOLVE)
#undef GAUDI_THUNK_RESOLVE
#define GAUDI_THUNK_RESOLVE(name) resolve(library, "hlthunk_" #name, functions.name);
    GAUDI_THUNK_OPTIONAL(GAUDI_THUNK_RESOLVE)
#undef GAUDI_THUNK_RESOLVE
    return functions;
}

/// The file that holds the functions. The handle may be that of a wrapper library, which only depends on that file.
std::string file_of(const Functions &functions) {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void *>(functions.open), &info) == 0 || info.dli_fname == nullptr)
        return "an unknown file";
    char *resolved = ::realpath(info.dli_fname, nullptr);
    std::string path = resolved != nullptr ? resolved : info.dli_fname;
    std::free(resolved);
    return path;
}

} // namespace

Library::Library(const void *handle, const Functions &functions, const Library *next)
    : m_handle(handle), m_functions(functions), m_path(file_of(functions)), m_next(next) {}

Result<const Library *> Library::load(const std::string &path) {
    Result<DlHandle> handle = DlHandle::open(path);
    if (!handle)
        return tl::unexpected(handle.error());
    Result<Functions> functions = resolve_all(*handle);
    if (!functions)
        return tl::unexpected(functions.error());

    const os::MutexLock lock(s_loading);
    for (const Library *known = s_loaded; known != nullptr; known = known->m_next) {
        if (known->m_handle == handle->get())
            return known; // its own reference keeps the file loaded, so the new one is dropped
    }
    s_loaded = new Library(handle->get(), *functions, s_loaded);
    handle->keep();
    return s_loaded;
}

Result<const Library *> Library::find() {
    const char *named = ::secure_getenv("GAUDI_THUNK");
    if (named == nullptr || *named == '\0')
        return find(kPlaces);

    Result<const Library *> library = load(named);
    if (!library)
        return tl::unexpected(Error{library.error().code, library.error().call,
                                    os::format("GAUDI_THUNK={}: {}", named, library.error().text)});
    return library;
}

Result<const Library *> Library::find(std::span<const char *const> names) {
    std::string tried;
    for (const char *name : names) {
        Result<const Library *> library = load(name);
        if (library || library.error().code != ELIBACC)
            return library;
        tried += (tried.empty() ? "" : "; ") + library.error().text;
    }
    return tl::unexpected(Error{ELIBACC, "dlopen", "no libhl-thunk was found: " + tried});
}

Result<std::string> Library::version() const {
    if (!has_version())
        return tl::unexpected(lacks("hlthunk_get_version"));
    errno = 0;
    char *text = m_functions.get_version();
    if (text == nullptr)
        return tl::unexpected(from_zero(errno, "hlthunk_get_version"));
    std::string version = text;
    m_functions.free(text);
    return version;
}

Error Library::lacks(const char *function) const {
    return make_error(ENOSYS, function, {}, os::format("{} has no such function; a newer libhl-thunk has it", m_path));
}

} // namespace gaudi::thunk
