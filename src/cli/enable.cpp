// SPDX-License-Identifier: BSD-3-Clause
#include "enable.h"

#include "file_owner.h"
#include "os/format.h"
#include "path_list.h"
#include "places.h"
#include "ucx.h"
#include "ucx_conf.h"
#include "ucx_probe.h"
#include "write_stdout.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The UCX in the Python packages of a virtual environment.
std::vector<Ucx> find_ucx_of_venv(const fs::path &venv) {
    std::vector<Ucx> found;
    for (const char *libraries : {"lib", "lib64"}) {
        std::error_code error;
        if (libraries == std::string_view("lib64") && fs::equivalent(venv / "lib", venv / "lib64", error))
            continue;
        for (fs::directory_iterator at(venv / libraries, error), end; !error && at != end; at.increment(error)) {
            for (Ucx &ucx : find_ucx_in(at->path() / "site-packages"))
                found.push_back(std::move(ucx));
        }
    }
    return found;
}

OrSentence<fs::path> choose_venv(const EnableOptions &options) {
    const char *active = std::getenv("VIRTUAL_ENV");
    if (options.venv_directory.empty() && (!active || !*active))
        return Sentence("--venv: no virtual environment is active; name its directory: --venv DIR");
    const fs::path named = options.venv_directory.empty() ? fs::path(active) : fs::path(options.venv_directory);
    std::error_code error;
    fs::path venv = fs::canonical(named, error);
    if (error)
        return Sentence(os::format("--venv {}: {}", named.string(), error.message()));
    return venv;
}

/// A UCX that does not read the setting must not look as if it were enabled.
OrSentence<void> check_usable(const Ucx &ucx) {
    const auto probed = UcxProbe(ucx.libucp.string()).read_answer();
    if (!probed)
        return Sentence(os::format("{} does not load: {}", ucx.libucp.string(), probed.error()));
    const std::string why = explain_unusable(*probed);
    if (!why.empty())
        return Sentence(os::format("UCX {} in {} {}", probed->version, ucx.libraries.string(), why));
    return {};
}

/// The files that the chosen UCX read.
struct Files {
    std::vector<fs::path> paths;
    std::vector<std::string> unusable; // a sentence for each UCX of a virtual environment that would not use its file
};

OrSentence<Files> list_venv_files(const EnableOptions &options, bool check) {
    const auto venv = choose_venv(options);
    if (!venv)
        return Sentence(venv.error());
    Files files;
    for (const Ucx &ucx : find_ucx_of_venv(*venv)) {
        const fs::path file = conf_beside(ucx.libraries);
        if (const auto usable = check ? check_usable(ucx) : OrSentence<void>(); !usable)
            files.unusable.push_back(usable.error());
        else if (std::find(files.paths.begin(), files.paths.end(), file) == files.paths.end())
            files.paths.push_back(file);
    }
    if (files.paths.empty() && files.unusable.empty())
        return Sentence(os::format("there is no UCX in the packages of {}; install what brings it first, for example "
                                   "nixl-cu12, or use --user",
                                   venv->string()));
    return files;
}

OrSentence<Files> list_files(const EnableOptions &options, bool check) {
    if (options.system)
        return Files{{system_conf()}, {}};
    const char *active = std::getenv("VIRTUAL_ENV");
    if (options.venv || (!options.user && active && *active))
        return list_venv_files(options, check);
    if (user_conf().empty())
        return Sentence("--user: HOME is not set");
    return Files{{user_conf()}, {}};
}

/// What was done in each file, as lines or as JSON.
class EnableReport {
public:
    explicit EnableReport(bool json) : m_json(json) {}

