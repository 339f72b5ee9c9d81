// SPDX-License-Identifier: BSD-3-Clause
#include "foreign.h"

#include "adoption.h"
#include "cards.h"
#include "framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
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
Range ask_framework(const Framework *framework, const Card &card, std::uint64_t address) {
    const int fd = framework ? framework->descriptor() : -1;
    if (fd < 0 || !is_compute_node(card.cards().library(), card.bus_id(), fd).value_or(false))
        return {};
    for (const Framework::Pool &pool : framework->pools(fd))
        if (address - pool.mapping < pool.reach())
            return {pool.mapping, pool.reach()};
    return {};
}

/// Whether the driver exports it; nothing where it does not say. A want of descriptors is waited for: taken for an answer, it
/// would make card memory host memory.
std::optional<bool> is_exported(const thunk::Device &device, std::uint64_t start, std::uint64_t length) {
    constexpr unsigned kTries = 10'000;
    for (unsigned tries = 0;; ++tries) {
        const auto exported = device.export_dmabuf(start, length);
        if (exported || !thunk::is_transient(exported.error().code))
            return exported.has_value();
        if (tries == kTries) {
            thunk::report(exported.error());
            return {};
        }
        std::this_thread::yield();
    }
}

} // namespace

Foreign::Life Foreign::life_of(Region *region) { return {region, region ? region->generation() : 0}; }

Region *Foreign::begin(Card &card, std::uint64_t life, Range range, Region::Origin origin) {
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
        if (const auto probed = region->probe_export())
            card.set_exports(*probed, life);
    if (card.exports() == Card::Exports::no)
        region->forbid_export(card.why_no_exports());
    // One that was seen may have been found by asking at the same time.
    const std::lock_guard beginning(m_beginning);
    if (origin == Region::Origin::asked) {
        if (Region *known = m_cards.find(range.base)) {
            region->end();
            const std::lock_guard guard(m_mutex);
            m_idle.push_back(region);
            return known;
        }
    } else {
        replaced(card, range);
    }
    m_cards.mapped(*region);
    {
        const std::lock_guard guard(m_mutex);
        m_live[{&card, range.base}] = region; // last: who forgets it takes it out of the table
    }
    if (card.life() == life)
        return region;
    forget(life_of(region)); // closed meanwhile: leave() may have been too early to see it
    return nullptr;
}

/// Nothing, if that life of it is over: the object may be somebody else's by now.
void Foreign::forget(const Life &life) {
    {
        const std::lock_guard guard(m_mutex);
        const auto live = m_live.find({&life.region->card(), life.region->base()});
        if (live == m_live.end() || live->second != life.region || life.region->generation() != life.generation)
            return;
        m_live.erase(live);
    }
    m_cards.unmapping(*life.region);
    life.region->end();
    const std::lock_guard guard(m_mutex);
    m_idle.push_back(life.region);
}

/// The driver gives an address away once at a time.
void Foreign::replaced(const Card &card, Range range) {
    std::vector<Life> gone;
    {
        const std::lock_guard guard(m_mutex);
        auto live = m_live.upper_bound({&card, range.base});
        if (live != m_live.begin())
            --live; // it may reach into the range
        for (; live != m_live.end() && live->first < Start(&card, range.base + range.length); ++live)
            if (live->first.first == &card && range.base < live->first.second + live->second->size())
                gone.push_back(life_of(live->second));
    }
    for (const Life &life : gone)
        forget(life);
}

void Foreign::mapped(Card &card, std::uint64_t base, std::uint64_t size) {
    const std::uint64_t life = card.life();
    Region *known = m_cards.find(base);
    if (known && &known->card() != &card && !still_there(*known))
        known = m_cards.find(base);
    if (known && &known->card() != &card) {
        replaced(card, {base, size});
        say_ambiguous(known->card(), card, base);
        return;
    }
    begin(card, life, {base, size}, Region::Origin::seen);
}

bool Foreign::unmapping(Card &card, std::uint64_t base) {
    {
        const std::lock_guard guard(m_mutex);
        m_leaving.push_back({&card, base, false});
    }
    const Life life = life_of(m_cards.find(base));
    if (!life.region || life.region->base() != base || &life.region->card() != &card ||
        life.region->origin() == Region::Origin::ours)
        return false;
    const bool exported = life.region->was_exported();
    forget(life);
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

/// Tries the starts at and below the address with what it takes to reach it, and then how far the mapping goes. Exports that
/// succeed only grow: a driver may remember the size of the last one, and must be left with all of it.
Range Foreign::search(Card &card, const thunk::Device &device, std::uint64_t address) {
    const Arena::Usage before = card.arena().usage();
    const auto usage = device.dram_usage();
    // If we took or gave back a block meanwhile, all may be theirs: too many pages only cost tries.
    const std::uint64_t ours = card.arena().usage().changes == before.changes ? before.block_bytes : 0;
    if (!usage || usage->ctx_dram_mem <= ours)
        return {};
    const std::uint64_t page = card.page_size(), first = card.window().base;
    const std::uint64_t most = (usage->ctx_dram_mem - ours + page - 1) / page; // pages that others have
    const auto exports = [&](std::uint64_t start, std::uint64_t pages) {
        return is_exported(device, start, pages * page);
    };
    std::uint64_t start = first + (address - first) / page * page;
    for (std::uint64_t below = 0; below < most; ++below, start -= page) {
        const Life known = life_of(m_cards.find(start));
        if (on_its_way_out(card, start) || (known.region && known.region->origin() != Region::Origin::asked))
            return {}; // what begins further down ends before this
        if (known.region)
            start = known.region->base();
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
            if (known.region) // and has grown
                forget(known);
            return {start, reaches * page};
        }
        if (known.region || start == first)
            break;
    }
    return {};
}

Region *Foreign::ask(std::uint64_t address) {
    if (m_cards.telling())
        return nullptr;
    const Framework *framework = Framework::loaded(); // which may load it into sight, and must not be done under a lock
    const std::lock_guard guard(m_asking);
    if (Region *known = m_cards.find(address)) // meanwhile
        return known;
    Card *holder = nullptr;
    std::uint64_t its_life = 0;
    Range found;
    auto origin = Region::Origin::asked;
    for (const auto &card : m_cards.all()) {
        const std::uint64_t life = card->life();
        const auto device = card->if_held();
        if (!device)
            continue;
        Range range = ask_framework(framework, *card, address);
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
        its_life = life;
        found = range;
        origin = pool ? Region::Origin::seen : Region::Origin::asked;
    }
    return holder ? begin(*holder, its_life, found, origin) : nullptr;
}

Region *Foreign::ask_again(Region &region, std::uint64_t address) {
    if (m_cards.telling())
        return nullptr;
    const Life life = life_of(&region);
    if (region.origin() == Region::Origin::asked) // and not somebody else's by now
        forget(life);
    return ask(address);
}

bool Foreign::still_there(Region &region) {
    const Life life = life_of(&region);
    if (region.origin() != Region::Origin::asked || m_cards.telling())
        return true;
    const auto device = region.card().if_held();
    if (device) {
        const auto exported = device->export_dmabuf(region.base(), region.export_size());
        if (exported || thunk::is_transient(exported.error().code))
            return true;
    }
    forget(life);
    return false;
}

void Foreign::leave(const Card &card) {
    {
        const std::lock_guard guard(m_mutex);
        std::erase_if(m_leaving, [&](const Leaving &leaving) { return leaving.card == &card; });
    }
    replaced(card, {0, UINT64_MAX});
}

} // namespace gaudi
