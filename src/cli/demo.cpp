// SPDX-License-Identifier: BSD-3-Clause
#include "demo.h"

#include "child.h"
#include "doctor/collect.h"
#include "ib_module.h"
#include "os/format.h"
#include "places.h"
#include "usable_ucx.h"
#include "write_stdout.h"

#include <cstdio>
#include <cstdlib>
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
    explicit Demo(Programs programs) : m_programs(std::move(programs)) {}

    /// Each returns an exit code.
    int show_rdma(const std::string &ucx) {
        ::setenv("SOFTHCA_PACE", kHcaPace, 1);
        const int code = run({"--cards", "2", "--hca", "2", "--ucx", ucx, "--pace", kCardPace, "--",
                              m_programs.exchange, "--rdma", m_programs.softgaudi_stat, m_programs.softhca_stat});
        ::unsetenv("SOFTHCA_PACE");
        return code;
    }
    int show_exchange(const std::string &ucx) {
        if (!print_title("Within the machine, through the host: UCX stages what no NIC can reach"))
            return 1;
        return run({"--cards", "2", "--ucx", ucx, "--", m_programs.exchange, m_programs.softgaudi_stat});
    }
    int show_cards() {
        if (!print_title("The cards"))
            return 1;
        return run({"--", m_programs.cards});
    }

private:
    static bool print_title(const char *title) { return write_stdout(os::format("\n{}\n\n", title)); }
    int run(std::vector<std::string> words) {
        words.insert(words.begin(), {m_programs.self, "run"});
        return run_child(words, m_signals);
    }

    const Programs m_programs;
    const HeldSignals m_signals;
};

} // namespace

int run_demo(const std::string &ucx) {
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

    Demo demo(*programs);
    if (!chosen) { // the cards can be shown all the same, but that is not what was asked for
        const int code = demo.show_cards();
        os::print(stderr,
                  "ucx_gaudi: no UCX of 1.22 or later was found, so only the cards were shown; install one, for "
                  "example by pip install --no-deps nixl-cu12, or name it with --ucx\n");
        return code ? code : 1;
    }
    if (chosen->rdma) {
        if (const int code = demo.show_rdma(chosen->name))
            return code;
    } else {
        if (!write_stdout(os::format(
                "the UCX in {} has no ib module, so RDMA is not shown; that of nixl-cu12 has one\n", chosen->name)))
            return 1;
    }
    if (const int code = demo.show_exchange(chosen->name))
        return code;
    return demo.show_cards();
}

} // namespace gaudi::cli
