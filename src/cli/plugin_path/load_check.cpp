// SPDX-License-Identifier: BSD-3-Clause
#include "load_check.h"

#include "cli/child_answer.h"
#include "cli/environment.h"
#include "cli/module_files.h"
#include "cli/ucx_probe.h"
#include "os/format.h"

#include <dlfcn.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// uct_component_attr_t up to the name, with room for what follows it in UCX: this program is built without its headers.
struct ComponentAttributes {
    std::uint64_t field_mask = 1; // UCT_COMPONENT_ATTR_FIELD_NAME
    char name[16] = {};
    std::uint64_t rest[16] = {};
};

/// Runs in the child, on the libraries that one dlopen() has loaded.
class LoadedUcx {
public:
    explicit LoadedUcx(void *library) : m_library(library) {}

    template <class Function>
    Function *find(const char *name) const {
        return reinterpret_cast<Function *>(::dlsym(m_library, name));
    }
    /// The file that has a function.
    std::string file_of(const char *name) const {
        Dl_info info{};
        void *function = ::dlsym(m_library, name);
        return function && ::dladdr(function, &info) != 0 ? info.dli_fname : "";
    }
    bool has_component(const char *wanted) const {
        auto *query = find<int(void ***, unsigned *)>("uct_query_components");
        auto *describe = find<int(void *, ComponentAttributes *)>("uct_component_query");
        void **components = nullptr;
        unsigned count = 0;
        if (!query || !describe || query(&components, &count) != 0)
            return false;
        for (unsigned i = 0; i < count; ++i) {
            ComponentAttributes attributes;
            if (describe(components[i], &attributes) == 0 &&
                std::strncmp(attributes.name, wanted, sizeof attributes.name) == 0)
                return true;
        }
        return false;
    }

private:
    void *m_library;
};

/// Why UCX did not take the module, after it has been asked to.
std::string explain_missing(const std::string &libucs, const fs::path &modules) {
    const fs::path file = modules / ("libuct_gaudi" + module_suffix(libucs));
    std::error_code error;
    if (!fs::exists(file, error))
        return os::format("this UCX looks for {}, which does not exist", file.string());
    if (!::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
        return os::format("the module does not load: {}", ::dlerror());
    if (const char *allowed = std::getenv("UCX_MODULES"))
        return os::format("UCX_MODULES={} leaves gaudi out", allowed);
    return "UCX did not load the module; ucx_gaudi doctor says which setting is in the way";
}

LoadCheck check_in_child(const fs::path &library, const fs::path &modules) {
    LoadCheck found;
    Environment().prepend("UCX_PLUGIN_PATH", modules.string());
    void *loaded = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!loaded) {
        found.reason = os::format("it does not load: {}", ::dlerror());
        return found;
    }
    const LoadedUcx ucx(loaded);
    found.libucp = ucx.file_of("ucp_get_version_string");
    found.libucs = ucx.file_of("ucs_status_string");
    if (found.libucp.empty() || found.libucs.empty()) {
        found.reason = "it does not use UCX";
        return found;
    }
    found.version = ucx.find<const char *()>("ucp_get_version_string")();
    const bool statistics = ::dlsym(loaded, "ucs_stats_node_alloc") != nullptr;
    if (const std::string why = explain_unusable({found.libucs, found.version, statistics}); !why.empty())
        found.reason = os::format("it {}", why);
    else if (!ucx.has_component("gaudi_copy"))
        found.reason = explain_missing(found.libucs, modules);
    return found;
}

} // namespace

LoadCheck check_load(const fs::path &library, const fs::path &modules) {
    ChildAnswer child([&](int out) {
        const LoadCheck found = check_in_child(library, modules);
        const std::string text = nlohmann::json{found.libucp, found.libucs, found.version, found.reason}.dump(
            -1, ' ', false, nlohmann::json::error_handler_t::replace);
        [[maybe_unused]] const ssize_t sent = ::write(out, text.data(), text.size());
    });
    const nlohmann::json answer = nlohmann::json::parse(child.read(), nullptr, false);
    if (answer.is_discarded())
        return {"", "", "", "the process that loads it has crashed"};
    return {answer[0], answer[1], answer[2], answer[3]};
}

} // namespace gaudi::cli
