// SPDX-License-Identifier: BSD-3-Clause
#include "commands.h"

#include "explain/side.h"
#include "os/format.h"
#include "quote.h"
#include "write_stdout.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <sstream>
#include <string_view>

namespace gaudi::cli {
namespace {

constexpr int kUsage = 2; // for every mistake; CLI11 would return a code of its own for each

/// CLI11's help with a usage line of our own.
class Help : public CLI::Formatter {
public:
    Help() { column_width(24); }
    std::string make_usage(const CLI::App *app, std::string) const override {
        if (!app->get_parent())
            return "usage: ucx_gaudi COMMAND [OPTIONS]\n";
        std::string words;
        for (const CLI::Option *option : app->get_options([](const CLI::Option *one) { return one->get_positional(); }))
            words += os::format(" {}", option->get_name(true));
        const std::string &name = app->get_name();
        return os::format("usage: ucx_gaudi {} [OPTIONS]{}{}\n", name, words,
                          name == "run" || name == "record" ? " -- COMMAND [ARGS]" : "");
    }
};

/// Prints one sentence about a mistake, after "ucx_gaudi" or a command of it; returns the exit code.
int report_usage(const std::string &command, std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    os::print(stderr, "ucx_gaudi: {}; see {} --help\n", text, command);
    return kUsage;
}

/// The same for a mistake that CLI11 found while it parsed.
int report_usage(const CLI::App &app, std::string text) {
    std::string command = "ucx_gaudi";
    for (const CLI::App *chosen : app.get_subcommands())
        command = os::format("ucx_gaudi {}", chosen->get_name());
    return report_usage(command, std::move(text));
}

/// The flag that a word gives a value, as in --json=3; empty for other words. CLI11 would take some values and describe the
/// others in its own terms.
std::string find_flag_with_value(const CLI::App &command, const std::string &word) {
    const std::size_t cut = word.find('=');
    if (cut == std::string::npos || !word.starts_with("--"))
        return {};
    std::string name = word.substr(0, cut);
    const CLI::Option *option = command.get_option_no_throw(name);
    return option && option->get_expected_max() == 0 ? name : std::string();
}

/// The option that was given an empty value, as by --from "$UNSET"; empty if there is none. It would count as not given.
std::string find_empty_value(const CLI::App &command) {
    for (const CLI::Option *option : command.get_options({}))
        if (option->get_expected_min() > 0 && option->count() > 0 &&
            std::ranges::find(option->results(), std::string()) != option->results().end())
            return option->get_name();
    return {};
}

/// The words of run or record with the -- that is missing before the program; empty if they have no program either.
std::string add_missing_cut(const CLI::App &command, const std::vector<std::string> &words) {
    const std::vector<std::string> unexpected = command.remaining();
    if (unexpected.empty() || unexpected.front().starts_with('-'))
        return {};
    std::vector<std::string> all = words;
    all.insert(std::find(all.begin() + 1, all.end(), unexpected.front()), "--");
    all.insert(all.begin(), "ucx_gaudi");
    return quote_words(all);
}

int main_of(std::vector<std::string> words) {
    CLI::App app("Intel Gaudi support for stock UCX", "ucx_gaudi");
    app.formatter(std::make_shared<Help>()); // commands added later inherit it
    app.set_version_flag("--version", "ucx_gaudi " UCX_GAUDI_VERSION);
    app.require_subcommand(1);
    std::vector<std::string> program; // the words after --: they belong to another program and must not be parsed
    const std::vector<Command> commands = add_commands(app, program);
    for (const Command &command : commands)
        command.app->set_version_flag("--version", "ucx_gaudi " UCX_GAUDI_VERSION)->group(""); // "": not in its help
    app.footer("ucx_gaudi COMMAND --help describes a command."); // set after the commands, which would inherit it

    if (const auto cut = std::find(words.begin(), words.end(), "--"); cut != words.end()) {
        program.assign(std::next(cut), words.end());
        words.erase(cut, words.end());
    }
    if (words.empty() && program.empty()) {
        os::print(stderr, "{}", app.help());
        return kUsage;
    }
    const auto is_named = [&](const Command &command) { return command.app->get_name() == words.front(); };
    const auto named = words.empty() ? commands.end() : std::ranges::find_if(commands, is_named);
    if (!words.empty() && !words.front().starts_with('-') && named == commands.end())
        return report_usage(app, os::format("there is no command '{}'", words.front()));
    if (named != commands.end())
        for (const std::string &word : words)
            if (const std::string flag = find_flag_with_value(*named->app, word); !flag.empty())
                return report_usage(os::format("ucx_gaudi {}", words.front()), os::format("{} takes no value", flag));
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend())); // the order that CLI11 expects
    } catch (const CLI::ExtrasError &error) {
        const bool takes_program = named != commands.end() && !named->program_example.empty() && program.empty();
        const std::string line = takes_program ? add_missing_cut(*named->app, words) : std::string();
        return report_usage(app, line.empty() ? error.what() : os::format("put -- before the program: {}", line));
    } catch (const CLI::RequiredError &error) {
        return report_usage(app, app.get_subcommands().empty() ? "no command is given" : error.what());
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0)
            return report_usage(app, error.what());
        std::ostringstream text; // of --help or --version
        app.exit(error, text, text);
        return write_stdout(text.str()) ? 0 : 1;
    }
    if (const std::string option = named == commands.end() ? "" : find_empty_value(*named->app); !option.empty())
        return report_usage(app, os::format("{} needs a value, and got an empty one", option));
    const Command &chosen = *std::ranges::find_if(commands, [](const Command &command) { return bool{*command.app}; });
    if (chosen.program_example.empty() && !program.empty())
        return report_usage(app, "only run and record take a command after --");
    if (!chosen.program_example.empty() && program.empty())
        return report_usage(
            app, os::format("{} needs a command after --, as in: {}", chosen.app->get_name(), chosen.program_example));
    const int code = chosen.run();
    return finish_stdout() || code != 0 ? code : 1;
}

} // namespace
} // namespace gaudi::cli

int main(int count, char **words) {
    // A file that is opened later must not become the standard input or output of a program that this one starts.
    for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;)
        fd = ::open("/dev/null", O_RDWR);
    try {
        if (count == 3 && std::string_view(words[1]) == gaudi::cli::explain::kSideWord)
            gaudi::cli::explain::run_side(words[2]);
        return gaudi::cli::main_of({words + 1, words + count});
    } catch (const std::bad_alloc &) {
        gaudi::os::print(stderr, "ucx_gaudi: not enough memory\n");
        return 1;
    } catch (const std::exception &error) {
        gaudi::os::print(stderr, "ucx_gaudi: {}\n", error.what());
        return 1;
    }
}
