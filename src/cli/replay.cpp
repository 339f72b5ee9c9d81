// SPDX-License-Identifier: BSD-3-Clause
#include "replay.h"

#include "os/format.h"
#include "places.h"
#include "recording.h"
#include "replay_calls.h"
#include "run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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
int replay_on_softgaudi(const std::string &file, const Recording &recording, bool json) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    RunOptions options = recorded_server(recording);
    options.command = {self.string(), "replay", std::filesystem::absolute(file, error).string()};
    if (json)
        options.command.emplace_back("--json");
    return run_program(options);
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

int run_replay(const std::string &file, bool json) {
    const auto recording = Recording::read(file);
    if (!recording) {
        os::print(stderr, "ucx_gaudi: {}\n", recording.error());
        return 2;
    }
    if (!std::getenv("GAUDI_THUNK"))
        return replay_on_softgaudi(file, *recording, json);
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
    return replay_calls(*library, *recording, json);
}

} // namespace gaudi::cli
