// SPDX-License-Identifier: BSD-3-Clause
#include "topo.h"

#include "cli/doctor/collect.h"
#include "cli/doctor/facts_file.h"
#include "cli/report_file.h"
#include "cli/write_stdout.h"
#include "os/format.h"
#include "os/printable.h"
#include "show.h"

#include <cstdio>

namespace gaudi::cli {
namespace {

int refuse(const std::string &sentence) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return 1;
}

} // namespace

int run_topo(const TopoOptions &options) {
    const OrSentence<doctor::Facts> facts =
        options.from.empty() ? doctor::collect(doctor::Machine::here()) : doctor::read_facts_file(options.from);
    if (!facts)
        return refuse(facts.error());
    const topo::Server server = topo::make_server(*facts);
    if (!options.svg.empty())
        if (const auto written = write_report(options.svg, topo::draw_svg(*facts, server)); !written)
            return refuse(written.error());
    const std::string text =
        options.json ? topo::format_json(*facts, server) : os::printable_lines(topo::format_text(*facts, server));
    return write_stdout(text) ? 0 : 1;
}

} // namespace gaudi::cli
