// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include "child.h"
#include "environment.h"
#include "ib_module.h"
#include "links.h"
#include "os/format.h"
#include "path_list.h"
#include "places.h"
#include "private_directory.h"
#include "record/format.h"
#include "topology.h"
#include "usable_ucx.h"

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

/// Creates the directory that several runs share, so that their programs see the same cards.
OrSentence<fs::path> make_shared_server(const std::string &name) {
    std::error_code error;
    fs::path path = fs::absolute(name, error).lexically_normal();
    if (!is_in_memory(fs::exists(path, error) ? path : path.parent_path()))
        return Sentence(
            os::format("--dir {}: must be on tmpfs, for example in /dev/shm: it holds the memory of the cards", name));
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return Sentence(os::format("--dir {}: cannot create it: {}", name, std::strerror(errno)));
    if (!fs::is_directory(path, error))
        return Sentence(os::format("--dir {}: is not a directory", name));
    return path;
}

OrSentence<void> make_directory(const fs::path &path) {
    std::error_code error;
    if (!fs::create_directory(path, error) && error)
        return Sentence(os::format("cannot create {}: {}", path.string(), error.message()));
    return {};
}

std::string quote(const std::string &word) {
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

/// Open MPI opens UCX only on devices that it knows, and its other transports read the memory of cards with the processor,
/// which crashes.
void choose_ucx_in_open_mpi(Environment &environment) {
    environment.set_default("OMPI_MCA_pml", "ucx");
    environment.set_default("OMPI_MCA_opal_common_ucx_tls", "any");
    environment.set_default("OMPI_MCA_opal_common_ucx_devices", "any");
}

/// The environment and the directories of one run of a program.
class RunSetup {
public:
    OrSentence<void> prepare(const RunOptions &options);
    const Environment &environment() const { return m_environment; }

private:
    OrSentence<void> choose_ucx(const std::string &name);
    OrSentence<void> choose_server(const std::string &directory);
    OrSentence<void> add_hcas(const std::string &count);
    OrSentence<void> add_topology(const RunOptions &options);
    OrSentence<void> make_private();
    OrSentence<std::string> find_ucx_libraries();

    Environment m_environment;
    std::optional<Ucx> m_ucx;
    std::optional<PrivateDirectory> m_private; // removed with this object, after the program has ended
    fs::path m_server;
    bool m_shared = false; // other runs may use the server too
};

OrSentence<void> RunSetup::choose_ucx(const std::string &name) {
    if (name.empty())
        return {}; // the program uses its own UCX
    auto named = resolve_usable_ucx(name);
    if (!named)
        return Sentence(named.error());
    m_ucx = std::move(*named);
    return {};
}

OrSentence<void> RunSetup::choose_server(const std::string &directory) {
    if (!directory.empty()) {
        auto shared = make_shared_server(directory);
        if (!shared)
            return Sentence(shared.error());
        m_server = std::move(*shared);
        m_shared = true;
    }
    if (m_server.empty())
        if (auto made = make_private(); !made)
            return made;
    if (!m_server.empty())
        return {};
    m_server = m_private->path() / "cards";
    return make_directory(m_server);
}

OrSentence<void> RunSetup::make_private() {
    if (m_private)
        return {};
    auto made = PrivateDirectory::make();
    if (!made)
        return Sentence(made.error());
    m_private.emplace(std::move(*made));
    return {};
}

/// Runs that share cards share the fabric too, so that their programs reach each other.
OrSentence<void> RunSetup::add_hcas(const std::string &count) {
    const auto library = find_softhca_library();
    if (!library)
        return Sentence(library.error());
    const fs::path fabric = (m_shared ? m_server : m_private->path()) / "hca";
    if (auto made = make_directory(fabric); !made)
        return made;
    m_environment.append("LD_PRELOAD", library->string()); // behind the runtime of a sanitizer, which must be first
    m_environment.set("SOFTHCA_DIR", fabric.string());
    m_environment.set("SOFTHCA_DEVICES", count);
    return {};
}

/// To be called last: it changes what this process sees of the machine.
OrSentence<void> RunSetup::add_topology(const RunOptions &options) {
    if (m_shared && !options.hcas.empty())
        return Sentence(
            "--topology: not with --hca and --dir together: a NIC cannot reach into the namespace of another run");
    if (auto made = make_private(); !made)
        return made;
    const fs::path room = m_private->path() / "pci";
    if (auto made = make_directory(room); !made)
        return made;
    const char *model = std::getenv("SOFTGAUDI_MODEL");
    return show_topology(room, model && model == std::string_view("gaudi3"),
                         options.hcas.empty() ? 0 : static_cast<unsigned>(std::stoul(options.hcas)));
}

/// The directories in which a program finds libucp.so.0 of the chosen UCX.
OrSentence<std::string> RunSetup::find_ucx_libraries() {
    if (!m_ucx->hashed)
        return m_ucx->libraries.string();
    if (auto made = make_private(); !made)
        return Sentence(made.error());
    const fs::path links = m_private->path() / "ucx";
    if (const auto linked = link_plain_names(*m_ucx, links); !linked)
        return Sentence(linked.error());
    // The modules also need the libraries of their wheel, which are beside the originals and not beside the links.
    return os::format("{}:{}", links.string(), m_ucx->libraries.string());
}

OrSentence<void> RunSetup::prepare(const RunOptions &options) {
    if (std::getenv(record::kFileVariable))
        return Sentence(
            "run inside record would not be recorded: use ucx_gaudi run ... -- ucx_gaudi record -o FILE -- COMMAND");
    const auto modules = find_module_directory();
    if (!modules)
        return Sentence(modules.error());
    const auto softgaudi = find_softgaudi_library();
    if (!softgaudi)
        return Sentence(softgaudi.error());
    if (auto chosen = choose_ucx(options.ucx); !chosen)
        return chosen;
    if (m_ucx && !options.hcas.empty())
        if (auto checked = check_ib_module(*m_ucx, options.ucx); !checked)
            return checked;
    if (auto chosen = choose_server(options.directory); !chosen)
        return chosen;

    m_environment.prepend("UCX_PLUGIN_PATH", modules->string());
    choose_ucx_in_open_mpi(m_environment);
    m_environment.set("GAUDI_THUNK", softgaudi->string());
    m_environment.set("SOFTGAUDI_DIR", m_server.string());
    m_environment.set_if_given("SOFTGAUDI_CARDS", options.cards);
    m_environment.set_if_given("SOFTGAUDI_MODEL", options.model);
    m_environment.set_if_given("SOFTGAUDI_PACE", options.pace);
    m_environment.set_if_given("SOFTGAUDI_FAULTS", options.faults);
    m_environment.set_if_given("SOFTGAUDI_QUIRKS", options.quirks);
    if (!options.profile.empty()) // the program may change its directory
        m_environment.set("SOFTGAUDI_PROFILE", fs::absolute(options.profile).lexically_normal().string());

    // A program that is itself linked to libhl-thunk must use the same cards.
    std::string libraries = softgaudi->parent_path().string();
    if (m_ucx) {
        const auto ucx = find_ucx_libraries();
        if (!ucx)
            return Sentence(ucx.error());
        libraries = os::format("{}:{}", *ucx, libraries);
    }
    m_environment.prepend("LD_LIBRARY_PATH", libraries);
    if (m_ucx && !m_ucx->programs.empty() && !contains_directory(read_path_list("PATH"), m_ucx->programs))
        m_environment.prepend("PATH", m_ucx->programs.string());
    if (!options.hcas.empty())
        if (auto added = add_hcas(options.hcas); !added)
            return added;
    return options.topology ? add_topology(options) : OrSentence<void>();
}

} // namespace

int run_program(const RunOptions &options) {
    const HeldSignals signals;
    RunSetup setup;
    if (const auto done = setup.prepare(options); !done) {
        os::print(stderr, "ucx_gaudi: {}\n", done.error());
        return 1;
    }
    if (options.hcas.empty())
        os::print(stderr, "ucx_gaudi: software: this runs on softgaudi, not on a Gaudi card\n");
    else
        os::print(stderr,
                  "ucx_gaudi: software: this runs on softgaudi and softhca, not on a Gaudi card and an RDMA NIC\n");
    if (options.verbose) {
        setup.environment().print();
        if (!options.hcas.empty() && !options.topology)
            os::print(stderr, "without --topology UCX knows no distances: all NICs are equally near to it\n");
        std::vector<std::string> words;
        for (const std::string &word : options.command)
            words.push_back(quote(word));
        os::print(stderr, "{}\n", os::join(words, " "));
    }
    return run_child(options.command, signals);
}

} // namespace gaudi::cli
