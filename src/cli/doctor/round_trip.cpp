// SPDX-License-Identifier: BSD-3-Clause
#include "cli/verify/bench.h"
#include "cli/verify/rdma_loopback.h"
#include "collect.h"
#include "gaudi/card/cards.h"
#include "gaudi/copy/queues.h"
#include "os/format.h"

#include <cerrno>
#include <cstring>

namespace gaudi::cli::doctor {
namespace {

using namespace verify;

constexpr std::uint32_t kBytes = 1 << 20;

RoundTripFacts within_card(const Target &target) {
    RoundTripFacts trip;
    trip.card = target.card.module_id();
    const auto failed = [&](const thunk::Error &error) {
        trip.sentence = error.text;
        return trip;
    };
    if (!target.card.takes_submissions()) {
        trip.good = true;
        trip.sentence = "memory was allocated; this generation takes no copies from users";
        return trip;
    }
    const auto sent = HostBlock::make(target.device, kBytes), back = HostBlock::make(target.device, kBytes);
    if (!sent || !back)
        return failed(!sent ? sent.error() : back.error());
    const auto ring = TestRing::make(target, 1);
    if (!ring)
        return failed(ring.error());
    const auto seed = fresh_seed();
    fill((*sent)->data(), kBytes, seed);
    std::memset((*back)->data(), 0, kBytes);
    if (const auto copied = (*ring)->copy(kDownQueues[0], (*sent)->address(), target.memory, kBytes); !copied)
        return failed(copied.error());
    if (const auto copied = (*ring)->copy(kUpQueues[0], target.memory, (*back)->address(), kBytes); !copied)
        return failed(copied.error());
    trip.good = is_filled((*back)->data(), kBytes, seed);
    trip.sentence = trip.good ? "1 MiB to the card and back" : "other bytes came back than were sent";
    return trip;
}

/// The card's memory is exported, and written and read by the NIC.
RoundTripFacts through_nic(const Target &target, const std::string &name) {
    RoundTripFacts trip;
    trip.card = target.card.module_id();
    trip.nic = name;
    const std::uint64_t page = target.card.page_size();
    const auto block = DeviceBlock::make(target.device, page);
    const auto exported =
        block ? target.device.export_dmabuf(block->address(), page) : Result<thunk::Fd>(tl::unexpected(block.error()));
    const auto sent = HostBlock::make(target.device, kBytes);
    if (!exported || !sent) {
        trip.sentence = !exported ? exported.error().text : sent.error().text;
        return trip;
    }
    auto nic = RdmaLoopback::open(name);
    OrSentence<void> done = nic ? (*nic)->register_host((*sent)->data(), kBytes) : Sentence(nic.error());
    if (done)
        done = (*nic)->register_dmabuf(exported->get(), kBytes);
    const auto seed = fresh_seed();
    fill((*sent)->data(), kBytes, seed);
    if (done)
        done = (*nic)->write(kBytes);
    std::memset((*sent)->data(), 0, kBytes);
    if (done)
        done = (*nic)->read(kBytes);
    trip.good = done && is_filled((*sent)->data(), kBytes, seed);
    trip.sentence = !done       ? done.error()
                    : trip.good ? "1 MiB by RDMA to the card's dma-buf and back"
                                : "other bytes came back than were sent";
    return trip;
}

} // namespace

std::vector<RoundTripFacts> collect_round_trips(const Facts &facts) {
    std::vector<RoundTripFacts> trips;
    const auto cards = Cards::get();
    if (!cards)
        return trips;
    for (const CardFacts &card : facts.cards) {
        const Card *found = card.in_use || card.state != "operational" ? nullptr : (*cards)->by_bus_id(card.bus_id);
        if (!found)
            continue;
        const auto failed = [&](const std::string &sentence) {
            trips.push_back({card.module_id, "", false, sentence});
        };
        const auto opened = thunk::DeviceFd::open(found->library(), found->bus_id());
        if (!opened) {
            if (opened.error().code != EBUSY) // else another process was faster
                failed(opened.error().text);
            continue;
        }
        const auto block = DeviceBlock::make(opened->get(), Target::kMemoryBytes);
        if (!block) {
            failed(block.error().text);
            continue;
        }
        const Target target{*found, opened->get(), block->address(), false};
        trips.push_back(within_card(target));
        for (const NicFacts &nic : facts.nics)
            if (nic.active && nic.dmabuf_errno == EBADF && !is_abandoned())
                trips.push_back(through_nic(target, nic.name));
    }
    return trips;
}

} // namespace gaudi::cli::doctor
