// SPDX-License-Identifier: BSD-3-Clause
#include "foreign.h"

#include "adoption.h"
#include "cards.h"
#include "framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

namespace gaudi {
namespace {

/// The driver places each card's first mapping at the same address unless it is told otherwise.
void say_ambiguous(const Card &one, const Card &other, std::uint64_t address) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        thunk::report(
            {EEXIST, "map",
             fmt::format("{:#x} is an address on card {} ({}) and on card {} ({}) of this process; it is taken for the "
                         "first, so use one card per process, or map with hints",
                         address, one.index(), one.bus_id(), other.index(), other.bus_id())});
}

/// A framework knows its pools; what it mapped besides them is found as everybody else's.
Range ask_framework(const Card &card, std::uint64_t address) {
    const Framework *framework = Framework::loaded();
    const int fd = framework ? framework->descriptor() : -1;
    if (fd < 0 || !is_compute_node(card.cards().library(), card.bus_id(), fd))
        return {};
    for (const Framework::Pool &pool : framework->pools(fd))
        if (address - pool.mapping < pool.reach())
            return {pool.mapping, pool.reach()};
    return {};
}

} // namespace

Region *Foreign::begin(Card &card, Range range, Region::Origin origin) {
    Region *region = nullptr;
    {
        const std::lock_guard guard(m_mutex);
        if (m_idle.empty()) {
            region = new Region;
        } else {
            region = m_idle.back();
            m_idle.pop_back();
        }
    }
    region->begin(card, range.base, range.length, origin);
    if (card.exports() == Card::Exports::unknown)
        card.set_exports(region->probe_export());
    if (card.exports() == Card::Exports::no)
        region->forbid_export();
    {
        const std::lock_guard guard(m_mutex);
        m_live.push_back(region);
    }
    m_cards.mapped(*region);
    return region;
}

void Foreign::forget(Region &region) {
    {
        const std::lock_guard guard(m_mutex);
        if (std::erase(m_live, &region) == 0)
            return; // another thread does it
    }
    m_cards.unmapping(region);
    region.end();
    const std::lock_guard guard(m_mutex);
    m_idle.push_back(&region);
}

void Foreign::mapped(Card &card, std::uint64_t base, std::uint64_t size) {
    // Whatever was found there before is no more: the driver gives an address away once at a time.
    while (Region *known = m_cards.find(base)) {
        if (&known->card() != &card || known->origin() == Region::Origin::ours) {
            say_ambiguous(known->card(), card, base);
            return;
        }
        forget(*known);
    }
    begin(card, {base, size}, Region::Origin::seen);
}

bool Foreign::unmapping(Card &card, std::uint64_t base) {
    {
        const std::lock_guard guard(m_mutex);
        m_leaving.push_back({&card, base, false});
    }
    Region *region = m_cards.find(base);
    if (!region || region->base() != base || &region->card() != &card || region->origin() == Region::Origin::ours)
        return false;
    const bool exported = region->was_exported();
    forget(*region);
    return exported;
}

std::vector<Foreign::Leaving>::iterator Foreign::find_leaving(const Card &card, std::uint64_t base) {
    return std::find_if(m_leaving.begin(), m_leaving.end(),
                        [&](const Leaving &leaving) { return leaving.card == &card && leaving.base == base; });
}

void Foreign::lingers(const Card &card, std::uint64_t base) {
    const std::lock_guard guard(m_mutex);
    if (const auto leaving = find_leaving(card, base); leaving != m_leaving.end())
        leaving->lingers = true;
}

void Foreign::unmapped(Card &card, std::uint64_t base) {
    const std::lock_guard guard(m_mutex);
    if (const auto leaving = find_leaving(card, base); leaving != m_leaving.end())
        m_leaving.erase(leaving);
}

/// Waits for a call to the driver that is being made; what is mapped there afterwards may be somebody else's.
bool Foreign::on_its_way_out(const Card &card, std::uint64_t base) {
    constexpr unsigned kTries = 100'000;
    for (unsigned i = 0; i < kTries; ++i) {
        {
            const std::lock_guard guard(m_mutex);
            const auto leaving = find_leaving(card, base);
            if (leaving == m_leaving.end())
                return false;
            if (leaving->lingers)
                return true;
        }
        std::this_thread::yield();
    }
    return true;
}

/// Tries the starts at and below the address, and for each the largest size first: a driver may remember the size of the
/// last export, and must not be left with one that is too small.
Range Foreign::search(Card &card, const thunk::Device &device, std::uint64_t address) {
    const auto usage = device.dram_usage();
    const Arena::Usage ours = card.arena().usage();
    if (!usage || usage->ctx_dram_mem <= ours.block_bytes)
        return {};
    const std::uint64_t page = card.page_size(), first = card.window().base;
    const std::uint64_t most = (usage->ctx_dram_mem - ours.block_bytes + page - 1) / page; // pages that others have
    std::uint64_t start = first + (address - first) / page * page;
    for (std::uint64_t below = 0; below < most; ++below, start -= page) {
        Region *known = m_cards.find(start);
        if (on_its_way_out(card, start) || (known && known->origin() != Region::Origin::asked))
            return {}; // what begins further down ends before this
        for (std::uint64_t pages = most; pages > below; --pages)
            if (device.export_dmabuf(start, pages * page)) {
                if (known) // and has grown
                    forget(*known);
                return {start, pages * page};
            }
        if (known)
            return {};
        if (start == first)
            break;
    }
    return {};
}

Region *Foreign::ask(std::uint64_t address) {
    const std::lock_guard guard(m_asking);
    if (Region *known = m_cards.find(address)) // meanwhile
        return known;
    Card *holder = nullptr;
    Range found;
    auto origin = Region::Origin::asked;
    for (const auto &card : m_cards.all()) {
        const auto device = card->if_held();
        if (!device)
            continue;
        Range range = ask_framework(*card, address);
        // A pool lives as long as the framework has its card.
        const bool pool = range.length != 0;
        if (!pool)
            range = search(*card, *device, address);
        if (range.length == 0)
            continue;
        if (holder) {
            say_ambiguous(*holder, *card, address);
            break;
        }
        holder = card.get();
        found = range;
        origin = pool ? Region::Origin::seen : Region::Origin::asked;
    }
    return holder ? begin(*holder, found, origin) : nullptr;
}

bool Foreign::still_there(Region &region) {
    if (region.origin() != Region::Origin::asked)
        return true;
    const auto device = region.card().if_held();
    if (device && device->export_dmabuf(region.base(), region.size()))
        return true;
    forget(region);
    return false;
}

void Foreign::leave(const Card &card) {
    std::vector<Region *> gone;
    {
        const std::lock_guard guard(m_mutex);
        std::copy_if(m_live.begin(), m_live.end(), std::back_inserter(gone),
                     [&](const Region *region) { return &region->card() == &card; });
        std::erase_if(m_leaving, [&](const Leaving &leaving) { return leaving.card == &card; });
    }
    for (Region *region : gone)
        forget(*region);
}

} // namespace gaudi
