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
#include "quote.h"
#include "record/format.h"
#include "report_file.h"
#include "run_counters.h"
#include "soft_settings.h"
#include "topology.h"
#include "usable_ucx.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMistake = 2; // the exit code for a wrong value of an option

/// Creates the directory that several runs share, so that their programs see the same cards; `made`: it was not there.
OrSentence<fs::path> make_shared_server(const std::string &name, bool &made) {
    std::error_code error;
    fs::path path = fs::absolute(name, error).lexically_normal();
    if (!fs::exists(path.parent_path(), error))
        return Sentence(os::format("--dir {}: there is no directory {}", name, path.parent_path().string()));
    if (!is_in_memory(fs::exists(path, error) ? path : path.parent_path()))
        return Sentence(
            os::format("--dir {}: must be on tmpfs, for example in /dev/shm: it holds the memory of the cards", name));
    made = ::mkdir(path.c_str(), 0700) == 0;
    if (!made && errno != EEXIST)
        return Sentence(os::format("--dir {}: cannot create it: {}", name, std::strerror(errno)));
    if (!fs::is_directory(path, error))
        return Sentence(os::format("--dir {}: is not a directory", name));
    if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0)
        return Sentence(os::format("--dir {}: cannot be written to: {}", name, std::strerror(errno)));
    return path;
}

OrSentence<void> make_directory(const fs::path &path) {
    std::error_code error;
    if (!fs::create_directory(path, error) && error)
        return Sentence(os::format("cannot create {}: {}", path.string(), error.message()));
    return {};
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
    /// Resolves what options name; the error is a mistake in an option.
    OrSentence<void> choose(const RunOptions &options);
    OrSentence<void> prepare(const RunOptions &options);
    /// A wrong setting of softgaudi or softhca; empty if there is none.
    std::string find_wrong_setting() const;
    /// Removes the directory of --dir, if this run has created it and will not use it.
    void discard();
    /// To be called last: it changes what this process sees of the machine.
    OrSentence<void> add_topology(const RunOptions &options);
    const Environment &environment() const { return m_environment; }

private:
    OrSentence<void> make_server();
    OrSentence<void> add_hcas(const std::string &count);
    OrSentence<void> make_private();
    OrSentence<std::string> find_ucx_libraries();

    Environment m_environment;
    std::optional<Ucx> m_ucx;
    std::optional<PrivateDirectory> m_private; // removed with this object, after the program has ended
    fs::path m_softgaudi, m_softhca;           // the libraries; the second is empty without NICs
    fs::path m_server;
    bool m_shared = false;      // other runs may use the server too
    bool m_made_server = false; // this run has created the shared directory
};

OrSentence<void> RunSetup::choose(const RunOptions &options) {
    if (!options.ucx.empty()) { // else the program uses its own
        auto named = resolve_usable_ucx(options.ucx);
        if (!named)
            return Sentence(named.error());
        m_ucx = std::move(*named);
        if (!options.hcas.empty())
            if (auto checked = check_ib_module(*m_ucx, options.ucx); !checked)
                return checked;
    }
    m_shared = !options.directory.empty();
    if (m_shared && options.topology && !options.hcas.empty())
        return Sentence(
            "--topology: not with --hca and --dir together: a NIC cannot reach into the namespace of another run");
    if (m_shared) {
        auto shared = make_shared_server(options.directory, m_made_server);
        if (!shared)
            return Sentence(shared.error());
        m_server = std::move(*shared);
    }
    return {};
}

OrSentence<void> RunSetup::make_server() {
    if (m_shared)
        return {};
    if (auto made = make_private(); !made)
        return made;
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
    m_softhca = *library;
    const fs::path fabric = (m_shared ? m_server : m_private->path()) / "hca";
    if (auto made = make_directory(fabric); !made)
        return made;
    m_environment.append("LD_PRELOAD", library->string()); // behind the runtime of a sanitizer, which must be first
    m_environment.set("SOFTHCA_DIR", fabric.string());
    m_environment.set("SOFTHCA_DEVICES", count);
    return {};
}

