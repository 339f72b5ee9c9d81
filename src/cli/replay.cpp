// SPDX-License-Identifier: BSD-3-Clause
#include "replay.h"

#include "os/format.h"
#include "places.h"
#include "recording.h"
#include "replay_compare.h"
#include "replayer.h"
#include "run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

namespace gaudi::cli {
namespace {

/// A server with the cards that the recording shows.
RunOptions recorded_server(const Recording &recording) {
    RunOptions options;
    std::uint64_t cards = 0;
    for (const RecordedCall *call : recording.calls()) {
        if (!call->function || static_cast<int>(call->head->result) < 0)
            continue;
        if (*call->function == record::Function::open_control && call->arguments[1] == 0)
            cards = std::max(cards, call->arguments[0] + 1);
        const RecordedPiece *info =
            *call->function == record::Function::get_hw_ip_info ? call->find(record::PieceKind::out, 1) : nullptr;
        hlthunk_hw_ip_info known{};
        if (!info || info->bytes.size() < sizeof known)
            continue;
        std::memcpy(&known, info->bytes.data(), sizeof known);
        if (known.device_id == HL_PCI_ID_GAUDI3)
            options.model = "gaudi3";
    }
    if (cards >= 1 && cards <= 8)
        options.cards = os::format("{}", cards);
    return options;
}

/// Starts this program again with the software Gaudi: a recording must not run on a card that happens to be here.
int replay_on_softgaudi(const std::string &file, const Recording &recording) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    RunOptions options = recorded_server(recording);
    options.command = {self.string(), "replay", std::filesystem::absolute(file, error).string()};
    return run_program(options);
}

std::string describe(const RecordedCall &call, std::size_t number) {
    std::string arguments;
    const record::Call &description = description_of(call);
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
        const bool decimal = description.arguments[i].role == record::Role::descriptor ||
                             description.arguments[i].role == record::Role::sequence;
        arguments += os::format("{}{}", i == 0 ? "" : ", ",
                                decimal ? os::format("{}", static_cast<std::int64_t>(call.arguments[i]))
                                        : os::format("{:#x}", call.arguments[i]));
    }
    return os::format("call {} (process {}, thread {}): hlthunk_{}({})", number, call.head->process, call.head->thread,
                      description.name, arguments);
}

/// A recording submits what it holds, with addresses that it could not translate: to a card that could do anything.
bool is_software(const ReplayLibrary &library) {
    using record::Function;
    if (!library.has(Function::get_version) || !library.has(Function::free))
        return false;
    const std::uint64_t text = library.call(Function::get_version, {}).result;
    const bool named = text != 0 && std::strstr(reinterpret_cast<const char *>(text), "softgaudi") != nullptr;
    library.make(Function::free, text);
    return named;
}

} // namespace

int run_replay(const std::string &file) {
    const auto recording = Recording::read(file);
    if (!recording) {
        os::print(stderr, "ucx_gaudi: {}\n", recording.error());
        return 2;
    }
    if (!std::getenv("GAUDI_THUNK"))
        return replay_on_softgaudi(file, *recording);
    const auto library = ReplayLibrary::find();
    if (!library) {
        os::print(stderr, "ucx_gaudi: {}\n", library.error());
        return 2;
    }
    if (!is_software(*library)) {
        os::print(stderr, "ucx_gaudi: replay makes calls on softgaudi only, and GAUDI_THUNK names {}; unset it\n",
                  library->path());
        return 2;
    }
    if (recording->lost() != 0)
        os::print(stderr, "ucx_gaudi: the recording is cut: its last {} calls and packets are missing\n",
                  recording->lost());
    Replayer replayer(*library, *recording);
    std::size_t number = 0, played = 0, differences = 0;
    std::map<std::string, std::size_t> left_out;
    for (const RecordedCall &event : recording->events()) {
        if (event.is_exit) {
            replayer.end_process(event.head->process);
            continue;
        }
        ++number;
        const Replayer::Outcome outcome = replayer.play(event);
        played += outcome.played ? 1 : 0;
        if (!outcome.played)
            ++left_out[event.function ? os::format("hlthunk_{}: {}", description_of(event).name, outcome.text)
                                      : outcome.text];
        else if (!outcome.text.empty()) {
            ++differences;
            os::print(stdout, "{}: {}\n", describe(event, number), outcome.text);
        }
    }
    for (const auto &[what, count] : left_out)
        os::print(stdout, "not replayed ({} times): {}\n", count, what);
    os::print(stdout, "replayed {} of {} calls (processes: {}) on {}: {}\n", played, number, recording->processes(),
              library->path(),
              differences == 0 ? "no answer differs" : os::format("answers that differ: {}", differences));
    return differences == 0 ? 0 : 1;
}

} // namespace gaudi::cli
