// SPDX-License-Identifier: BSD-3-Clause
#include "stager.h"

#include "gaudi/card/card.h"
#include "gaudi/counters/counter_page.h"
#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gaudi {
namespace {

Error error_no_memory() { return {ENOMEM, "copy", "no host memory to stage the copy in"}; }

Failure cancelled() {
    return std::make_shared<const Error>(Error{ECANCELED, "copy", "the copy was cancelled: its interface was closed"});
}

} // namespace

Stager::Copy *Stager::take_copy() {
    if (!m_free) {
        m_copies.push_back(std::make_unique<Copy>());
        m_free = m_copies.back().get();
    }
    Copy *copy = m_free;
    m_free = copy->next;
    return copy;
}

Result<void> Stager::post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user) {
    if (!m_ring.set_up(m_cards))
        return tl::unexpected(error_no_memory());
    m_pieces.resize(BounceRing::kSlices);
    Copy &copy = *take_copy();
    copy = {destination, source, length, 0, 0, false, false, nullptr, done, user, nullptr};
    ++m_live;
    if (!m_first)
        start_pieces(copy);
    // No copy ends inside the call that starts it: one that failed waits for the next pump.
    if (copy.started < length || copy.failure) {
        copy.waiting = true;
        (m_last ? m_last->next : m_first) = &copy;
        m_last = &copy;
    }
    return {};
}

void Stager::start_pieces(Copy &copy) {
    if (m_abandoned)
        refuse(copy, cancelled());
    while (!copy.failure && copy.started < copy.length && start_piece(copy)) {
    }
}

void Stager::pump() {
    while (Copy *copy = m_first) {
        start_pieces(*copy);
        if (copy->started < copy->length && !copy->failure)
            return; // there is no room
        if (copy->failure && copy->pieces != 0)
            return; // it ends with the last of its pieces, and the copies behind it can wait
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
    const Failure failure = std::move(copy.failure);
    if (copy.refused && m_refusals == Refusals::counted)
        count_up(counters().refused_copies);
    copy.next = m_free; // before the call, which may post the next copy
    m_free = &copy;
    --m_live;
    done(user, failure.get());
}

/// False when the ring is full, or the copy has failed.
bool Stager::start_piece(Copy &copy) {
    const std::uint64_t length = std::min(kPiece, copy.length - copy.started);
    const auto slice = m_ring.take(length);
    if (!slice && !m_ring.has_memory()) // waiting would not help
        refuse(copy, std::make_shared<const Error>(error_no_memory()));
    if (!slice)
        return false;
    Piece &piece = m_pieces[*slice];
    piece = {this, &copy, copy.started, length};
    copy.started += length;
    ++copy.pieces;
    if (copy.source.session)
        return post_piece(piece, copy.source, true);
    std::memcpy(m_ring.memory(*slice), reinterpret_cast<const void *>(copy.source.address + piece.offset), length);
    return drain_piece(piece);
}

bool Stager::drain_piece(Piece &piece) {
    const Place &destination = piece.copy->destination;
    if (m_abandoned) {
        refuse(*piece.copy, cancelled());
        end_piece(piece, nullptr);
        return false;
    }
    if (destination.session)
        return post_piece(piece, destination, false);
    std::memcpy(reinterpret_cast<void *>(destination.address + piece.offset), m_ring.memory(number(piece)),
                piece.length);
    end_piece(piece, nullptr);
    return true;
}

bool Stager::post_piece(Piece &piece, const Place &place, bool up) {
    const auto staged = m_ring.map(*place.session, number(piece));
    if (!staged) {
        refuse(*piece.copy, std::make_shared<const Error>(
                                Error{EIO, "map",
                                      os::format("card {}: the memory to stage copies in cannot be mapped: {}",
                                                 place.session->card().bus_id(), staged.error().text)}));
        end_piece(piece, nullptr);
        return false;
    }
    const bool relayed = piece.copy->source.session && piece.copy->destination.session;
    Transfer *transfer = m_channel.take();
    transfer->path = relayed ? (up ? Path::relayed_out : Path::relayed_in) : (up ? Path::staged_up : Path::staged_down);
    // With its last piece, unless one has failed already. A relayed copy counts so on each of its cards.
    transfer->counts = piece.offset + piece.length == piece.copy->length && !piece.copy->failure;
    transfer->source = up ? place.address + piece.offset : *staged;
    transfer->destination = up ? *staged : place.address + piece.offset;
    transfer->length = piece.length;
    transfer->flush = up && place.flush;
    transfer->user = &piece;
    transfer->done = up ? [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        arrived.stager->handle_ended(arrived, true, ended);
    } : [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        arrived.stager->handle_ended(arrived, false, ended);
    };
    place.engine->post(up ? Direction::up : Direction::down, *transfer);
    return true;
}

/// The card has copied the piece. One that came up is still to be brought to its destination.
void Stager::handle_ended(Piece &piece, bool up, const Transfer &ended) {
    Copy &copy = *piece.copy;
    if (up && !ended.failure)
        drain_piece(piece);
    else
        end_piece(piece, ended.failure, ended.abandoned);
    if (copy.pieces == 0 && !copy.waiting)
        end_copy(copy);
    pump();
}

/// The copy fails for a reason that no transfer has counted. The first failure of a copy is the one that counts.
void Stager::refuse(Copy &copy, Failure why) {
    if (copy.failure)
        return;
    copy.failure = std::move(why);
    copy.refused = true;
}

void Stager::end_piece(Piece &piece, const Failure &failure, bool abandoned) {
    Copy &copy = *piece.copy;
    if (failure && !copy.failure)
        copy.failure = failure;
    --copy.pieces;
    if (abandoned)
        m_ring.abandon(number(piece));
    else
        m_ring.release(number(piece));
}

} // namespace gaudi
