// SPDX-License-Identifier: BSD-3-Clause
#include "demo.h"
#include "doctor/doctor.h"
#include "enable.h"
#include "info.h"
#include "os/format.h"
#include "places.h"
#include "record.h"
#include "replay.h"
#include "run.h"
#include "verify/verify.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>

namespace gaudi::cli {
namespace {

constexpr int kUsage = 2; // for every mistake; CLI11 would return a code of its own for each

/// CLI11's help with a usage line of our own.
class Help : public CLI::Formatter {
public:
    Help() { column_width(24); }
    std::string make_usage(const CLI::App *app, std::string) const override {
        const std::string name = app->get_parent() ? os::format(" {}", app->get_name()) : " COMMAND";
        return os::format("usage: ucx_gaudi{} [OPTIONS]{}\n", name,
                          name == " run" || name == " record" ? " -- COMMAND [ARGS]"
                          : name == " replay"                 ? " FILE"
                                                              : "");
    }
};

int print_plugin_path() {
    const auto directory = find_module_directory();
    if (!directory) {
        os::print(stderr, "ucx_gaudi: {}\n", directory.error());
        return 1;
    }
    os::print(stdout, "{}\n", directory->string());
    return 0;
}

/// Prints one sentence about a mistake; returns the exit code.
int report_usage(const CLI::App &app, std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::string command = "ucx_gaudi";
    for (const CLI::App *chosen : app.get_subcommands())
        command = os::format("ucx_gaudi {}", chosen->get_name());
    os::print(stderr, "ucx_gaudi: {}; see {} --help\n", text, command);
    return kUsage;
}

bool is_command(const CLI::App &app, const std::string &command) {
    const auto all = app.get_subcommands([](const CLI::App *) { return true; });
    return std::any_of(all.begin(), all.end(), [&](const CLI::App *one) { return one->get_name() == command; });
}

CLI::App *add_run(CLI::App &app, RunOptions &options) {
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
        ->check(CLI::Range(1, 4))
        ->option_text("[N]");
    run->add_flag("--topology", options.topology, "Show UCX the PCIe switches of the cards and NICs");
    run->add_flag("-v,--verbose", options.verbose, "Print the variables that are set, and the command");
    return run;
}

CLI::App *add_record(CLI::App &app, RecordOptions &options) {
    CLI::App *record = app.add_subcommand("record", "Run a program and record its calls of libhl-thunk");
    record->footer(
        "On softgaudi: ucx_gaudi run -- ucx_gaudi record -o FILE -- COMMAND. docs/record.md describes FILE.");
    record->add_option("-o,--output", options.output, "File to write the recording to")
        ->required()
        ->option_text("FILE");
    record->add_option("--size", options.size_mib, "Size of the file at most, in MiB (default: 256)")
        ->check(CLI::Range(1, 1 << 20))
        ->option_text("MIB");
    return record;
}

CLI::App *add_replay(CLI::App &app, std::string &file) {
    CLI::App *replay = app.add_subcommand("replay", "Make the calls of a recording again and compare the answers");
    replay->footer("On softgaudi, unless GAUDI_THUNK names a libhl-thunk. Returns 1 if an answer differs.");
    replay->add_option("FILE", file, "Recording of ucx_gaudi record")->required()->option_text(" ");
    return replay;
}

CLI::App *add_verify(CLI::App &app, VerifyOptions &options) {
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
    return verify;
}

CLI::App *add_doctor(CLI::App &app, DoctorOptions &options) {
    CLI::App *doctor = app.add_subcommand("doctor", "Say why Gaudi memory is not used, or not without a copy");
    doctor->footer("Returns 1 if a check failed. docs/doctor.md describes the checks by their ids.");
    auto *active = doctor->add_flag("--active", options.active, "Also open each free card and copy memory of its own");
    doctor->add_flag("--strict", options.strict, "Return 1 for warnings too");
    doctor->add_flag("--json", options.json, "Print JSON, for programs");
    doctor->add_option("--from", options.from, "Judge the machine that wrote FILE by ucx_gaudi dump")
        ->option_text("FILE")
        ->excludes(active);
    return doctor;
}

CLI::App *add_dump(CLI::App &app, DumpOptions &options) {
    CLI::App *dump = app.add_subcommand("dump", "Write what doctor looks at as JSON, to send to others");
    dump->footer("It holds paths, versions and variables of UCX and Gaudi, and no others.");
    dump->add_flag("--active", options.active, "Also open each free card and copy memory of its own");
    dump->add_option("-o,--output", options.output, "File to write to (default: stdout)")->option_text("FILE");
    return dump;
}

CLI::App *add_enable(CLI::App &app, const char *name, const char *description, EnableOptions &options) {
    CLI::App *command = app.add_subcommand(name, description);
    command->footer("Without an option: the active virtual environment, or --user if none is active.");
    auto *venv = command
                     ->add_option("--venv", options.venv_directory,
                                  "In the virtual environment DIR (without DIR: the active one)")
                     ->expected(0, 1)
                     ->option_text("[DIR]");
    auto *user = command->add_flag("--user", options.user, "For each UCX that this user runs (~/ucx.conf)");
    auto *system = command->add_flag("--system", options.system, "For each UCX that reads /etc/ucx/ucx.conf");
    venv->excludes(user)->excludes(system);
    user->excludes(system);
    command->callback([venv, &options] { options.venv = venv->count() > 0; });
    return command;
}

int main_of(std::vector<std::string> words) {
    RunOptions options;
    RecordOptions record;
    std::string recording;
    EnableOptions enable;
    VerifyOptions verify;
    DoctorOptions doctor;
    DumpOptions dump;
    bool json = false;
    std::string demo_ucx;
    CLI::App app("Intel Gaudi support for stock UCX", "ucx_gaudi");
    app.formatter(std::make_shared<Help>()); // commands added later inherit it
    app.set_version_flag("--version", "ucx_gaudi " UCX_GAUDI_VERSION);
    app.require_subcommand(1);
    CLI::App *demo_command = app.add_subcommand("demo", "Show zero copy and the software Gaudi at work");
    demo_command->add_option("--ucx", demo_ucx, "UCX to show it on, as for run (default: the best one that is found)")
        ->option_text("NAME|DIR");
    const CLI::App *run_command = add_run(app, options);
    const CLI::App *record_command = add_record(app, record);
    const CLI::App *replay_command = add_replay(app, recording);
    CLI::App *info_command = app.add_subcommand("info", "Show the cards, libraries and modules of this machine");
    info_command->add_flag("--json", json, "Print JSON, for programs");
    const CLI::App *doctor_command = add_doctor(app, doctor);
    const CLI::App *dump_command = add_dump(app, dump);
    const CLI::App *verify_command = add_verify(app, verify);
    const CLI::App *plugin_path = app.add_subcommand("plugin-path", "Print the module directory, for UCX_PLUGIN_PATH");

    const CLI::App *enable_command =
        add_enable(app, "enable", "Let UCX load the modules without a variable, by a line in ucx.conf", enable);
    const CLI::App *disable_command = add_enable(app, "disable", "Undo enable", enable);

    app.footer("ucx_gaudi COMMAND --help describes a command."); // set after the commands, which would inherit it
    for (CLI::App *command : app.get_subcommands({}))
        command->group("Commands");

    // The words after -- belong to another program and must not be parsed.
    if (const auto cut = std::find(words.begin(), words.end(), "--"); cut != words.end()) {
        options.command.assign(std::next(cut), words.end());
        words.erase(cut, words.end());
    }
    if (words.empty() && options.command.empty()) {
        os::print(stderr, "{}", app.help());
        return kUsage;
    }
    if (!words.empty() && !words.front().starts_with('-') && !is_command(app, words.front()))
        return report_usage(app, os::format("there is no command '{}'", words.front()));
    std::reverse(words.begin(), words.end()); // the order that CLI11 expects
    try {
        app.parse(std::move(words));
    } catch (const CLI::RequiredError &error) {
        return report_usage(app, app.get_subcommands().empty() ? "no command is given" : error.what());
    } catch (const CLI::ParseError &error) {
        return error.get_exit_code() == 0 ? app.exit(error) : report_usage(app, error.what());
    }
    if (*run_command) {
        if (options.command.empty())
            return report_usage(app, "run needs a command after --, as in: ucx_gaudi run -- ucx_info -d");
        return run_program(options);
    }
    if (*record_command) {
        record.command = options.command;
        if (record.command.empty())
            return report_usage(app, "record needs a command after --, as in: ucx_gaudi record -o FILE -- ucx_info -d");
        return run_record(record);
    }
    if (!options.command.empty())
        return report_usage(app, "only run and record take a command after --");
    if (*replay_command)
        return run_replay(recording);
    if (*demo_command)
        return run_demo(demo_ucx);
    if (*enable_command)
        return run_enable(enable);
    if (*disable_command)
        return run_disable(enable);
    if (*doctor_command)
        return run_doctor(doctor);
    if (*dump_command)
        return run_dump(dump);
    if (*verify_command)
        return run_verify(verify);
    return *plugin_path ? print_plugin_path() : run_info(json);
}

} // namespace
} // namespace gaudi::cli

int main(int count, char **words) {
    try {
        return gaudi::cli::main_of({words + 1, words + count});
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucx_gaudi: {}\n", error.what());
        return 1;
    }
}
