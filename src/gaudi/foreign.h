// SPDX-License-Identifier: BSD-3-Clause
// Mappings of device memory that others in this process made: a framework, or the program itself. Some were seen as they
// were made (by the memory hooks); the others are found when somebody asks for an address in them. Only exactly where a
// mapping starts does the driver export it, and only up to its end, so trying finds both.
#pragma once

#include "region.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gaudi {

class Cards;

class Foreign {
public:
    explicit Foreign(Cards &cards) : m_cards(cards) {}
    Foreign(const Foreign &) = delete;
    Foreign &operator=(const Foreign &) = delete;

    // ---- what was seen
    void mapped(Card &card, std::uint64_t base, std::uint64_t size);
    /// About to be unmapped: everybody lets go of it, and nobody finds it until unmapped() says that it is over, well or
    /// not. Whether it was exported, so that the driver may refuse for a while.
    bool unmapping(Card &card, std::uint64_t base);
    /// The driver still has it, because a NIC does, although its owner believes it gone; until unmapped() says so.
    void lingers(const Card &card, std::uint64_t base);
    void unmapped(Card &card, std::uint64_t base);

    // ---- what was not
    /// The mapping that holds `address` on a card that this process has open, or null. System calls, some at best.
    Region *ask(std::uint64_t address);
    /// Whether what was found by asking is there still, as it was. If not, it is forgotten.
    bool still_there(Region &region);
    /// One that was found by asking seems to be too short: it may have been replaced.
    Region *ask_again(Region &region, std::uint64_t address);
    /// The driver has just given this range of the card away: what others had there is gone.
    void replaced(const Card &card, Range range);

    /// Forgets all that is on the card.
    void leave(const Card &card);

private:
    /// A region as it was when it was looked at. Objects are used again.
    struct Life {
        Region *region;
        std::uint64_t generation;
    };
    using Start = std::pair<const Card *, std::uint64_t>;
    struct Leaving {
        const Card *card;
        std::uint64_t base;
        bool lingers;
    };

    Range search(Card &card, const thunk::Device &device, std::uint64_t address);
    /// Null when that life of the card is over.
    Region *begin(Card &card, std::uint64_t life, Range range, Region::Origin origin);
    static Life life_of(Region *region);
    void forget(const Life &life);
    bool on_its_way_out(const Card &card, std::uint64_t base);
    std::vector<Leaving>::iterator find_leaving(const Card &card, std::uint64_t base);

    Cards &m_cards;
    std::mutex m_asking;    // one search at a time
    std::mutex m_beginning; // one of two who found the same
    std::mutex m_mutex;     // never held while others are told: they may be asking
    std::map<Start, Region *> m_live;
    std::vector<Region *> m_idle;
    std::vector<Leaving> m_leaving;
};

} // namespace gaudi
