// SPDX-License-Identifier: BSD-3-Clause
// What `ucx_gaudi info` tells, as data; printing it is another matter.
#pragma once

#include "holders.h"
#include "sentence.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli {

struct CardReport {
    unsigned index = 0;
    std::uint32_t module_id = 0;
    std::string bus_id;
    std::string model;     // the generation: gaudi2
    std::string card_name; // what the card calls itself: HL225
    std::uint64_t memory_total = 0;
    std::optional<std::uint64_t> memory_free;
    std::string state;
    bool in_use = false;
    std::vector<Holder> holders; // none although it is in use: they are not for us to see
};

struct LibraryReport {
    std::string path;
    std::string version;
    bool software = false;
};

struct UcxReport {
    std::string source; // whose: "LD_LIBRARY_PATH", "loader", "python3", "--ucx NAME"
    std::string libucs;
    std::string version;    // empty: it does not load here
    bool supported = false; // from 1.22 on UCX looks into UCX_PLUGIN_PATH
};

struct Report {
    std::optional<LibraryReport> library;
    std::vector<CardReport> cards;
    std::string why_no_card; // where there is none
    std::vector<UcxReport> ucx;
    std::string module_directory;
    std::vector<std::string> module_files;
    bool in_plugin_path = false;
};

OrSentence<Report> make_report();

/// The parts that say what they find by themselves.
OrSentence<std::vector<CardReport>> report_cards();
/// To be called where there is no card.
std::string report_why_no_card();
std::vector<UcxReport> report_ucx();

} // namespace gaudi::cli
