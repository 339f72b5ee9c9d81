// SPDX-License-Identifier: BSD-3-Clause
#include "snapshot_text.h"

#include "os/format.h"

#include <functional>

namespace gaudi::cli::top {
namespace {

struct Sample {
    std::string labels; // behind those of the process, with the comma
    std::uint64_t value;
};
using Samples = std::vector<Sample>;

struct CardMetric {
    const char *name;
    const char *type;
    const char *help;
    std::function<Samples(const CardSnapshot &)> samples;
};

struct PathName {
    const char *name;
    std::vector<Path> paths;
};

const std::vector<PathName> &path_names() {
    static const auto *const names = new std::vector<PathName>{
        {"within_card", {Path::within_card}}, {"down", {Path::down, Path::down_mapped}},
        {"up", {Path::up, Path::up_mapped}},  {"to_card", {Path::to_card}},
        {"staged_down", {Path::staged_down}}, {"staged_up", {Path::staged_up}},
        {"relayed_out", {Path::relayed_out}}, {"relayed_in", {Path::relayed_in}},
    };
    return *names;
}

Samples by_path(const std::array<std::uint64_t, kPaths> &counters) {
    Samples samples;
    for (const PathName &name : path_names()) {
        std::uint64_t sum = 0;
        for (const Path path : name.paths)
            sum += counters[static_cast<std::size_t>(path)];
        samples.push_back({os::format(",path=\"{}\"", name.name), sum});
    }
    return samples;
}

auto one(std::uint64_t CardSnapshot::*member) {
    return [member](const CardSnapshot &card) { return Samples{{"", card.*member}}; };
}

/// A label's value: backslash, quote and line end are escaped, and bytes that are no ASCII replaced, because the format is
/// UTF-8 and a process may be called anything.
std::string escape(const std::string &text) {
    std::string out;
    for (const char letter : text) {
        if (letter == '\\' || letter == '"')
            out += '\\';
        out += static_cast<unsigned char>(letter) < 0x80 ? letter : '?';
    }
    return out;
}

void add_head(std::string &text, const char *name, const char *type, const char *help) {
    text += os::format("# HELP ucx_gaudi_{} {}\n# TYPE ucx_gaudi_{} {}\n", name, help, name, type);
}

std::string process_labels(const ProcessSnapshot &process) {
    return os::format("page=\"{}\",pid=\"{}\",command=\"{}\"", escape(process.page), process.pid,
                      escape(process.command));
}

const std::vector<CardMetric> &card_metrics() {
    static const auto *const metrics = new std::vector<CardMetric>{
        {"copies_total", "counter", "Copies that ended without an error, by path.",
         [](const CardSnapshot &card) { return by_path(card.copies); }},
        {"copied_bytes_total", "counter", "Bytes of these copies, by path.",
         [](const CardSnapshot &card) { return by_path(card.bytes); }},
        {"submissions_total", "counter", "Command submissions to the card.", one(&CardSnapshot::submissions)},
        {"host_mapping_hits_total", "counter", "Direct copies whose host memory was mapped into the card already.",
         [](const CardSnapshot &card) {
             return Samples{{"", card.mapping_hits()}};
         }},
        {"host_mapping_misses_total", "counter", "Direct copies that had to map their host memory.",
         [](const CardSnapshot &card) {
             return Samples{{"", card.mapping_misses()}};
         }},
        {"exports_total", "counter", "dma-buf descriptors handed out for RDMA devices to register: zero copy.",
         one(&CardSnapshot::exports)},
        {"exported_bytes_total", "counter", "Device memory handed out with them, not the bytes that NICs moved.",
         one(&CardSnapshot::exported_bytes)},
        {"deferred_unmaps_total", "counter", "Blocks that could not be unmapped at once: an RDMA device had them.",
         one(&CardSnapshot::deferred_unmaps)},
        {"deferred_unmaps_pending", "gauge", "Of these, blocks that are still to be unmapped.",
         one(&CardSnapshot::deferred_unmaps_pending)},
        {"memory_size_bytes", "gauge", "Memory of the card.", one(&CardSnapshot::memory_total_bytes)},
        {"memory_held_bytes", "gauge", "Device memory that the process has taken from the driver through UCX.",
         one(&CardSnapshot::memory_held_bytes)},
        {"memory_used_bytes", "gauge", "Of that, allocated.", one(&CardSnapshot::memory_used_bytes)},
        {"errors_total", "counter", "Errors on the card, by kind.",
         [](const CardSnapshot &card) {
             return Samples{{",kind=\"transfer\"", card.failed_transfers},
                            {",kind=\"allocation\"", card.failed_allocations},
                            {",kind=\"export\"", card.failed_exports},
                            {",kind=\"reset\"", card.resets}};
         }},
    };
    return *metrics;
}

} // namespace

std::string format_metrics(const CounterSnapshot &snapshot) {
    std::string text;
    if (snapshot.software())
        text += "# SOFTWARE: cards of processes with software=\"1\" are those of softgaudi, not hardware\n";
    add_head(text, "process_info", "gauge", "A process that has a card open; always 1.");
    for (const ProcessSnapshot &process : snapshot.processes)
        text += os::format("ucx_gaudi_process_info{{{},libhl_thunk=\"{}\",software=\"{}\"}} 1\n",
                           process_labels(process), escape(process.library), process.software ? 1 : 0);
    add_head(text, "process_start_time_seconds", "gauge", "When the process opened its first card, since 1970.");
    for (const ProcessSnapshot &process : snapshot.processes)
        text += os::format("ucx_gaudi_process_start_time_seconds{{{}}} {}\n", process_labels(process),
                           process.started_seconds);
    add_head(text, "mapped_host_bytes", "gauge", "Host memory that is mapped into cards and pinned for copies.");
    for (const ProcessSnapshot &process : snapshot.processes)
        text +=
            os::format("ucx_gaudi_mapped_host_bytes{{{}}} {}\n", process_labels(process), process.mapped_host_bytes);
    add_head(text, "refused_copies_total", "counter", "Copies that were refused, and short copies that failed.");
    for (const ProcessSnapshot &process : snapshot.processes)
        text +=
            os::format("ucx_gaudi_refused_copies_total{{{}}} {}\n", process_labels(process), process.refused_copies);
    for (const CardMetric &metric : card_metrics()) {
        add_head(text, metric.name, metric.type, metric.help);
        for (const ProcessSnapshot &process : snapshot.processes)
            for (const CardSnapshot &card : process.cards)
                for (const Sample &sample : metric.samples(card))
                    text += os::format("ucx_gaudi_{}{{{},card=\"{}\"{}}} {}\n", metric.name, process_labels(process),
                                       card.module_id, sample.labels, sample.value);
    }
    return text;
}

} // namespace gaudi::cli::top
