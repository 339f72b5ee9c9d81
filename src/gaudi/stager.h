// SPDX-License-Identifier: BSD-3-Clause
// Copies in pieces through host memory that the cards have mapped: for host memory that cannot be pinned, for small
// copies where pinning would cost more than copying, and from one card to another.
#pragma once

#include "bounce_ring.h"
#include "problem.h"
#include "transfer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

/// Where one end of a copy is.
struct Place {
    std::uint64_t address = 0;
    Card *card = nullptr;     // null is host memory
    Copier *copier = nullptr; // of the card's life in which the memory is there: never another one
    bool flush = false;       // the card must see a NIC's writes first
};

class Stager {
public:
    static constexpr std::uint64_t kPiece = 256 * 1024;

    Stager(Channel &channel, BounceRing &ring) : m_channel(channel), m_ring(ring) {}
    Stager(const Stager &) = delete;
    Stager &operator=(const Stager &) = delete;

    using Done = void (*)(void *user, int error);

    /// False when there is no memory to stage in. `done` is called from the channel's dispatch or from pump.
    bool post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user);
    bool idle() const { return m_live == 0; }
    /// Its users are gone: nothing is written to their memory any more.
    void abandon() { m_abandoned = true; }
    /// Whether pump would end a copy although nothing of it is on its way: one that failed while it was posted.
    bool has_ended() const { return m_first && m_first->error != 0 && m_first->pieces == 0; }
    /// Starts what waits for room, and ends what failed before it was on its way.
    void pump();
    /// Why a copy failed last that no engine got.
    const Problem &problem() const { return m_problem.get(); }

private:
    struct Copy {
        Place destination, source;
        std::uint64_t length = 0;
        std::uint64_t started = 0; // bytes that have got a piece
        unsigned pieces = 0;       // on their way
        bool waiting = false;      // in the line
        int error = 0;
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
    void end_piece(Piece &piece, int error, bool abandoned = false);
    void piece_ended(Piece &piece, bool up, const Transfer &ended);
    void end_copy(Copy &copy);
    unsigned number(const Piece &piece) const { return static_cast<unsigned>(&piece - m_pieces.data()); }

    Channel &m_channel;
    BounceRing &m_ring;
    bool m_abandoned = false;
    LastProblem m_problem;
    std::vector<Piece> m_pieces;                // by the number of their stretch
    Copy *m_first = nullptr, *m_last = nullptr; // in line: not wholly started, or failed before they were on their way
    unsigned m_live = 0;
    std::vector<std::unique_ptr<Copy>> m_copies;
    Copy *m_free = nullptr;
};

} // namespace gaudi
