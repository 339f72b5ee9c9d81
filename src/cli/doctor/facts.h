// SPDX-License-Identifier: BSD-3-Clause
// What `ucx_gaudi doctor` knows of a machine: `ucx_gaudi dump` writes it, the checks judge it. docs/schema/dump-1.json
// describes it as JSON.
#pragma once

#include "cli/sentence.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli::doctor {

struct KernelFacts {
    std::string release;
    std::optional<bool> has_umem_dmabuf;        // ib_umem_dmabuf_get; nothing where the kernel hides its symbols
    std::map<std::string, std::string> options; // of its configuration, those that matter; empty if it cannot be read
    std::string iommu_parameters;               // the words about IOMMU and ACS of its command line
};

struct ProcessFacts {
    std::string glibc;
    std::uint64_t user = 0;
    std::string container; // its kind; empty outside of one
    bool initial_pid_namespace = true;
    bool may_lock_memory = false;
    std::optional<std::uint64_t> locked_memory_bytes, open_files; // limits; nothing: unlimited
    std::uint64_t shm_total_bytes = 0, shm_free_bytes = 0;        // of /dev/shm; 0: there is none
    std::uint64_t huge_pages = 0;
    std::string transparent_huge_pages; // always, madvise or never
};

struct DriverFacts {
    bool loaded = false;
    std::string version;
    std::string kind; // mainline or production
};

/// A device node of the accel subsystem, or of the driver's old one.
struct NodeFacts {
    std::string path;
    std::string driver; // of its device; empty if sysfs does not say
    std::string bus_id;
    bool accessible = false; // this user may open it
};

/// A bridge above a card or NIC.
struct BridgeFacts {
    std::string bus_id;
    std::optional<std::uint64_t> acs_control; // the register of that name; nothing: no such capability, or not readable
    std::string why_unknown;                  // set if it is not readable
};

/// A Gaudi card as PCI has it, with a driver or without.
struct PciCardFacts {
    std::string bus_id, device_id, driver;
    std::int64_t numa_node = -1;
    std::uint64_t bar_bytes = 0;      // of the BAR that its memory is seen through; 0: unknown
    std::string iommu;                // the type of its IOMMU group; empty: none
    std::vector<BridgeFacts> bridges; // from the root down
};

struct ThunkFacts {
    std::string path; // empty: none was found
    std::string version;
    bool software = false;
    std::vector<std::string> missing; // functions
    std::string why_not;              // why it cannot be used
    std::vector<std::string> copies;  // all files of that name in reach
};

/// A process that has a card open.
struct HolderFacts {
    std::int64_t pid = 0;
    std::string command;
    std::optional<std::vector<std::string>> libucs; // the files of that name in its memory; nothing: not readable
    bool has_modules = false;                       // libuct_gaudi is in its memory
};

/// A card that libhl-thunk shows.
struct CardFacts {
    std::uint64_t number = 0, module_id = 0;
    std::string bus_id, model, card_name, state;
    std::uint64_t memory_bytes = 0;
    std::optional<std::uint64_t> memory_free_bytes;
    std::optional<std::uint64_t> hard_resets; // since the driver was loaded; soft ones end each use of a card
    std::string firmware;
    bool in_use = false;
    std::vector<HolderFacts> holders; // may be empty for a card in use: this user may not see all processes
    bool takes_submissions = false;
    bool completion_by_flag = false;
    std::string completion_reason;
    std::string completion_record; // the file of a verification that decided it; empty: there is none
};

/// A file that UCX finds where it looks for modules.
struct ModuleFileFacts {
    std::string path;
    std::string why_skipped; // empty: UCX loads it
};

struct UcxFacts {
    std::string source, libucs, version;
    std::string why_unusable;           // empty: the modules work in it
    std::vector<ModuleFileFacts> files; // those of Gaudi, in the order in which UCX finds them
    std::string load_error;             // the loader's words about the first of them
    std::string plugin_path;            // UCX_PLUGIN_PATH as this UCX reads it
    std::string plugin_path_source;     // environment, or a file; empty: it is not set
};

struct SettingFacts {
    std::string name, value;
    std::string source; // environment, or a file
};

struct NicFacts {
    std::string name, bus_id;
    std::int64_t numa_node = -1;
    bool active = false;
    std::optional<std::int64_t> dmabuf_errno; // of a registration of descriptor -1: EBADF where dma-bufs are supported
    std::string why_unprobed;
    std::vector<std::string> bridges;               // from the root down
    std::vector<BridgeFacts> acs{};                 // of these bridges
    std::string sysfs_path{};                       // as libibverbs gives it
    std::optional<std::uint64_t> rate_gbit_per_s{}; // of its first port; nothing: not known
};

struct NumaNodeFacts {
    std::int64_t node = 0;
    std::string cpus; // as in 0-31,64-95
};

/// The near processors and the PCIe link of a card or NIC.
struct PciDeviceFacts {
    std::string bus_id;
    std::string cpus;                                // empty: sysfs does not show them
    std::uint64_t link_mt_per_s = 0, link_lanes = 0; // 0: sysfs does not show it
};

/// How far UCX takes a card and a NIC to be from each other.
struct DistanceFacts {
    std::string card, nic; // bus ids
    std::uint64_t latency_ns = 0;
    std::optional<std::uint64_t> bandwidth_bytes_per_s; // nothing: not limited
};

/// What the first usable UCX says about the machine.
struct UcxViewFacts {
    std::string source, version;                 // of that UCX
    std::string why_unknown;                     // why it has said nothing
    std::optional<bool> has_ib;                  // its module for RDMA; nothing: not known
    std::map<std::string, std::string> settings; // those that choose NICs, with UCX's own defaults
    std::vector<DistanceFacts> distances;        // of each card from each NIC
};

struct TopologyFacts {
    std::vector<NumaNodeFacts> numa_nodes;
    std::vector<PciDeviceFacts> devices;
    UcxViewFacts ucx;
};

/// What `doctor --active` did with a card.
struct RoundTripFacts {
    std::uint64_t card = 0;
    std::string nic; // empty: within the card
    bool good = false;
    std::string sentence; // what was done, or why it failed
};

struct Facts {
    std::uint64_t schema = 1;
    std::string version; // of ucx_gaudi
    KernelFacts kernel;
    ProcessFacts process;
    DriverFacts driver;
    std::vector<NodeFacts> nodes;
    std::vector<PciCardFacts> pci_cards;
    ThunkFacts thunk;
    std::vector<CardFacts> cards;
    std::string why_no_card; // set if there is none
    std::string mapping_table_error;
    std::string module_directory; // of ucx-gaudi; empty: not found
    std::vector<std::string> module_files, missing_modules;
    std::vector<UcxFacts> ucx;
    std::vector<SettingFacts> settings; // as UCX reads them: of each name the one that counts
    std::vector<NicFacts> nics;
    std::string why_no_verbs; // set if libibverbs cannot be used
    TopologyFacts topology;
    std::optional<std::vector<RoundTripFacts>> round_trips; // none: they were not asked for

    /// The value that UCX reads; null if it is not set.
    const SettingFacts *setting(const std::string &name) const;
};

/// Which processes have the card open, as in "pid 7 (python3)"; "another process" where this user may not see them.
std::string describe_holders(const CardFacts &card);

std::string write_facts(const Facts &facts);
/// `name` is that of the file, for the error.
OrSentence<Facts> read_facts(const std::string &json, const std::string &name);

} // namespace gaudi::cli::doctor
