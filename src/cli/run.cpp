// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include "child.h"
#include "links.h"
#include "path_list.h"
#include "places.h"
#include "private_directory.h"
#include "ucx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The variables as they are set, in order.
class Environment {
public:
    void set(const char *name, const std::string &value) {
        ::setenv(name, value.c_str(), 1);
        m_names.emplace_back(name);
    }
    void set_if_given(const char *name, const std::string &value) {
        if (!value.empty())
            set(name, value);
    }
    /// Puts `value` before what a list of paths holds.
    void prepend(const char *name, const std::string &value) {
        const char *old = std::getenv(name);
        set(name, old && *old ? fmt::format("{}:{}", value, old) : value);
    }
    void print() const {
        for (const std::string &name : m_names)
            fmt::print(stderr, "{}={}\n", name, std::getenv(name.c_str()));
    }

private:
    std::vector<std::string> m_names;
};

/// A directory that several runs share, so that their programs see the same cards.
OrSentence<fs::path> shared_server(const std::string &name) {
    std::error_code error;
    fs::path path = fs::absolute(name, error).lexically_normal();
    if (!on_memory(fs::exists(path, error) ? path : path.parent_path()))
        return Sentence(
            fmt::format("--dir {}: must be on tmpfs, for example in /dev/shm: it holds the cards' memory", name));
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return Sentence(fmt::format("--dir {}: cannot make it: {}", name, std::strerror(errno)));
    if (!fs::is_directory(path, error))
        return Sentence(fmt::format("--dir {}: is not a directory", name));
    return path;
}

std::string quoted(const std::string &word) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
        return word;
    std::string out = "'";
    for (const char letter : word) {
        if (letter == '\'')
            out.append("'\\''");
        else
            out.push_back(letter);
    }
    out.push_back('\'');
    return out;
}

/// Everything around one run of a program.
class Setting {
public:
    OrSentence<void> prepare(const RunOptions &options);
    const Environment &environment() const { return m_environment; }

private:
    OrSentence<void> choose_ucx(const std::string &name);
    OrSentence<void> choose_server(const std::string &directory);
    OrSentence<std::string> ucx_libraries() const;

    Environment m_environment;
    std::optional<Ucx> m_ucx;
    std::optional<PrivateDirectory> m_private; // gone with this object, when the program has ended
    fs::path m_server;
};

OrSentence<void> Setting::choose_ucx(const std::string &name) {
    if (name.empty())
        return {}; // the program's own
    auto named = ucx_named(name);
    if (!named)
        return Sentence(named.error());
    m_ucx = std::move(*named);
    return {};
}

OrSentence<void> Setting::choose_server(const std::string &directory) {
    if (!directory.empty()) {
        auto shared = shared_server(directory);
        if (!shared)
            return Sentence(shared.error());
        m_server = std::move(*shared);
    }
    if (!m_server.empty() && !(m_ucx && m_ucx->hashed))
        return {};
    auto made = PrivateDirectory::make();
    if (!made)
        return Sentence(made.error());
    m_private.emplace(std::move(*made));
    if (!m_server.empty())
        return {};
    m_server = m_private->path() / "cards";
    std::error_code error;
    if (!fs::create_directory(m_server, error))
        return Sentence(fmt::format("cannot make {}: {}", m_server.string(), error.message()));
    return {};
}

/// Where a program that needs libucp.so.0 finds that of the chosen UCX.
OrSentence<std::string> Setting::ucx_libraries() const {
    if (!m_ucx->hashed)
        return m_ucx->libraries.string();
    const fs::path links = m_private->path() / "ucx";
    if (const auto linked = link_plainly(*m_ucx, links); !linked)
        return Sentence(linked.error());
    // The modules look for the libraries they came with beside themselves, which is now another place.
    return fmt::format("{}:{}", links.string(), m_ucx->libraries.string());
}

OrSentence<void> Setting::prepare(const RunOptions &options) {
    const auto modules = module_directory();
    if (!modules)
        return Sentence(modules.error());
    const auto softgaudi = softgaudi_library();
    if (!softgaudi)
        return Sentence(softgaudi.error());
    if (auto chosen = choose_ucx(options.ucx); !chosen)
        return chosen;
    if (auto chosen = choose_server(options.directory); !chosen)
        return chosen;

    m_environment.prepend("UCX_PLUGIN_PATH", modules->string());
    m_environment.set("GAUDI_THUNK", softgaudi->string());
    m_environment.set("SOFTGAUDI_DIR", m_server.string());
    m_environment.set_if_given("SOFTGAUDI_CARDS", options.cards);
    m_environment.set_if_given("SOFTGAUDI_MODEL", options.model);
    m_environment.set_if_given("SOFTGAUDI_PACE", options.pace);
    m_environment.set_if_given("SOFTGAUDI_FAULTS", options.faults);
    m_environment.set_if_given("SOFTGAUDI_QUIRKS", options.quirks);

    // A program that is itself linked to libhl-thunk must talk to the same cards.
    std::string libraries = softgaudi->parent_path().string();
    if (m_ucx) {
        const auto ucx = ucx_libraries();
        if (!ucx)
            return Sentence(ucx.error());
        libraries = fmt::format("{}:{}", *ucx, libraries);
    }
    m_environment.prepend("LD_LIBRARY_PATH", libraries);
    if (m_ucx && !m_ucx->programs.empty() && !lists("PATH", m_ucx->programs))
        m_environment.prepend("PATH", m_ucx->programs.string());
    return {};
}

} // namespace

int run(const RunOptions &options) {
    const HeldSignals signals;
    Setting setting;
    if (const auto done = setting.prepare(options); !done) {
        fmt::print(stderr, "ucx_gaudi: {}\n", done.error());
        return 1;
    }
    fmt::print(stderr, "ucx_gaudi: software: this runs on softgaudi, not on a Gaudi card\n");
    if (options.verbose) {
        setting.environment().print();
        std::vector<std::string> words;
        for (const std::string &word : options.command)
            words.push_back(quoted(word));
        fmt::print(stderr, "{}\n", fmt::join(words, " "));
    }
    return run_child(options.command, signals);
}

} // namespace gaudi::cli
