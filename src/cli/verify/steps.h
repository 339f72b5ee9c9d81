// SPDX-License-Identifier: BSD-3-Clause
// The steps of a verification, each in a file of its own. They use only memory that they allocate.
#pragma once

#include "bench.h"
#include "findings.h"
#include "gaudi/card/cards.h"

#include <optional>
#include <string>

namespace gaudi::cli::verify {

/// Versions, kernel, BAR and IOMMU. `ucx` is the version of the UCX that programs get here.
void check_machine(Findings &findings, const Card &card, const std::string &ucx);
void check_open(Findings &findings, const Card &card, const thunk::Device &device);
void check_descriptors(Findings &findings, const Card &card, const thunk::Device &device);
void check_memory(Findings &findings, const Card &card, const thunk::Device &device);
void check_export(Findings &findings, const Card &card, const thunk::Device &device);
/// Before the other steps that copy: it sets `no_copies` of the target.
void check_copies(Findings &findings, Target &target);
void check_host(Findings &findings, const Target &target);
void check_window(Findings &findings, const Target &target);

struct SoakResult {
    bool order_held = false;
    std::uint64_t seconds = 0;
    std::uint64_t copies = 0;
};
/// Nothing where the order could not be tested.
std::optional<SoakResult> check_soak(Findings &findings, const Target &target, unsigned seconds);

/// `nic`: the name of an RDMA device; empty for the first.
void check_nic(Findings &findings, const Target &target, const std::string &nic);
void check_import(Findings &findings, const Cards &cards, const Target &target);
/// Acquires the card through SynapseAI, runs the copies and the soak beside it, and releases it.
void check_synapse(Findings &findings, const Card &card, unsigned seconds);
/// Why these were not tested, where SynapseAI was not asked for.
void skip_synapse(Findings &findings);

} // namespace gaudi::cli::verify
