// SPDX-License-Identifier: BSD-3-Clause
#include "replay_calls.h"

#include "os/format.h"
#include "replay_compare.h"
#include "replay_order.h"
#include "replayer.h"
#include "write_stdout.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

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

struct Difference {
    const RecordedCall *call;
    std::size_t number;
    std::string text;
};

std::string to_json(const ReplayLibrary &library, const Recording &recording, std::size_t calls, std::size_t played,
                    const std::vector<Difference> &differences, const std::map<std::string, std::size_t> &left_out) {
    using Json = nlohmann::ordered_json;
    Json differ = Json::array(), missed = Json::array();
    for (const Difference &one : differences)
        differ.push_back({{"call", one.number},
                          {"process", one.call->head->process},
                          {"thread", one.call->head->thread},
                          {"function", os::format("hlthunk_{}", description_of(*one.call).name)},
                          {"difference", one.text}});
    for (const auto &[what, count] : left_out)
        missed.push_back({{"reason", what}, {"calls", count}});
    const Json all = {{"schema", 1},
                      {"software", true}, // replay makes calls on softgaudi only
                      {"library", library.path()},
                      {"processes", recording.processes()},
                      {"calls", calls},
                      {"replayed", played},
                      {"lost", recording.lost()},
                      {"not_replayed", missed},
                      {"differences", differ}};
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

int replay_calls(const ReplayLibrary &library, const Recording &recording, bool json) {
    if (recording.lost() != 0)
        os::print(stderr, "ucx_gaudi: the recording is cut: its last {} calls and packets are missing\n",
                  recording.lost());
    Replayer replayer(library, recording);
    std::size_t played = 0;
    std::vector<Difference> differences;
    std::map<std::string, std::size_t> left_out;
    const std::vector<RecordedCall> &events = recording.events();
    std::vector<std::size_t> numbers; // of the calls in the file, by event
    std::size_t calls = 0;
    for (const RecordedCall &event : events)
        numbers.push_back(event.is_exit ? calls : ++calls);
    for (const std::size_t position : replay_order(events)) {
        const RecordedCall &event = events[position];
        if (event.is_exit) {
            replayer.end_process(event.head->process);
            continue;
        }
        const std::size_t number = numbers[position];
        const Replayer::Outcome outcome = replayer.play(event);
        played += outcome.played ? 1 : 0;
        if (!outcome.played) {
            ++left_out[event.function ? os::format("hlthunk_{}: {}", description_of(event).name, outcome.text)
                                      : outcome.text];
        } else if (!outcome.text.empty()) {
            differences.push_back({&event, number, outcome.text});
            if (!json && !write_stdout(os::format("{}: {}\n", describe(event, number), outcome.text)))
                return 1;
        }
    }
    std::string text;
    if (json) {
        text = to_json(library, recording, calls, played, differences, left_out);
    } else {
        for (const auto &[what, count] : left_out)
            text += os::format("not replayed ({} times): {}\n", count, what);
        text += os::format(
            "replayed {} of {} calls (processes: {}) on {}: {}\n", played, calls, recording.processes(), library.path(),
            differences.empty() ? "no answer differs" : os::format("answers that differ: {}", differences.size()));
    }
    return write_stdout(text) && differences.empty() ? 0 : 1;
}

} // namespace gaudi::cli
