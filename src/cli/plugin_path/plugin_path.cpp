// SPDX-License-Identifier: BSD-3-Clause
#include "plugin_path.h"

#include "cli/places.h"
#include "cli/write_stdout.h"
#include "client_libraries.h"
#include "load_check.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <vector>

namespace gaudi::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is found, as text or as JSON.
class PluginPathReport {
public:
    explicit PluginPathReport(const PluginPathOptions &options) : m_options(options) {}

    void set_path(const std::string &path) { m_path = path; }
    void add_failure(const std::string &sentence) {
        m_failures.push_back(sentence);
        os::print(stderr, "ucx_gaudi: {}\n", sentence);
    }
    void add_ucx(const ClientLibrary &library, const LoadCheck &found) {
        m_ucx.push_back({{"file", found.libucp.empty() ? library.file.string() : found.libucp},
                         {"libucs", or_null(found.libucs)},
                         {"version", or_null(found.version)},
                         {"loads", found.reason.empty()},
                         {"reason", or_null(found.reason)}});
        if (found.reason.empty())
            os::print(stderr, "ucx_gaudi: UCX {} of {} loads the modules ({})\n", found.version, library.owner,
                      found.libucp);
        else if (found.libucp.empty())
            add_failure(os::format("{}: {}", library.file.string(), found.reason));
        else
            add_failure(os::format("UCX {} of {} ({}): {}", found.version, library.owner, found.libucp, found.reason));
    }
    /// Returns the exit code.
    int print() const {
        bool written = true;
        if (m_options.json) {
            const Json all = {{"schema", 1},
                              {"version", UCX_GAUDI_VERSION},
                              {"path", or_null(m_path)},
                              {"for", or_null(m_options.client)},
                              {"ucx", m_ucx},
                              {"reasons", m_failures}};
            written = write_stdout(all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        } else if (m_failures.empty()) { // else a shell would set a path that does not help
            written = write_stdout(m_path + "\n");
        }
        return written && m_failures.empty() ? 0 : 1;
    }

private:
    static Json or_null(const std::string &text) { return text.empty() ? Json(nullptr) : Json(text); }

    const PluginPathOptions &m_options;
    std::string m_path;
    Json m_ucx = Json::array();
    std::vector<std::string> m_failures;
};

} // namespace

int run_plugin_path(const PluginPathOptions &options) {
    PluginPathReport report(options);
    const auto modules = find_module_directory();
    if (!modules) {
        report.add_failure(modules.error());
        return report.print();
    }
    report.set_path(modules->string());
    if (options.client.empty())
        return report.print();
    const auto libraries = find_client_libraries(options.client);
    if (!libraries) {
        report.add_failure(libraries.error());
        return report.print();
    }
    for (const ClientLibrary &library : *libraries)
        report.add_ucx(library, check_load(library.file, *modules));
    return report.print();
}

} // namespace gaudi::cli
