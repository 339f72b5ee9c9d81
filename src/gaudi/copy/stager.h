// SPDX-License-Identifier: BSD-3-Clause
// Copies in pieces through host memory that stays mapped into the cards: for host memory that cannot be mapped, for small
// copies where mapping would cost more than copying, and from one card to another.
#pragma once

#include "engine.h"
#include "gaudi/host/bounce_ring.h"
#include "transfer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

/// One end of a copy.
struct Place {
    std::uint64_t address = 0;
    Session *session = nullptr; // null for host memory
    Engine *engine = nullptr;   // of the session
    bool flush = false;         // a NIC's writes must be flushed to the card first
};

class Stager {
public:
    static constexpr std::uint64_t kPiece = 256 * 1024;

    /// Who counts copies that fail without a failed transfer: no memory, no mapping, cancelled.
    enum class Refusals { counted, left_to_caller };

    Stager(Channel &channel, BounceRing &ring, std::size_t cards, Refusals refusals = Refusals::counted)
        : m_channel(channel), m_ring(ring), m_cards(cards), m_refusals(refusals) {}
    Stager(const Stager &) = delete;
    Stager &operator=(const Stager &) = delete;

    using Done = void (*)(void *user, const Error *error);

    /// A copy that is refused at once is the caller's to count. `done` is called from the channel's dispatch or from pump().
    Result<void> post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user);
    bool idle() const { return m_live == 0; }
    /// The interface is being closed: memory of its users is not written any more.
    void abandon() { m_abandoned = true; }
    /// Whether pump() would end a copy that has nothing under way: one that failed while it was posted.
    bool has_ended() const { return m_first && m_first->failure && m_first->pieces == 0; }
    /// Starts copies that wait for room, and ends those that failed before a piece was under way.
    void pump();

private:
    struct Copy {
        Place destination, source;
        std::uint64_t length = 0;
        std::uint64_t started = 0; // bytes that have got a piece
        unsigned pieces = 0;       // under way
        bool waiting = false;      // in the queue
        bool refused = false;      // the failure is not that of a transfer
        Failure failure;
        Done done = nullptr;
        void *user = nullptr;
        Copy *next = nullptr;
    };
    struct Piece {
        Stager *stager = nullptr;
        Copy *copy = nullptr;
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
    };

    Copy *take_copy();
    void start_pieces(Copy &copy);
    bool start_piece(Copy &copy);
    bool drain_piece(Piece &piece); // from the ring to its destination
    bool post_piece(Piece &piece, const Place &place, bool up);
    void refuse(Copy &copy, Failure why);
    void end_piece(Piece &piece, const Failure &failure, bool abandoned = false);
    void handle_ended(Piece &piece, bool up, const Transfer &ended);
    void end_copy(Copy &copy);
    unsigned number(const Piece &piece) const { return static_cast<unsigned>(&piece - m_pieces.data()); }

    Channel &m_channel;
    BounceRing &m_ring;
    const std::size_t m_cards;
    const Refusals m_refusals;
    bool m_abandoned = false;
    std::vector<Piece> m_pieces;                // by the number of their slice
    Copy *m_first = nullptr, *m_last = nullptr; // not wholly started, or failed before a piece was under way
    unsigned m_live = 0;
    std::vector<std::unique_ptr<Copy>> m_copies;
    Copy *m_free = nullptr;
};

} // namespace gaudi
