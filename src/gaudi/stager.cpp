// SPDX-License-Identifier: BSD-3-Clause
#include "stager.h"

#include "cards.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi {

Stager::~Stager() {
    m_range.reset();
    if (m_memory)
        munmap(m_memory, kSlots * kPiece);
}

bool Stager::set_up(std::size_t cards) {
    if (m_memory)
        return true;
    void *memory = mmap(nullptr, kSlots * kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, kSlots * kPiece, MADV_DONTFORK);
    m_memory = memory;
    m_range = std::make_unique<HostRange>(reinterpret_cast<std::uint64_t>(memory), kSlots * kPiece, cards);
    for (unsigned i = 0; i < kSlots; ++i)
        m_free.push_back(i);
    return true;
}

void *Stager::slot(unsigned index) const {
    return static_cast<char *>(m_memory) + index * kPiece;
}

bool Stager::post(const Place &destination, const Place &source, std::uint64_t length, Done done, void *user) {
    Card &card = source.card ? *source.card : *destination.card;
    if (!set_up(card.cards().all().size()))
        return false;
    m_copies.push_back(std::make_unique<Copy>(Copy{destination, source, length, 0, 0, 0, 0, done, user}));
    start_pieces(*m_copies.back()); // and not pump: nothing may end inside the call that starts it
    return true;
}

/// False when no slot is left for others.
bool Stager::start_pieces(Copy &copy) {
    if (m_abandoned && copy.error == 0)
        copy.error = ECANCELED;
    while (copy.error == 0 && copy.started < copy.length && !m_free.empty() && start_piece(copy)) {
    }
    return !m_free.empty();
}

bool Stager::is_over(const Copy &copy) {
    return copy.pieces == 0 && (copy.error != 0 || copy.finished == copy.length);
}

bool Stager::has_ended() const {
    return std::any_of(m_copies.begin(), m_copies.end(), [](const auto &copy) { return is_over(*copy); });
}

/// Oldest copy first.
void Stager::pump() {
    for (std::size_t i = 0; i < m_copies.size();) {
        Copy &copy = *m_copies[i];
        start_pieces(copy);
        if (!is_over(copy)) {
            if (m_free.empty())
                return;
            ++i;
            continue;
        }
        const std::unique_ptr<Copy> ended = std::move(m_copies[i]);
        m_copies.erase(m_copies.begin() + static_cast<std::ptrdiff_t>(i));
        ended->done(ended->user, ended->error);
    }
}

bool Stager::start_piece(Copy &copy) {
    const unsigned index = m_free.back();
    m_free.pop_back();
    Piece &piece = m_pieces[index];
    piece = {this, &copy, index, copy.started, std::min(kPiece, copy.length - copy.started)};
    copy.started += piece.length;
    ++copy.pieces;
    if (copy.source.card)
        return post_piece(piece, *copy.source.card, true, copy.source.address + piece.offset);
    std::memcpy(slot(index), reinterpret_cast<const void *>(copy.source.address + piece.offset), piece.length);
    return drain_piece(piece);
}

bool Stager::drain_piece(Piece &piece) {
    const Place &destination = piece.copy->destination;
    if (m_abandoned) {
        end_piece(piece, ECANCELED);
        return false;
    }
    if (destination.card)
        return post_piece(piece, *destination.card, false, destination.address + piece.offset);
    std::memcpy(reinterpret_cast<void *>(destination.address + piece.offset), slot(piece.slot), piece.length);
    end_piece(piece, 0);
    return true;
}

bool Stager::post_piece(Piece &piece, Card &card, bool up, std::uint64_t device_address) {
    const auto copier = card.copier();
    const auto staged = copier ? m_range->on(card, reinterpret_cast<std::uint64_t>(slot(piece.slot))) : std::nullopt;
    if (!staged) {
        end_piece(piece, EIO);
        return false;
    }
    Transfer *transfer = m_channel.take();
    transfer->source = up ? device_address : *staged;
    transfer->destination = up ? *staged : device_address;
    transfer->length = piece.length;
    transfer->flush = up && piece.copy->source.flush;
    transfer->user = &piece;
    transfer->done = up ? [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        Stager &stager = *arrived.stager;
        if (ended.error != 0)
            stager.end_piece(arrived, ended.error);
        else
            stager.drain_piece(arrived);
        stager.pump();
    } : [](Transfer &ended) {
        auto &arrived = *static_cast<Piece *>(ended.user);
        Stager &stager = *arrived.stager;
        stager.end_piece(arrived, ended.error);
        stager.pump();
    };
    (*copier)->post(up ? Direction::up : Direction::down, *transfer);
    return true;
}

void Stager::end_piece(Piece &piece, int error) {
    Copy &copy = *piece.copy;
    if (error != 0 && copy.error == 0)
        copy.error = error;
    copy.finished += piece.length;
    --copy.pieces;
    m_free.push_back(piece.slot);
}

} // namespace gaudi
