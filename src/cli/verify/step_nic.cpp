// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/copy/queues.h"
#include "interrupt.h"
#include "os/format.h"
#include "rdma_loopback.h"
#include "steps.h"

#include <cerrno>
#include <cstring>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "nic";
constexpr std::uint32_t kBytes = 1 << 20;
constexpr unsigned kRounds = 50;

/// RDMA writes into the card's memory, each read by the card's engine at once; how many of them it did not see.
Result<unsigned> count_stale(const Target &target, RdmaLoopback &nic, HostBlock &sent, HostBlock &back,
                             std::uint64_t memory, bool flush) {
    auto ring = TestRing::make(target, 1);
    if (!ring)
        return tl::unexpected(ring.error());
    unsigned stale = 0;
    for (unsigned i = 0; i < kRounds && !is_interrupted(); ++i) {
        const auto seed = fresh_seed();
        fill(sent.data(), kBytes, seed);
        if (const auto written = nic.write(kBytes); !written)
            return tl::unexpected(Error{EIO, "nic", written.error()});
        if (flush)
            if (const auto flushed = target.device.flush_pci_writes(); !flushed)
                return tl::unexpected(flushed.error());
        if (const auto copied = (*ring)->copy(kUpQueues[0], memory, back.address(), kBytes); !copied)
            return tl::unexpected(copied.error());
        stale += is_filled(back.data(), kBytes, seed) ? 0 : 1;
    }
    return stale;
}

void check_transfers(Findings &findings, const Target &target, RdmaLoopback &nic, HostBlock &sent) {
    const auto seed = fresh_seed();
    fill(sent.data(), kBytes, seed);
    auto moved = nic.write(kBytes);
    if (moved) {
        std::memset(sent.data(), 0, kBytes);
        moved = nic.read(kBytes);
    }
    const bool same = moved && is_filled(sent.data(), kBytes, seed);
    findings.add({.step = kStep,
                  .ids = {"A33"},
                  .verdict = verdict_of(same),
                  .did = os::format("wrote 1 MiB to the memory of card module:{} by {} and read it back",
                                    target.card.module_id(), nic.name()),
                  .saw = !moved ? moved.error()
                         : same ? "the same bytes"
                                : "other bytes"});
}

void check_flush(Findings &findings, const Target &target, RdmaLoopback &nic, HostBlock &sent, std::uint64_t memory) {
    const auto back = HostBlock::make(target.device, kBytes);
    if (!back || !target.no_copies.empty()) {
        findings.add({.step = kStep,
                      .ids = {"A11"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = back ? target.no_copies : back.error().text});
        return;
    }
    const auto bare = count_stale(target, nic, sent, **back, memory, false);
    const auto flushed = bare ? count_stale(target, nic, sent, **back, memory, true) : bare;
    if (bare)
        findings.measure({kStep, "stale_without_flush", std::uint64_t{*bare}});
    if (flushed)
        findings.measure({kStep, "stale_with_flush", std::uint64_t{*flushed}});
    if (const auto flush = target.device.flush_pci_writes(); bare)
        findings.measure({kStep, "flush", outcome_of(flush)});
    findings.add(
        {.step = kStep,
         .ids = {"A11"},
         .verdict = verdict_of(flushed && *flushed == 0),
         .did = os::format("wrote 1 MiB by {} {} times and read it by the card's engine, without and with a flush",
                           nic.name(), kRounds),
         .saw = flushed ? os::format("without a flush {} of {} were stale, with one {}", *bare, kRounds, *flushed)
                        : flushed.error().text});
}

/// Whether an export from an offset begins there or, as with the driver in Linux, at the start of the allocation.
void measure_offset(Findings &findings, const Target &target, RdmaLoopback &nic, HostBlock &sent, std::uint64_t memory,
                    int whole) {
    const auto offset = export_from(target.device, memory, kBytes, kBytes);
    if (!offset)
        return; // the step export has measured that
    const auto at_start = fresh_seed(), at_offset = fresh_seed();
    fill(sent.data(), kBytes, at_start);
    auto moved = nic.write(kBytes);
    if (moved)
        moved = nic.register_dmabuf(offset->get(), kBytes);
    fill(sent.data(), kBytes, at_offset);
    if (moved)
        moved = nic.write(kBytes);
    if (moved)
        moved = nic.register_dmabuf(whole, kBytes);
    if (moved)
        moved = nic.read(kBytes);
    const bool honoured = moved && is_filled(sent.data(), kBytes, at_start);
    if (!honoured && !(moved && is_filled(sent.data(), kBytes, at_offset)))
        return;
    findings.measure({kStep, "export_offset_honoured", honoured});
    findings.note("export offset", honoured ? "honoured" : "ignored");
}

} // namespace

void check_nic(Findings &findings, const Target &target, const std::string &name) {
    auto nic = RdmaLoopback::open(name);
    if (!nic) {
        findings.add({.step = kStep,
                      .ids = {"A11", "A31", "A33"},
                      .verdict = Verdict::not_testable,
                      .did = "looked for an RDMA device",
                      .saw = nic.error()});
        return;
    }
    const int probed = (*nic)->probe_dmabuf();
    findings.add({.step = kStep,
                  .ids = {"A31"},
                  .verdict = verdict_of(probed == EBADF),
                  .did = os::format("registered the dma-buf -1 with {}", (*nic)->name()),
                  .saw = probed == 0 ? "success" : thunk::errno_name(probed)});
    const std::uint64_t page = target.card.page_size();
    const auto block = DeviceBlock::make(target.device, page);
    const auto exported =
        block ? target.device.export_dmabuf(block->address(), page) : Result<thunk::Fd>(tl::unexpected(block.error()));
    const auto sent = HostBlock::make(target.device, kBytes);
    OrSentence<void> registered;
    if (!exported || !sent)
        registered = Sentence(!exported ? exported.error().text : sent.error().text);
    else if (registered = (*nic)->register_host((*sent)->data(), kBytes); registered)
        registered = (*nic)->register_dmabuf(exported->get(), kBytes);
    if (!registered) {
        findings.add({.step = kStep,
                      .ids = {"A33"},
                      .verdict = exported ? Verdict::failed : Verdict::not_testable, // the step export has the reason
                      .did = os::format("registered the dma-buf of a page with {}", (*nic)->name()),
                      .saw = registered.error()});
        findings.add({.step = kStep,
                      .ids = {"A11"},
                      .verdict = Verdict::not_testable,
                      .did = "nothing",
                      .saw = "the NIC has no registration to write through"});
    } else {
        check_transfers(findings, target, **nic, **sent);
        check_flush(findings, target, **nic, **sent, block->address());
        if (!is_interrupted())
            measure_offset(findings, target, **nic, **sent, block->address(), exported->get());
    }
    nic->reset(); // its registration keeps the memory from being unmapped
}

} // namespace gaudi::cli::verify
