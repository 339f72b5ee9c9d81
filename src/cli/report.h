// SPDX-License-Identifier: BSD-3-Clause
// The contents of `ucx_gaudi info` as data, without its format.
#pragma once

#include "holders.h"
#include "sentence.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli {

struct CardReport {
    std::uint32_t number = 0; // the name for users, see CardIdentity
    std::uint32_t module_id = 0;
    std::string bus_id;
    std::string model;     // the generation: gaudi2
    std::string card_name; // as the card reports it: HL225
    std::uint64_t memory_total = 0;
    std::optional<std::uint64_t> memory_free;
    std::string state;
    std::optional<std::uint64_t> hard_resets; // since the driver was loaded; soft ones end each use of a card
    std::string firmware;
    bool takes_submissions = false;
    bool completion_by_flag = false; // the default of UCX_GAUDI_CPY_COMPLETION=auto
    std::string completion_reason;
    bool in_use = false;
    std::vector<Holder> holders; // may be empty for a card in use: this user may not see all processes
};

struct LibraryReport {
    std::string path;
    std::string version;
    bool software = false;
    bool can_export = false; // dma-bufs, for zero copy over RDMA
};

struct UcxReport {
    std::string source; // where it was found: "LD_LIBRARY_PATH", "loader", "python3", "--ucx NAME"
    std::string libucs;
    std::string version;      // empty if it does not load
    std::string why_unusable; // empty if the modules work in it
};

struct Report {
    std::optional<LibraryReport> library;
    std::vector<CardReport> cards;
    std::string why_no_card; // set if there is no card
    std::vector<UcxReport> ucx;
    std::string module_directory;
    std::vector<std::string> module_files;
    bool in_plugin_path = false;
    std::string enabled_in;            // the ucx.conf that has the module directory, if UCX_PLUGIN_PATH is not set
    std::vector<std::string> problems; // a sentence each, with what to do
};

OrSentence<Report> make_report();

OrSentence<std::vector<CardReport>> report_cards();
/// To be called only if there is no card.
std::string report_why_no_card();
std::vector<UcxReport> report_ucx();
/// To be called when all the rest is filled in.
std::vector<std::string> report_problems(const Report &report);

} // namespace gaudi::cli