OrSentence<void> RunSetup::add_topology(const RunOptions &options) {
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
    const auto modules = find_module_directory();
    if (!modules)
        return Sentence(modules.error());
    const auto softgaudi = find_softgaudi_library();
    if (!softgaudi)
        return Sentence(softgaudi.error());
    m_softgaudi = *softgaudi;
    if (auto made = make_server(); !made)
        return made;

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
    return {};
}

void RunSetup::discard() {
    std::error_code ignored;
    if (m_made_server)
        fs::remove_all(m_server, ignored);
}

std::string RunSetup::find_wrong_setting() const {
    std::string wrong = cli::find_wrong_setting(m_softgaudi, "softgaudi_check_settings");
    if (wrong.empty() && !m_softhca.empty())
        wrong = cli::find_wrong_setting(m_softhca, "softhca_check_settings");
    return wrong;
}

int report(const std::string &sentence, int code) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return code;
}

/// Reports a wrong setting by the name of the option that it came from; returns the exit code.
int report_wrong_setting(std::string sentence, const RunOptions &options) {
    const std::tuple<std::string_view, std::string_view, const std::string &> kOptions[] = {
        {"SOFTGAUDI_PACE", "--pace", options.pace},       {"SOFTGAUDI_FAULTS", "--faults", options.faults},
        {"SOFTGAUDI_QUIRKS", "--quirks", options.quirks}, {"SOFTGAUDI_PROFILE", "--profile", options.profile},
        {"SOFTGAUDI_DIR", "--dir", options.directory},    {"SOFTGAUDI_CARDS", "--cards", options.cards},
        {"SOFTHCA_DEVICES", "--hca", options.hcas},
    };
    for (const auto &[variable, option, value] : kOptions) {
        if (value.empty() || !sentence.starts_with(variable))
            continue;
        sentence.replace(0, variable.size(), option);
        if (sentence[option.size()] == '=')
            sentence[option.size()] = ' ';
        return report(sentence, kMistake);
    }
    return report(sentence, 1);
}

} // namespace

int run_program(const RunOptions &options) {
    if (std::getenv(record::kFileVariable))
        return report(
            "run inside record would not be recorded: use ucx_gaudi run ... -- ucx_gaudi record -o FILE -- COMMAND", 1);
    std::optional<ReportFile> json;
    if (!options.json.empty()) { // before the program, which may run long
        auto opened = ReportFile::open(options.json);
        if (!opened)
            return report(opened.error(), 1);
        json = std::move(*opened);
    }
    RunSetup setup;
    if (const auto chosen = setup.choose(options); !chosen)
        return report(chosen.error(), kMistake);
    const HeldSignals signals; // from here on there are directories to remove; a UCX that hangs was to be ended
    if (const auto done = setup.prepare(options); !done)
        return report(done.error(), 1);
    if (std::string wrong = setup.find_wrong_setting(); !wrong.empty()) {
        setup.discard();
        return report_wrong_setting(std::move(wrong), options);
    }
    if (const auto shown = options.topology ? setup.add_topology(options) : OrSentence<void>(); !shown)
        return report(shown.error(), 1);
    if (options.hcas.empty())
        os::print(stderr, "ucx_gaudi: software: this runs on softgaudi, not on a Gaudi card\n");
    else
        os::print(stderr,
                  "ucx_gaudi: software: this runs on softgaudi and softhca, not on a Gaudi card and an RDMA NIC\n");
    if (options.verbose) {
        setup.environment().print();
        if (!options.hcas.empty() && !options.topology)
            os::print(stderr, "without --topology UCX knows no distances: all NICs are equally near to it\n");
        os::print(stderr, "{}\n", quote_words(options.command));
    }
    const int code = run_child(options.command, signals);
    if (options.statistics)
        print_counters(!options.hcas.empty());
    if (const auto written =
            json ? json->write(describe_run(options.command, code, !options.hcas.empty())) : OrSentence<void>();
        !written)
        return report(written.error(), code != 0 ? code : 1);
    return code;
}

} // namespace gaudi::cli
