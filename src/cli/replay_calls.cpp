// SPDX-License-Identifier: BSD-3-Clause
#include "replay_calls.h"

#include "os/format.h"
#include "replay_compare.h"
#include "replayer.h"

#include <cstdio>
#include <map>
#include <string>

namespace gaudi::cli {
namespace {

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

} // namespace

int replay_calls(const ReplayLibrary &library, const Recording &recording) {
    if (recording.lost() != 0)
        os::print(stderr, "ucx_gaudi: the recording is cut: its last {} calls and packets are missing\n",
                  recording.lost());
    Replayer replayer(library, recording);
    std::size_t number = 0, played = 0, differences = 0;
    std::map<std::string, std::size_t> left_out;
    for (const RecordedCall &event : recording.events()) {
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
    os::print(stdout, "replayed {} of {} calls (processes: {}) on {}: {}\n", played, number, recording.processes(),
              library.path(),
              differences == 0 ? "no answer differs" : os::format("answers that differ: {}", differences));
    return differences == 0 ? 0 : 1;
}

} // namespace gaudi::cli
