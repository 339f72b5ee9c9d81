// SPDX-License-Identifier: BSD-3-Clause
#include "topo.h"

#include "cli/doctor/collect.h"
#include "cli/doctor/facts_file.h"
#include "cli/printable.h"
#include "cli/write_stdout.h"
#include "os/format.h"
#include "show.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gaudi::cli {
namespace {

int refuse(const std::string &sentence) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return 1;
}

OrSentence<void> write_file(const std::string &name, const std::string &text) {
    errno = 0;
    std::FILE *file = std::fopen(name.c_str(), "we");
    bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    int error = errno;
    if (file && std::fclose(file) != 0 && written) { // a full disk may be noticed as late as here
        error = errno;
        written = false;
    }
    if (written)
        return {};
    return Sentence(os::format("cannot write {}: {}", name, std::strerror(error)));
}

} // namespace

int run_topo(const TopoOptions &options) {
    const OrSentence<doctor::Facts> facts =
        options.from.empty() ? doctor::collect(doctor::Machine::here()) : doctor::read_facts_file(options.from);
    if (!facts)
        return refuse(facts.error());
    const topo::Server server = topo::make_server(*facts);
    if (!options.svg.empty())
        if (const auto written = write_file(options.svg, topo::draw_svg(*facts, server)); !written)
            return refuse(written.error());
    const std::string text =
        options.json ? topo::format_json(*facts, server) : printable_lines(topo::format_text(*facts, server));
    return write_stdout(text) ? 0 : 1;
}

} // namespace gaudi::cli
