// SPDX-License-Identifier: BSD-3-Clause
#include "mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace gaudi {
namespace {

// Below this a memcpy into memory that is mapped already is cheaper than finding or making a mapping.
constexpr std::uint64_t kStageBelow = 16 * 1024;

constexpr const char *kNoStage = "no host memory to stage the copy in";

/// Keeps a cached mapping until the copy that uses it has ended.
struct CachedUse {
    std::shared_ptr<HostRange> range;
    Mover::Done done;
    void *user;
};

} // namespace

void Mover::settle() {
    for (Copier *copier : m_copiers)
        copier->settle();
}

bool Mover::locate(std::uint64_t address, std::uint64_t length, Place &place) {
    place = {address, nullptr, false};
    Region *region = m_cards.find(address);
    if (!region)
        return true;
    if (!region->contains(address, length)) {
        m_problem = fmt::format("{:#x}..{:#x} reaches beyond the mapping of Gaudi memory that it begins in", address,
                                address + length);
        return false;
    }
    place.card = &region->card();
    place.flush = region->was_exported();
    return true;
}

Copier *Mover::copier_of(Card &card) {
    Copier *copier = card.copier_if_started();
    if (!copier) {
        const auto started = card.copier();
        if (!started) {
            m_problem = started.error().text;
            return nullptr;
        }
        copier = *started;
    }
    if (std::find(m_copiers.begin(), m_copiers.end(), copier) == m_copiers.end())
        m_copiers.push_back(copier);
    if (copier->failed()) {
        m_problem = fmt::format("card {} takes no more copies: {}", card.bus_id(), copier->failure());
        return nullptr;
    }
    return copier;
}

Mover::Posted Mover::post(const Operation &operation) {
    Ends ends;
    if (!locate(operation.destination, operation.length, ends.destination) ||
        !locate(operation.source, operation.length, ends.source))
        return Posted::failed;
    if (!ends.destination.card && !ends.source.card)
        return Posted::unsupported;
    if (operation.length == 0)
        return Posted::done;
    Copier *copier = nullptr;
    for (const Place *place : {&ends.destination, &ends.source}) {
        if (!place->card)
            continue;
        if (!place->card->can_copy())
            return Posted::unsupported;
        copier = copier_of(*place->card);
        if (!copier)
            return Posted::failed;
    }
    const bool two_cards = ends.destination.card && ends.source.card && ends.destination.card != ends.source.card;
    if (!two_cards) {
        const Posted posted = direct(operation, ends, *copier);
        if (posted != Posted::unsupported)
            return posted;
    }
    if (operation.range && operation.range->is_dmabuf())
        return Posted::unsupported; // the processor cannot stage it
    if (m_stager.post(ends.destination, ends.source, operation.length, operation.done, operation.user))
        return Posted::started;
    m_problem = kNoStage;
    return Posted::failed;
}

/// One copy by one card; unsupported when the host side has to be staged.
Mover::Posted Mover::direct(const Operation &operation, const Ends &ends, Copier &copier) {
    Card &card = *(ends.source.card ? ends.source.card : ends.destination.card);
    std::uint64_t source = operation.source;
    std::uint64_t destination = operation.destination;
    Direction direction = Direction::on_card;
    std::shared_ptr<HostRange> cached;
    HostRange *range = nullptr;
    if (!ends.source.card || !ends.destination.card) {
        const bool up = ends.source.card != nullptr;
        direction = up ? Direction::up : Direction::down;
        std::uint64_t &host = up ? destination : source;
        range = operation.range;
        if (!range || !range->contains(host, operation.length)) {
            if (operation.length < kStageBelow || (range && range->is_dmabuf()))
                return Posted::unsupported;
            cached = HostCache::get().find(host, operation.length, m_cards.all().size());
            range = cached.get();
        }
        const auto mapped = range ? range->on(card, host) : std::nullopt;
        if (!mapped)
            return Posted::unsupported;
        host = *mapped;
    }
    Transfer *transfer = m_channel.take();
    transfer->source = source;
    transfer->destination = destination;
    transfer->length = operation.length;
    transfer->flush = ends.source.flush;
    transfer->range = range;
    if (range)
        range->hold();
    if (cached) {
        transfer->user = new CachedUse{std::move(cached), operation.done, operation.user};
        transfer->done = [](Transfer &ended) {
            const std::unique_ptr<CachedUse> use(static_cast<CachedUse *>(ended.user));
            use->done(use->user, ended.error);
        };
    } else {
        transfer->user = operation.user;
        transfer->callback = operation.done;
        transfer->done = [](Transfer &ended) { ended.callback(ended.user, ended.error); };
    }
    copier.post(direction, *transfer); // which may have failed meanwhile: the end says so
    return Posted::started;
}

int Mover::copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
    Ends ends;
    if (!locate(destination, length, ends.destination) || !locate(source, length, ends.source))
        return EINVAL;
    if (!ends.destination.card && !ends.source.card) {
        m_problem = "neither side of the copy is Gaudi memory";
        return ENOTSUP;
    }
    if (length == 0)
        return 0;
    Copier *copier = nullptr;
    for (const Place *place : {&ends.destination, &ends.source})
        if (place->card && !(copier = copier_of(*place->card)))
            return EIO;
    struct State {
        bool over = false;
        int error = 0;
    } state;
    if (ends.source.card && ends.source.card == ends.destination.card) {
        Transfer *transfer = m_short_channel.take();
        transfer->source = source;
        transfer->destination = destination;
        transfer->length = length;
        transfer->flush = ends.source.flush;
        transfer->user = &state;
        transfer->done = [](Transfer &ended) {
            auto &seen = *static_cast<State *>(ended.user);
            seen = {true, ended.error};
        };
        copier->post(Direction::on_card, *transfer);
    } else {
        const auto done = [](void *user, int error) { *static_cast<State *>(user) = {true, error}; };
        if (!m_short_stager.post(ends.destination, ends.source, length, done, &state)) {
            m_problem = kNoStage;
            return ENOMEM;
        }
    }
    constexpr unsigned kSpins = 2000; // longer than a card takes; after that the core may serve somebody else better
    for (unsigned spins = 0; !state.over; ++spins) {
        for (Copier *used : m_copiers)
            used->progress();
        m_short_channel.dispatch();
        if (!m_short_stager.idle())
            m_short_stager.pump();
        for (Copier *used : m_copiers)
            if (spins >= kSpins && used->busy())
                used->sleep();
    }
    if (state.error != 0) {
        m_problem = "the copy failed: the memory to stage it in cannot be mapped";
        for (const Place *place : {&ends.destination, &ends.source})
            if (place->card && place->card->copier_if_started()->failed())
                m_problem = fmt::format("the copy failed on card {}: {}", place->card->bus_id(),
                                        place->card->copier_if_started()->failure());
    }
    return state.error;
}

unsigned Mover::progress() {
    for (Copier *copier : m_copiers)
        copier->progress();
    const unsigned count = m_channel.dispatch();
    if (!m_stager.idle())
        m_stager.pump();
    return count;
}

bool Mover::arm(int event_fd) {
    if (m_stager.has_ended() || !m_channel.arm(event_fd))
        return false;
    for (Copier *copier : m_copiers)
        if (copier->busy())
            copier->watch();
    return true;
}

} // namespace gaudi
