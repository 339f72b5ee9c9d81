// SPDX-License-Identifier: BSD-3-Clause
#include "cli/report_file.h"
#include "cli/write_stdout.h"
#include "end_signal.h"
#include "http_server.h"
#include "os/format.h"
#include "snapshot_text.h"
#include "top.h"

#include <cstdio>
#include <set>

namespace gaudi::cli {
namespace {

/// The text; `reported` has the sentences that the last call has printed or found printed, and they are not repeated.
OrSentence<std::string> make_text(bool json, std::set<std::string> &reported) {
    const auto snapshot = take_counters();
    if (!snapshot)
        return Sentence(snapshot.error());
    if (!json)
        for (const std::string &sentence : snapshot->skipped)
            if (!reported.contains(sentence))
                os::print(stderr, "ucx_gaudi: {}\n", sentence);
    reported = {snapshot->skipped.begin(), snapshot->skipped.end()};
    return json ? top::format_json(*snapshot) : top::format_metrics(*snapshot);
}

OrSentence<void> serve(const std::string &where) {
    top::note_end_signals();
    auto server = top::HttpServer::listen(
        where, [reported = std::set<std::string>()]() mutable { return make_text(false, reported); });
    if (!server)
        return Sentence(server.error());
    os::print(stderr, "ucx_gaudi: serving http://{}/metrics\n", server->address());
    return server->serve();
}

} // namespace

int run_metrics(const MetricsOptions &options) {
    OrSentence<void> done;
    if (!options.listen.empty()) {
        constexpr int kUsage = 2;
        if (const std::string mistake = top::HttpServer::find_mistake(options.listen); !mistake.empty()) {
            os::print(stderr, "ucx_gaudi: {}\n", mistake);
            return kUsage;
        }
        done = serve(options.listen);
    } else {
        std::set<std::string> reported;
        const auto text = make_text(options.json, reported);
        if (text && options.output.empty())
            return write_stdout(*text) ? 0 : 1;
        // In one step: the textfile collector may read at any time.
        done = text ? write_report(options.output, *text) : Sentence(text.error());
    }
    if (done)
        return 0;
    os::print(stderr, "ucx_gaudi: {}\n", done.error());
    return 1;
}

} // namespace gaudi::cli