    /// `state` is enabled, enabled_already, disabled or unchanged; `text` is the line for a user, if there is one.
    void add(const fs::path &file, const char *state, const std::string &text) {
        m_files.push_back({{"file", file.string()}, {"state", state}});
        if (!text.empty())
            print(text);
    }
    /// A line that the user has to write by hand.
    void add_line(const std::string &line) {
        m_lines.push_back(line);
        print(line);
    }
    void add_failure(const std::string &sentence) {
        m_reasons.push_back(sentence);
        std::fflush(stdout); // so that the two streams keep their order in a log
        os::print(stderr, "ucx_gaudi: {}\n", sentence);
    }
    /// Returns the exit code, which is `code` unless the output cannot be written.
    int finish(int code) {
        if (m_json) {
            const nlohmann::ordered_json all = {
                {"schema", 1}, {"files", m_files}, {"lines", m_lines}, {"reasons", m_reasons}};
            m_written = write_stdout(all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        }
        return m_written ? code : 1;
    }

private:
    void print(const std::string &text) {
        if (!m_json && m_written)
            m_written = write_stdout(text + "\n");
    }

    const bool m_json;
    bool m_written = true;
    nlohmann::ordered_json m_files = nlohmann::ordered_json::array();
    std::vector<std::string> m_lines, m_reasons;
};

OrSentence<void> enable_in(const fs::path &file, const std::string &modules, EnableReport &report) {
    auto conf = UcxConf::read(file);
    if (!conf)
        return Sentence(conf.error());
    if (contains_directory(split_path_list(conf->value()), modules)) {
        report.add(file, "enabled_already", os::format("enabled already in {}", file.string()));
        return {};
    }
    if (const std::string value = conf->foreign_value(); !value.empty())
        return Sentence(os::format("{} sets UCX_PLUGIN_PATH={} already; add :{} to that line by hand", file.string(),
                                   value, modules));
    if (const std::string owner = find_owner(file); !owner.empty()) {
        report.add_line(os::format("UCX_PLUGIN_PATH={}", modules));
        return Sentence(os::format("{} belongs to the package {}, and its upgrade would undo a change; put the line "
                                   "above in front of the file by hand, or use --user",
                                   file.string(), owner));
    }
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error)
        return Sentence(os::format("cannot create {}: {}", file.parent_path().string(), error.message()));
    conf->set(modules);
    if (auto written = conf->write(); !written)
        return written;
    report.add(file, "enabled", os::format("enabled in {}", file.string()));
    return {};
}

/// Removes the directories .../etc/ucx that `enable` creates, if nothing else is in them.
void remove_empty_directories(const fs::path &file) {
    std::error_code error;
    if (fs::exists(file, error) || file.parent_path().filename() != "ucx")
        return;
    for (const fs::path &directory : {file.parent_path(), file.parent_path().parent_path()}) {
        if (directory == "/etc" || !find_owner(directory).empty() || ::rmdir(directory.c_str()) != 0)
            return;
    }
}

OrSentence<void> disable_in(const fs::path &file, const std::string &modules, EnableReport &report) {
    auto conf = UcxConf::read(file);
    if (!conf)
        return Sentence(conf.error());
    if (conf->own_value().empty()) {
        report.add(file, "unchanged", "");
    } else {
        conf->set({});
        if (auto written = conf->write(); !written)
            return written;
        remove_empty_directories(file);
        report.add(file, "disabled", os::format("disabled in {}", file.string()));
    }
    if (contains_directory(split_path_list(conf->foreign_value()), modules))
        return Sentence(
            os::format("{} names {} in a line that was not written by 'ucx_gaudi enable'; remove it by hand",
                       file.string(), modules));
    return {};
}

/// Takes a step in each of the files; returns the exit code.
template <class Step>
int take_in_all(const OrSentence<Files> &files, const std::string &modules, EnableReport &report, Step step) {
    if (!files) {
        report.add_failure(files.error());
        return 1;
    }
    for (const std::string &sentence : files->unusable)
        report.add_failure(sentence);
    int code = files->paths.empty() ? 1 : 0; // beside a usable UCX, an unusable one is no failure
    for (const fs::path &file : files->paths) {
        if (const OrSentence<void> done = step(file, modules, report); !done) {
            report.add_failure(done.error());
            code = 1;
        }
    }
    return code;
}

} // namespace

int run_enable(const EnableOptions &options) {
    EnableReport report(options.json);
    const auto modules = find_module_directory();
    if (!modules) {
        report.add_failure(modules.error());
        return report.finish(1);
    }
    return report.finish(take_in_all(list_files(options, true), modules->string(), report, enable_in));
}

int run_disable(const EnableOptions &options) {
    EnableReport report(options.json);
    // What `enable` wrote is removed without the modules, too: a package manager may have removed them first.
    const auto modules = find_module_directory();
    return report.finish(
        take_in_all(list_files(options, false), modules ? modules->string() : std::string(), report, disable_in));
}

} // namespace gaudi::cli
