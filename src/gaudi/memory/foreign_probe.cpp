// SPDX-License-Identifier: BSD-3-Clause
#include "foreign_probe.h"

#include "arena.h"
#include "foreign_mappings.h"
#include "gaudi/card/adoption.h"
#include "gaudi/framework/synapse.h"
#include "live_mappings.h"
#include "thunk/report.h"

#include <optional>
#include <thread>

namespace gaudi {
namespace {

constinit os::Mutex g_probe{rank::kProbe}; // one probe at a time

/// The part of SynapseAI's pool that holds the address. A mapping besides its pools is found by search().
Range find_in_pools(const Synapse *synapse, const Card &card, std::uint64_t address) {
    const int fd = synapse ? synapse->descriptor() : -1;
    if (fd < 0 || !is_compute_node(card, fd).value_or(false))
        return {};
    for (const Synapse::Pool &pool : synapse->pools(fd))
        if (address - pool.mapping < pool.reach())
            return {pool.mapping, pool.reach()};
    return {};
}

/// Whether the driver exports the range; nothing where it does not say. A shortage is waited for: taken for an answer, it
/// would make device memory host memory.
std::optional<bool> is_exported(const thunk::Device &device, Range range) {
    constexpr unsigned kTries = 10'000;
    for (unsigned tries = 0;; ++tries) {
        const auto exported = device.export_dmabuf(range.base, range.length);
        if (exported || !thunk::is_transient(exported.error().code))
            return exported.has_value();
        if (tries == kTries) {
            thunk::report(exported.error());
            return {};
        }
        std::this_thread::yield();
    }
}

/// An upper bound of the bytes that others than the arena have allocated in the session.
std::uint64_t foreign_bytes(Session &session) {
    const Arena *arena = session.find<Arena>();
    const Arena::Usage before = arena ? arena->usage() : Arena::Usage{};
    const auto usage = session.device().dram_usage();
    // If the arena took or gave back a block meanwhile, all bytes may be foreign: too many only cost tries.
    const bool unchanged = !arena || arena->usage().changes == before.changes;
    const std::uint64_t own = unchanged ? before.block_bytes : 0;
    return usage && usage->ctx_dram_mem > own ? usage->ctx_dram_mem - own : 0;
}

/// Walks pages down from the address until an export succeeds, which is the start, then bisects the length. Successful
/// exports only grow: a driver may remember the size of the last one, and must be left with all of the mapping.
Range search(Session &session, std::uint64_t address) {
    const Card &card = session.card();
    const std::uint64_t page = card.page_size(), first = card.address_range().base;
    const std::uint64_t most = (foreign_bytes(session) + page - 1) / page; // pages
    ForeignMappings &foreign = session.get<ForeignMappings>();
    const auto exports = [&](std::uint64_t start, std::uint64_t pages) {
        return is_exported(session.device(), {start, pages * page});
    };
    std::uint64_t start = first + (address - first) / page * page;
    for (std::uint64_t below = 0; below < most; ++below, start -= page) {
        Region *known = LiveMappings::get().find(start);
        const std::uint64_t generation = known ? known->generation() : 0;
        if (foreign.is_being_unmapped(start) || (known && known->origin() != Region::Origin::probed))
            return {}; // a mapping that begins further down ends before this one
        if (known)
            start = known->base();
        std::uint64_t reaches = (address - start) / page + 1;
        const std::optional<bool> exported = reaches <= most ? exports(start, reaches) : false;
        if (!exported)
            return {};
        if (*exported) {
            for (std::uint64_t beyond = most; reaches < beyond;) {
                const std::uint64_t middle = reaches + (beyond - reaches + 1) / 2;
                if (exports(start, middle).value_or(false))
                    reaches = middle;
                else
                    beyond = middle - 1;
            }
            if (known) // it has been replaced by a longer one
                foreign.withdraw(*known, generation);
            return {start, reaches * page};
        }
        if (known || start == first)
            break;
    }
    return {};
}

} // namespace

Region *probe_mapping(Cards &cards, std::uint64_t address) {
    if (LiveMappings::get().is_notifying())
        return nullptr;
    const Synapse *synapse = Synapse::loaded(); // may call the dynamic loader, so before the lock
    const os::MutexLock lock(g_probe);
    if (Region *known = LiveMappings::get().find(address)) // meanwhile
        return known;
    Session *holder = nullptr;
    Range found;
    auto origin = Region::Origin::probed;
    for (const auto &card : cards.all()) {
        Session *session = card->find_session();
        if (!session || !session->usable())
            continue;
        // A pool lives as long as the framework has the card, so it needs no confirmation later.
        Range range = find_in_pools(synapse, *card, address);
        const bool pool = range.length != 0;
        if (!pool)
            range = search(*session, address);
        if (range.length == 0)
            continue;
        if (holder) {
            report_ambiguous(holder->card(), *card, address);
            break;
        }
        holder = session;
        found = range;
        origin = pool ? Region::Origin::hooked : Region::Origin::probed;
    }
    return holder ? holder->get<ForeignMappings>().publish(found, origin) : nullptr;
}

} // namespace gaudi
