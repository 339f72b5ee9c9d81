// SPDX-License-Identifier: BSD-3-Clause
// Copies in pieces through host memory that the cards have mapped: for host memory that cannot be pinned, for small
// copies where pinning would cost more than copying, and from one card to another.
#pragma once

#include "host_range.h"
#include "transfer.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

/// Where one end of a copy is.
struct Place {
    std::uint64_t address = 0;
    Card *card = nullptr; // null is host memory
    bool flush = false;   // the card must see a NIC's writes first
};

class Stager {
public:
    static constexpr std::uint64_t kPiece = 256 * 1024;
    static constexpr unsigned kSlots = 32;

    explicit Stager(Channel &channel) : m_channel(channel) {}
    ~Stager();
    Stager(const Stager &) = delete;
    Stager &operator=(const Stager &) = delete;

    using Done = void (*)(void *user, int error);

    /// False when there is no memory to stage in. `done` is called from the channel's dispatch or from pump.
    bool post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user);
    bool idle() const { return m_copies.empty(); }
    /// Its users are gone: nothing is written to their memory any more.
    void abandon() { m_abandoned = true; }
    /// Whether pump would end a copy although nothing of it is on its way: one that failed while it was posted.
    bool has_ended() const;
    /// Ends copies that have nothing left to wait for, and starts pieces of the others.
    void pump();

private:
    struct Copy {
        Place destination, source;
        std::uint64_t length = 0;
        std::uint64_t started = 0;  // bytes that have got a piece
        std::uint64_t finished = 0;
        unsigned pieces = 0;        // on their way
        int error = 0;
        Done done = nullptr;
        void *user = nullptr;
    };
    struct Piece {
        Stager *stager = nullptr;
        Copy *copy = nullptr;
        unsigned slot = 0;
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
    };

    static bool is_over(const Copy &copy);
    bool set_up(std::size_t cards);
    bool start_pieces(Copy &copy);
    bool start_piece(Copy &copy);
    bool drain_piece(Piece &piece); // from the slot to its destination
    bool post_piece(Piece &piece, Card &card, bool up, std::uint64_t device_address);
    void end_piece(Piece &piece, int error);
    void *slot(unsigned index) const;

    Channel &m_channel;
    bool m_abandoned = false;
    void *m_memory = nullptr;
    std::unique_ptr<HostRange> m_range;
    std::array<Piece, kSlots> m_pieces;
    std::vector<unsigned> m_free;
    std::vector<std::unique_ptr<Copy>> m_copies; // in order
};

} // namespace gaudi
