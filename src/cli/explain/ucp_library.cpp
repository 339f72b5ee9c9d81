// SPDX-License-Identifier: BSD-3-Clause
#include "ucp_library.h"

#include "os/format.h"

#include <dlfcn.h>

namespace gaudi::cli::explain {

OrSentence<UcpLibrary> UcpLibrary::load(const std::string &libucp) {
    void *library = ::dlopen(libucp.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return Sentence(os::format("{} does not load: {}", libucp, ::dlerror()));
    UcpLibrary found;
    const char *missing = nullptr;
    const auto look_up = [&](const char *name) {
        void *function = ::dlsym(library, name); // also finds those of libucs, on which libucp depends
        if (!function && !missing)
            missing = name;
        return function;
    };
#define GAUDI_EXPLAIN_LOOK_UP(name, ...) found.name = reinterpret_cast<name##_t *>(look_up(#name));
    GAUDI_EXPLAIN_UCP(GAUDI_EXPLAIN_LOOK_UP)
#undef GAUDI_EXPLAIN_LOOK_UP
    if (missing)
        return Sentence(os::format("{} has no {}", libucp, missing));
    return found;
}

} // namespace gaudi::cli::explain
