// SPDX-License-Identifier: BSD-3-Clause
#include "demo.h"

#include "child.h"
#include "doctor/collect.h"
#include "ib_module.h"
#include "os/format.h"
#include "places.h"
#include "thunk/fd.h"
#include "usable_ucx.h"
#include "write_stdout.h"

#include <nlohmann/json.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

// A PCIe gen 4 x16 link of each card and 200 Gb/s of each NIC, on the virtual clock, so that the figures do not depend on
// the machine.
constexpr const char *kCardPace = "virtual:down:25,up:25,card:1000,submit:4,map:20";
constexpr const char *kHcaPace = "virtual:link:25,latency:2";

struct ChosenUcx {
    std::string name; // for --ucx of run
    bool rdma = false;
};

OrSentence<ChosenUcx> resolve_named(const std::string &name) {
    const auto ucx = resolve_usable_ucx(name);
    if (!ucx)
        return Sentence(ucx.error());
    return ChosenUcx{name, check_ib_module(*ucx, name).has_value()};
}

/// The newest usable UCX of this machine; one with an ib module is preferred.
std::optional<ChosenUcx> find_best() {
    std::optional<ChosenUcx> best;
    std::string best_version;
    for (const doctor::UcxFacts &ucx : doctor::list_ucx()) {
        if (!ucx.why_unusable.empty())
            continue;
        const auto found = resolve_named(fs::path(ucx.libucs).parent_path().string());
        if (found && (!best || std::tie(found->rdma, ucx.version) > std::tie(best->rdma, best_version))) {
            best = *found;
            best_version = ucx.version;
        }
    }
    return best;
}

/// The programs that are shown.
struct Programs {
    std::string self, cards, exchange, softgaudi_stat, softhca_stat;
};

OrSentence<Programs> find_programs() {
    Programs found;
    for (auto [name, path] : {std::pair{"ucx_gaudi", &found.self},
                              {"gaudi_demo", &found.cards},
                              {"ucp_exchange", &found.exchange},
                              {"softgaudi_stat", &found.softgaudi_stat},
                              {"softhca_stat", &found.softhca_stat}}) {
        auto program = find_program(name);
        if (!program)
            return Sentence(program.error());
        *path = program->string();
    }
    return found;
}

class Demo {
public:
    Demo(Programs programs, bool json) : m_programs(std::move(programs)), m_json(json) {}

    /// Each returns an exit code.
    int show_rdma(const std::string &ucx) {
        ::setenv("SOFTHCA_PACE", kHcaPace, 1);
        const int code = run({"--cards", "2", "--hca", "2", "--ucx", ucx, "--pace", kCardPace}, m_programs.exchange,
                             {"--rdma", m_programs.softgaudi_stat, m_programs.softhca_stat});
        ::unsetenv("SOFTHCA_PACE");
        return code;
    }
    int show_exchange(const std::string &ucx) {
        if (!print_title("Within the machine, through the host: UCX stages what no NIC can reach"))
            return 1;
        return run({"--cards", "2", "--ucx", ucx}, m_programs.exchange, {m_programs.softgaudi_stat});
    }
    int show_cards() {
        if (!print_title("The cards"))
            return 1;
        return run({}, m_programs.cards, {});
    }

    /// What the programs have printed as JSON so far, as docs/schema/demo-1.json has it.
    std::string describe(const std::optional<ChosenUcx> &ucx) const {
        Json report = {{"schema", 1}, {"software", true}, {"ucx", nullptr}};
        if (ucx)
            report["ucx"] = {{"name", ucx->name}, {"rdma", ucx->rdma}};
        report["exchanges"] = m_exchanges;
        report["cards"] = m_cards.is_object() ? m_cards["cards"] : Json::array();
        report["memcpy_bytes_per_s"] = m_cards.is_object() ? m_cards["memcpy_bytes_per_s"] : Json();
        return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    }

private:
    using Json = nlohmann::ordered_json;

    bool print_title(const char *title) const { return m_json || write_stdout(os::format("\n{}\n\n", title)); }
    int run(std::vector<std::string> words, const std::string &program, const std::vector<std::string> &arguments) {
        words.insert(words.begin(), {m_programs.self, "run"});
        words.insert(words.end(), {"--", program});
        if (!m_json) {
            words.insert(words.end(), arguments.begin(), arguments.end());
            return run_child(words, m_signals);
        }
        words.emplace_back("--json");
        words.insert(words.end(), arguments.begin(), arguments.end());
        const thunk::Fd output(::memfd_create("ucx_gaudi", MFD_CLOEXEC));
        if (!output) {
            os::print(stderr, "ucx_gaudi: cannot create a file in memory: {}\n", std::strerror(errno));
            return 1;
        }
        const int code = run_child(words, m_signals, output.get());
        return keep(read_all(output.get())) || code != 0 ? code : 1;
    }
    /// False for what is no JSON of the programs: the one that ended early has printed the reason.
    bool keep(const std::string &text) {
        Json printed = Json::parse(text, nullptr, false);
        if (printed.is_array())
            m_exchanges.insert(m_exchanges.end(), printed.begin(), printed.end());
        else if (printed.is_object())
            m_cards = std::move(printed);
        else
            return false;
        return true;
    }
    static std::string read_all(int file) {
        std::string text;
        char buffer[4096];
        for (ssize_t got = 0; (got = ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
            text.append(buffer, static_cast<std::size_t>(got));
        return text;
    }

    const Programs m_programs;
    const bool m_json;
    const HeldSignals m_signals;
    Json m_exchanges = Json::array();
    Json m_cards;
};

/// Shows everything that the UCX can do; returns an exit code.
int show_all(Demo &demo, const std::optional<ChosenUcx> &ucx, bool json) {
    if (!ucx) { // the cards can be shown all the same, but that is not what was asked for
        const int code = demo.show_cards();
        os::print(stderr,
                  "ucx_gaudi: no UCX of 1.22 or later was found, so only the cards were shown; install one, for "
                  "example by pip install --no-deps nixl-cu12, or name it with --ucx\n");
        return code ? code : 1;
    }
    if (ucx->rdma) {
        if (const int code = demo.show_rdma(ucx->name))
            return code;
    } else if (!json &&
               !write_stdout(os::format(
                   "the UCX in {} has no ib module, so RDMA is not shown; that of nixl-cu12 has one\n", ucx->name))) {
        return 1;
    }
    if (const int code = demo.show_exchange(ucx->name))
        return code;
    return demo.show_cards();
}

} // namespace

int run_demo(const std::string &ucx, bool json) {
    const auto programs = find_programs();
    if (!programs) {
        os::print(stderr, "ucx_gaudi: {}\n", programs.error());
        return 1;
    }
    std::optional<ChosenUcx> chosen;
    if (ucx.empty()) {
        chosen = find_best();
    } else {
        const auto named = resolve_named(ucx);
        if (!named) {
            os::print(stderr, "ucx_gaudi: {}\n", named.error());
            return 2;
        }
        chosen = *named;
    }
    Demo demo(*programs, json);
    const int code = show_all(demo, chosen, json);
    if (json && !write_stdout(demo.describe(chosen)))
        return 1;
    return code;
}

} // namespace gaudi::cli
