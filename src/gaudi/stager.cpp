// SPDX-License-Identifier: BSD-3-Clause
#include "stager.h"

#include "cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi {

Stager::Copy *Stager::take_copy() {
    if (!m_free) {
        m_copies.push_back(std::make_unique<Copy>());
        m_free = m_copies.back().get();
    }
    Copy *copy = m_free;
    m_free = copy->next;
    return copy;
}

bool Stager::post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user) {
    const Card &card = source.card ? *source.card : *destination.card;
    if (!m_ring.set_up(card.cards().all().size()))
        return false;
    m_pieces.resize(BounceRing::kStretches);
    Copy &copy = *take_copy();
    copy = {destination, source, length, 0, 0, false, 0, done, user, nullptr};
    ++m_live;
    if (!m_first)
        start_pieces(copy);
    // Nothing ends inside the call that starts it: what failed waits for the next pump.
    if (copy.started < length || copy.error != 0) {
        copy.waiting = true;
        (m_last ? m_last->next : m_first) = &copy;
        m_last = &copy;
    }
    return true;
}

void Stager::start_pieces(Copy &copy) {
    if (m_abandoned && copy.error == 0)
        copy.error = ECANCELED;
    while (copy.error == 0 && copy.started < copy.length && start_piece(copy)) {
    }
}

void Stager::pump() {
    while (Copy *copy = m_first) {
        start_pieces(*copy);
        if (copy->started < copy->length && copy->error == 0)
            return; // there is no room
        if (copy->error != 0 && copy->pieces != 0)
            return; // it ends with the last of them, and those behind it can wait
        m_first = copy->next;
        if (!m_first)
            m_last = nullptr;
        copy->waiting = false;
        if (copy->pieces == 0)
            end_copy(*copy);
    }
}

void Stager::end_copy(Copy &copy) {
    const Done done = copy.done;
    void *user = copy.user;
    const int error = copy.error;
    copy.next = m_free; // before the call: its user may well post the next from inside it
    m_free = &copy;
    --m_live;
    done(user, error);
}

/// False when there is no room, or it has failed.
bool Stager::start_piece(Copy &copy) {
    const std::uint64_t length = std::min(kPiece, copy.length - copy.started);
    const auto stretch = m_ring.take(length);
    if (!stretch && !m_ring.has_memory()) { // it will not come by waiting
        m_problem.set("no host memory to stage the copy in");
        copy.error = ENOMEM;
    }
    if (!stretch)
        return false;
    Piece &piece = m_pieces[*stretch];
    piece = {this, &copy, copy.started, length};
    copy.started += length;
    ++copy.pieces;
    if (copy.source.card)
        return post_piece(piece, copy.source, true);
    std::memcpy(m_ring.memory(*stretch), reinterpret_cast<const void *>(copy.source.address + piece.offset), length);
    return drain_piece(piece);
}

bool Stager::drain_piece(Piece &piece) {
    const Place &destination = piece.copy->destination;
    if (m_abandoned) {
        end_piece(piece, ECANCELED);
        return false;
    }
    if (destination.card)
        return post_piece(piece, destination, false);
    std::memcpy(reinterpret_cast<void *>(destination.address + piece.offset), m_ring.memory(number(piece)),
                piece.length);
    end_piece(piece, 0);
    return true;
}

bool Stager::post_piece(Piece &piece, const Place &place, bool up) {
    const auto staged = m_ring.on(*place.card, number(piece));
    if (!staged) {
        m_problem.set(fmt::format("card {}: the memory to stage copies in cannot be mapped: {}", place.card->bus_id(),
                                  m_ring.refusal()));
        end_piece(piece, EIO);
        return false;
    }
    Transfer *transfer = m_channel.take();
    transfer->source = up ? place.address + piece.offset : *staged;
    transfer->destination = up ? *staged : place.address + piece.offset;
    transfer->length = piece.length;
    transfer->flush = up && place.flush;
    transfer->user = &piece;
    transfer->done = up ? [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        arrived.stager->piece_ended(arrived, true, ended);
    } : [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        arrived.stager->piece_ended(arrived, false, ended);
    };
    place.copier->post(up ? Direction::up : Direction::down, *transfer);
    return true;
}

/// The card is done with it: what came up is still to be brought to its destination.
void Stager::piece_ended(Piece &piece, bool up, const Transfer &ended) {
    Copy &copy = *piece.copy;
    if (up && ended.error == 0)
        drain_piece(piece);
    else
        end_piece(piece, ended.error, ended.abandoned);
    if (copy.pieces == 0 && !copy.waiting)
        end_copy(copy);
    pump();
}

void Stager::end_piece(Piece &piece, int error, bool abandoned) {
    Copy &copy = *piece.copy;
    if (error != 0 && copy.error == 0)
        copy.error = error;
    --copy.pieces;
    if (abandoned)
        m_ring.abandon(number(piece));
    else
        m_ring.give_back(number(piece));
}

} // namespace gaudi
