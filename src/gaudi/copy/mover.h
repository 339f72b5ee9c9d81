// SPDX-License-Identifier: BSD-3-Clause
// Copies between any two addresses of which at least one is Gaudi memory: finds both ends and chooses the way. One mover
// per user (a UCX interface); the user's thread posts, progresses and gets completions.
#pragma once

#include "engine.h"
#include "gaudi/card/cards.h"
#include "gaudi/memory/resolve.h"
#include "stager.h"
#include "transfer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gaudi {

class Mover {
public:
    explicit Mover(Cards &cards)
        : m_cards(cards), m_stager(m_channel, m_ring, cards.all().size()),
          m_short_stager(m_short_channel, m_short_ring, cards.all().size(), Stager::Refusals::left_to_caller) {}
    ~Mover() { settle(); }
    Mover(const Mover &) = delete;
    Mover &operator=(const Mover &) = delete;

    enum class Posted {
        done, // nothing to wait for; the callback is not called
        started,
    };
    /// `error` is null for a copy that succeeded, and valid during the call.
    using Done = void (*)(void *user, const Error *error);

    struct Operation {
        std::uint64_t destination = 0;
        std::uint64_t source = 0;
        std::uint64_t length = 0;
        HostRange *range = nullptr; // the registered range of the end that is on no card, if any
        Done done = nullptr;        // from progress()
        void *user = nullptr;
    };
    /// Errors: ENOTSUP where no end is Gaudi memory or the card has no copy path, EXDEV where the driver does not import the
    /// dma-buf of another vendor's memory, EINVAL for a range that no mapping holds, EIO for a card that takes no copies.
    Result<Posted> post(const Operation &operation);

    /// Copies and returns when the copy has ended.
    Result<void> copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length);

    /// Moves copies on; how many operations ended.
    unsigned progress();
    unsigned outstanding() const { return m_channel.outstanding() + (m_stager.idle() ? 0u : 1u); }

    /// Returns when no thread is about to hand an end to this mover, or to write to the descriptor that was armed.
    void settle();
    /// From now on no memory of users is accessed by this mover; copies under way only have to end.
    void abandon();

    /// Lets `event_fd` be written at the next completion; false when there is one already.
    bool arm(int event_fd);

private:
    friend class CopySeries;
    struct Ends {
        Place destination, source;
    };
    /// A small copy whose host end is staged in the ring.
    struct Bounce {
        Mover *mover;
        Done done;
        void *user;
        void *destination; // in host memory, or null for a copy to a card
        std::size_t length;
        unsigned slice;
    };

    /// Locates one end in the mapping of the last copy or in host memory; false where locate() is needed.
    [[gnu::always_inline]] bool find(std::uint64_t address, std::uint64_t length, Place &place) const;
    [[gnu::always_inline]] bool find_ends(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                          Ends &ends) const;
    Result<void> locate(std::uint64_t address, std::uint64_t length, Place &place);
    Result<void> locate_ends(std::uint64_t destination, std::uint64_t source, std::uint64_t length, Ends &ends);
    Result<Engine *> start_engine(Session &session);
    void drop_ended_engines();

    Result<Posted> post_slowly(const Operation &operation, const Ends &ends);
    // These return whether the copy was posted; it is staged otherwise.
    bool post_between_cards(const Operation &operation, const Ends &ends);
    Result<bool> post_on_one_card(const Operation &operation, const Ends &ends);
    Result<bool> post_mapped(const Operation &operation, const Ends &ends);
    bool post_cached(const Operation &operation, const Ends &ends);
    bool post_bounced(const Operation &operation, const Ends &ends);
    /// `range` is held, and released when the copy has ended.
    void start(Engine &engine, Direction direction, Path path, std::uint64_t destination, std::uint64_t source,
               const Operation &operation, HostRange *range, bool flush);

    Failure copy_once(const Ends &ends, std::uint64_t length);

    Cards &m_cards;
    const LiveMappings &m_mappings = LiveMappings::get();
    Channel m_channel;
    BounceRing m_ring, m_short_ring;
    std::vector<Bounce> m_bounces; // by the number of their slice
    bool m_abandoned = false;
    Stager m_stager;
    // Blocking copies have their own: while they wait, completions of other copies are not called.
    Channel m_short_channel;
    Stager m_short_stager;
    std::vector<std::shared_ptr<Engine>> m_engines; // that this mover has used
    Resolved m_last;                                // the mapping of the last copy, and its engine
    Engine *m_last_engine = nullptr;
};

} // namespace gaudi
