// SPDX-License-Identifier: BSD-3-Clause
// Copies between any two addresses of which at least one is Gaudi memory: finds out where they are and takes the way.
// One mover per user (a UCX interface); its thread posts, progresses and hears of completions.
#pragma once

#include "cards.h"
#include "host_cache.h"
#include "stager.h"
#include "transfer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi {

class Mover {
public:
    explicit Mover(Cards &cards)
        : m_cards(cards), m_stager(m_channel, m_ring), m_short_stager(m_short_channel, m_short_ring),
          m_by_card(cards.all().size()) {}
    ~Mover() { settle(); }
    Mover(const Mover &) = delete;
    Mover &operator=(const Mover &) = delete;

    enum class Posted {
        done, // nothing to wait for; the callback is not called
        started,
        unsupported,  // neither side is Gaudi memory, or the card has no copy path
        not_imported, // another vendor's memory, and the driver does not import its dma-buf
        failed,
    };
    using Done = void (*)(void *user, int error);

    struct Operation {
        std::uint64_t destination = 0;
        std::uint64_t source = 0;
        std::uint64_t length = 0;
        HostRange *range = nullptr; // the registered range of the side that is no card's, if any
        Done done = nullptr;        // from progress()
        void *user = nullptr;
    };
    Posted post(const Operation &operation);

    /// Copies and returns when it is done. An errno where it could not be.
    int copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length);

    /// Moves on; how many operations ended.
    unsigned progress();
    unsigned outstanding() const { return m_channel.outstanding() + (m_stager.idle() ? 0u : 1u); }

    /// Returns when no thread is about to tell us of an end, or to write to the descriptor that was armed.
    void settle();
    /// From now on no user's memory is touched by us, and what is under way only has to end.
    void abandon();

    /// Asks for `event_fd` to be written at the next completion; false when there is one already.
    bool arm(int event_fd);

    /// The sentence that goes with a Posted that is neither done nor started, or an errno of copy_now().
    const std::string &problem() const { return m_problem; }
    /// The sentences that go with the errors of `Done` since the last call. One cause may come again and again.
    std::vector<std::string> new_problems();

private:
    struct Ends {
        Place destination, source;
    };
    /// A small copy whose host side is in the ring.
    struct Bounce {
        Mover *mover;
        Done done;
        void *user;
        void *destination; // in host memory, or null for a copy to a card
        std::size_t length;
        unsigned stretch;
    };

    void refuse_host_to_host(std::uint64_t destination, std::uint64_t source);
    [[gnu::always_inline]] bool locate(std::uint64_t address, std::uint64_t length, Place &place);
    bool locate_beyond(std::uint64_t address, std::uint64_t length, Place &place);
    Posted post_between_cards(const Operation &operation, const Ends &ends, Copier &copier);
    Posted post_on_one_card(const Operation &operation, const Ends &ends, Copier &copier);
    Posted post_cached(const Operation &operation, const Ends &ends, Copier &copier);
    Posted post_bounced(const Operation &operation, const Ends &ends, Copier &copier);
    /// `range` is held, and let go when the copy has ended.
    void start(Copier &copier, Direction direction, std::uint64_t destination, std::uint64_t source,
               const Operation &operation, HostRange *range, bool flush);
    bool has_copier(Place &place) const;
    bool take_copiers(Ends &ends, std::uint64_t length);
    bool take_copiers_anew(Ends &ends, std::uint64_t length);
    int copy_once(const Ends &ends, std::uint64_t length);
    static bool has_failed(const Ends &ends);
    std::string problem_of(const Ends &ends) const;
    Copier *start_copier(Card &card);

    Cards &m_cards;
    Channel m_channel;
    BounceRing m_ring, m_short_ring;
    std::vector<Bounce> m_bounces; // by the number of their stretch
    bool m_abandoned = false;
    Stager m_stager;
    // Blocking copies have their own: their waiting must not call the completions of others.
    Channel m_short_channel;
    Stager m_short_stager;
    std::vector<Copier *> m_copiers;    // that this mover has used
    std::vector<std::uint64_t> m_known; // the last problem of each that new_problems() gave, by number
    std::uint64_t m_known_of_stager = 0;
    std::vector<Copier *> m_by_card; // and the last one of each card
    const Region *m_last_region = nullptr;
    std::uint64_t m_last_generation = 0;
    std::string m_problem;
};

} // namespace gaudi
