// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/abi.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::ucx {

/// A fetched UCX, loaded as Python and NIXL load theirs: RTLD_LOCAL, by the path of each file.
class Engine {
public:
    /// The file of each library is the one in the directory whose name is LIBRARY followed by `suffix`, or, when that is
    /// "-", by a hash.
    Engine(const std::string &directory, const std::string &suffix) {
        for (const char *library : {"libucs", "libuct", "libucp"}) {
            const std::filesystem::path file = find(directory, library, suffix);
            void *handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
            const char *error = handle == nullptr ? ::dlerror() : "";
            EXPECT_NE(handle, nullptr) << error;
            m_handles.push_back(handle);
        }
    }

    static Engine rapids() { return {UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib", ".so"}; }
    static Engine nixl_1_22() { return {UCX_GAUDI_ENGINES "/nixl-1.22/nixl_cu12.libs", "-"}; }
    static Engine nixl_1_23() { return {UCX_GAUDI_ENGINES "/nixl-1.23/nixl_cu12.libs", "-"}; }

    void *ucs() const { return m_handles[0]; }
    void *uct() const { return m_handles[1]; }

    template <class Function>
    Function *symbol(void *library, const char *name) const {
        return reinterpret_cast<Function *>(::dlsym(library, name));
    }

    /// Loads the modules of the uct framework and returns the names of all components.
    std::vector<std::string> components() const {
        uct_component_h *list = nullptr;
        unsigned count = 0;
        EXPECT_EQ(symbol<ucs_status_t(uct_component_h **, unsigned *)>(uct(), "uct_query_components")(&list, &count),
                  UCS_OK);
        std::vector<std::string> names;
        for (unsigned i = 0; i < count; ++i)
            names.emplace_back(list[i]->name);
        symbol<void(uct_component_h *)>(uct(), "uct_release_component_list")(list);
        return names;
    }

private:
    static std::filesystem::path find(const std::string &directory, const std::string &library,
                                      const std::string &suffix) {
        if (suffix != "-")
            return std::filesystem::path(directory) / (library + suffix);
        for (const auto &entry : std::filesystem::directory_iterator(directory)) {
            if (entry.path().filename().string().rfind(library + "-", 0) == 0)
                return entry.path();
        }
        ADD_FAILURE() << "no " << library << " in " << directory;
        return {};
    }

    std::vector<void *> m_handles; // never closed: UCX does not survive it
};

/// Sets the variables that UCX reads when it is loaded.
inline void set_environment(const char *log_level) {
    ::setenv("UCX_PLUGIN_PATH", UCX_GAUDI_MODULES, 1);
    ::setenv("UCX_LOG_LEVEL", log_level, 1);
}

} // namespace gaudi::ucx
