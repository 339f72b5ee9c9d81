// SPDX-License-Identifier: BSD-3-Clause
#include "mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gaudi {
namespace {

// Below this a memcpy into memory that is mapped already is cheaper than finding a mapping; making one costs more yet.
constexpr std::uint64_t kStageBelow = 16 * 1024;

constexpr const char *kNoStage = "no host memory to stage the copy in";

std::string sentence(const Copier &copier, const Problem &problem) {
    return fmt::format("card {}: a copy failed: {}", copier.card().bus_id(), problem.text);
}

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

void Mover::abandon() {
    m_abandoned = true;
    m_stager.abandon();
}

inline bool Mover::locate(std::uint64_t address, std::uint64_t length, Place &place) {
    place.address = address;
    // Mostly it is the region of the copy before; one that has ended meanwhile has another generation.
    const Region *region = m_last_region;
    std::uint64_t size = 0, offset = 0;
    if (region) {
        size = region->size();
        offset = address - region->base();
    }
    if (offset >= size || region->generation() != m_last_generation) {
        region = m_cards.look_up(address);
        if (!region) {
            if (m_cards.only_on_cards(address)) {
                m_problem = fmt::format("{:#x} is in no mapping of Gaudi memory", address);
                return false;
            }
            place.card = nullptr;
            place.flush = false;
            return true;
        }
        m_last_generation = region->generation();
        m_last_region = region->alive() ? region : nullptr;
        size = region->size();
        offset = address - region->base();
    }
    if (offset >= size || length > size - offset) [[unlikely]]
        return locate_beyond(address, length, place);
    place.card = &region->card();
    place.flush = region->needs_flush();
    return true;
}

/// A mapping of others may have been replaced by a longer one behind our back.
bool Mover::locate_beyond(std::uint64_t address, std::uint64_t length, Place &place) {
    m_last_region = nullptr;
    Region *region = m_cards.find(address);
    if (region && region->origin() == Region::Origin::asked)
        region = m_cards.foreign().ask_again(*region, address);
    if (!region || !region->contains(address, length)) {
        m_problem = fmt::format("{:#x}..{:#x} reaches beyond the mapping of Gaudi memory that it begins in", address,
                                address + length);
        return false;
    }
    place.card = &region->card();
    place.flush = region->needs_flush();
    return true;
}

void Mover::refuse_host_to_host(std::uint64_t destination, std::uint64_t source) {
    m_problem =
        fmt::format("cards copy to and from Gaudi memory only, and neither the destination {:#x} nor the source "
                    "{:#x} is Gaudi memory: use memcpy",
                    destination, source);
}

/// Takes the engine of the place's card if it is the one that was used before.
inline bool Mover::has_copier(Place &place) const {
    if (!place.card)
        return true;
    Copier *copier = place.card->copier_if_started();
    place.copier = copier;
    return copier && copier == m_by_card[place.card->index()] && !copier->failed();
}

/// The engines of the cards at both ends.
inline bool Mover::take_copiers(Ends &ends, std::uint64_t length) {
    return (has_copier(ends.destination) && has_copier(ends.source)) || take_copiers_anew(ends, length);
}

/// An engine serves one life of its card. What was found before there was the engine may be of an earlier life: found again
/// after it, it is of the engine's own, or the engine takes no more copies.
bool Mover::take_copiers_anew(Ends &ends, std::uint64_t length) {
    for (Place *place : {&ends.destination, &ends.source}) {
        Card *card = place->card;
        if (card && !(place->copier = start_copier(*card)))
            return false;
    }
    for (Place *place : {&ends.destination, &ends.source}) {
        const Card *card = place->card;
        if (!locate(place->address, length, *place))
            return false;
        if (place->card != card) {
            m_problem = fmt::format("{:#x} has just left its card", place->address);
            return false;
        }
    }
    return true;
}

Copier *Mover::start_copier(Card &card) {
    const auto started = card.copier();
    if (!started) {
        m_problem = started.error().text;
        return nullptr;
    }
    Copier *copier = *started;
    if (std::find(m_copiers.begin(), m_copiers.end(), copier) == m_copiers.end()) {
        m_known.push_back(0);
        m_copiers.push_back(copier);
    }
    if (copier->failed()) {
        m_problem = fmt::format("card {} takes no more copies: {}", card.bus_id(), copier->failure());
        return nullptr;
    }
    m_by_card[card.index()] = copier;
    return copier;
}

Mover::Posted Mover::post(const Operation &operation) {
    if (operation.length == 0)
        return Posted::done;
    Ends ends;
    if (!locate(operation.destination, operation.length, ends.destination) ||
        !locate(operation.source, operation.length, ends.source))
        return Posted::failed;
    Card *card = ends.source.card ? ends.source.card : ends.destination.card;
    if (!card) {
        refuse_host_to_host(operation.destination, operation.source);
        return Posted::unsupported;
    }
    const bool two_cards = ends.destination.card && ends.destination.card != card;
    const auto no_way = [this](Card &at) {
        if (at.can_copy() || at.find_copy_path())
            return false;
        m_problem = fmt::format("card {} has no copy path: its generation takes no command submissions, and no "
                                "framework in this process copies on it",
                                at.bus_id());
        return true;
    };
    if (no_way(*card) || (two_cards && no_way(*ends.destination.card)))
        return Posted::unsupported;
    if (!take_copiers(ends, operation.length))
        return Posted::failed;
    Copier *copier = ends.source.card ? ends.source.copier : ends.destination.copier;
    const bool small =
        !operation.range && operation.length < kStageBelow && !(ends.source.card && ends.destination.card);
    const Posted posted = two_cards ? post_between_cards(operation, ends, *copier)
                          : small   ? post_bounced(operation, ends, *copier)
                                    : post_on_one_card(operation, ends, *copier);
    if (posted != Posted::unsupported)
        return posted;
    if (operation.range && operation.range->is_dmabuf()) { // the processor cannot stage it
        m_problem = fmt::format("card {} cannot reach memory that was registered by a dma-buf: {}", card->bus_id(),
                                operation.range->refusal());
        return Posted::not_imported;
    }
    if (m_stager.post(ends.destination, ends.source, operation.length, operation.done, operation.user))
        return Posted::started;
    m_problem = kNoStage;
    return Posted::failed;
}

inline void Mover::start(Copier &copier, Direction direction, std::uint64_t destination, std::uint64_t source,
                         const Operation &operation, HostRange *range, bool flush) {
    Transfer *transfer = m_channel.take();
    transfer->source = source;
    transfer->destination = destination;
    transfer->length = operation.length;
    transfer->flush = flush;
    transfer->copies = range ? &range->copies() : nullptr;
    transfer->user = operation.user;
    transfer->callback = operation.done;
    transfer->done = [](Transfer &ended) { ended.callback(ended.user, ended.error); };
    copier.post(direction, *transfer); // which may have failed meanwhile: the end says so
}

/// By the source's own engine into the other card, where the driver lets it: writes are what PCIe is good at.
Mover::Posted Mover::post_between_cards(const Operation &operation, const Ends &ends, Copier &copier) {
    Card &from = *ends.source.card;
    Region *to = from.refuses_imports() ? nullptr : m_cards.find(operation.destination);
    HostRange *window = to ? to->hold_window() : nullptr;
    if (!window)
        return Posted::unsupported;
    const auto mapped = window->on(from, operation.destination);
    if (!mapped) {
        if (window->refused(from))
            from.remember_refused_import();
        window->release();
        return Posted::unsupported;
    }
    to->written_by_others();
    start(copier, Direction::up, *mapped, operation.source, operation, window, ends.source.flush);
    return Posted::started;
}

/// One copy by one card; unsupported when the host side has to be staged in pieces.
Mover::Posted Mover::post_on_one_card(const Operation &operation, const Ends &ends, Copier &copier) {
    const bool flush = ends.source.flush;
    if (ends.source.card && ends.destination.card) {
        start(copier, Direction::on_card, operation.destination, operation.source, operation, nullptr, flush);
        return Posted::started;
    }
    const bool up = ends.source.card != nullptr;
    const std::uint64_t host = up ? operation.destination : operation.source;
    HostRange *range = operation.range;
    if (!range || !range->contains(host, operation.length)) {
        if (range && range->is_dmabuf())
            return Posted::unsupported;
        return operation.length < kStageBelow ? post_bounced(operation, ends, copier)
                                              : post_cached(operation, ends, copier);
    }
    Card &card = up ? *ends.source.card : *ends.destination.card;
    // A registration may serve one copy only, so a first one that is not worth a mapping is staged. Only on the way down:
    // what comes up would reach the user's memory after its registration may have ended.
    if (!up && operation.length < copier.worth_mapping() && !range->is_dmabuf() && !range->worth_mapping(card))
        return operation.length < kStageBelow ? post_bounced(operation, ends, copier) : Posted::unsupported;
    range->hold();
    const auto mapped = range->on(card, host);
    if (!mapped) {
        range->release();
        return Posted::unsupported;
    }
    if (up)
        start(copier, Direction::up, *mapped, operation.source, operation, range, flush);
    else
        start(copier, Direction::down, operation.destination, *mapped, operation, range, flush);
    return Posted::started;
}

/// Of host memory that nobody registered: mapped now, and kept so for the next time.
Mover::Posted Mover::post_cached(const Operation &operation, const Ends &ends, Copier &copier) {
    const bool up = ends.source.card != nullptr;
    const std::uint64_t host = up ? operation.destination : operation.source;
    auto cached = HostCache::get().find(host, operation.length, m_cards.all().size(), copier.worth_mapping());
    if (!cached)
        return Posted::unsupported;
    cached->hold();
    const auto mapped = cached->on(up ? *ends.source.card : *ends.destination.card, host);
    if (!mapped) {
        cached->release();
        return Posted::unsupported;
    }
    HostRange *range = cached.get();
    Operation kept = operation;
    kept.user = new CachedUse{std::move(cached), operation.done, operation.user};
    kept.done = [](void *user, int error) {
        const std::unique_ptr<CachedUse> use(static_cast<CachedUse *>(user));
        use->done(use->user, error);
    };
    start(copier, up ? Direction::up : Direction::down, up ? *mapped : operation.destination,
          up ? operation.source : *mapped, kept, range, ends.source.flush);
    return Posted::started;
}

/// Of a few bytes of such memory: through the ring, in one piece.
Mover::Posted Mover::post_bounced(const Operation &operation, const Ends &ends, Copier &copier) {
    if (m_bounces.empty()) {
        if (!m_ring.set_up(m_cards.all().size()))
            return Posted::unsupported;
        m_bounces.resize(BounceRing::kStretches);
    }
    const bool up = ends.source.card != nullptr;
    const auto stretch = m_stager.idle() ? m_ring.take(operation.length) : std::nullopt; // not before those that wait
    if (!stretch)
        return Posted::unsupported;
    const auto mapped = m_ring.on(up ? *ends.source.card : *ends.destination.card, *stretch);
    if (!mapped) {
        m_ring.give_back(*stretch);
        return Posted::unsupported;
    }
    if (!up)
        std::memcpy(m_ring.memory(*stretch), reinterpret_cast<const void *>(operation.source), operation.length);
    Bounce &bounce = m_bounces[*stretch];
    bounce = {this,
              operation.done,
              operation.user,
              up ? reinterpret_cast<void *>(operation.destination) : nullptr,
              operation.length,
              *stretch};
    Transfer *transfer = m_channel.take();
    transfer->source = up ? operation.source : *mapped;
    transfer->destination = up ? *mapped : operation.destination;
    transfer->length = operation.length;
    transfer->flush = ends.source.flush;
    transfer->user = &bounce;
    transfer->done = [](Transfer &ended) {
        const auto &over = *static_cast<Bounce *>(ended.user);
        Mover &mover = *over.mover;
        if (over.destination && ended.error == 0 && !mover.m_abandoned)
            std::memcpy(over.destination, mover.m_ring.memory(over.stretch), over.length);
        const Done done = over.done; // before the next copy may take its place
        void *user = over.user;
        if (ended.abandoned)
            mover.m_ring.abandon(over.stretch);
        else
            mover.m_ring.give_back(over.stretch);
        done(user, ended.error);
    };
    copier.post(up ? Direction::up : Direction::down, *transfer);
    return Posted::started;
}

int Mover::copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
    if (length == 0)
        return 0;
    Ends ends;
    if (!locate(destination, length, ends.destination) || !locate(source, length, ends.source))
        return EINVAL;
    if (!ends.destination.card && !ends.source.card) {
        refuse_host_to_host(destination, source);
        return ENOTSUP;
    }
    if (!take_copiers(ends, length))
        return EIO;
    int error = copy_once(ends, length);
    // UCP ends the process when this fails: one refused submission on a card that is well is no reason yet.
    if (error != 0 && !has_failed(ends))
        error = copy_once(ends, length);
    return error;
}

bool Mover::has_failed(const Ends &ends) {
    const auto failed = [](const Place &place) { return place.copier && place.copier->failed(); };
    return failed(ends.destination) || failed(ends.source);
}

/// One blocking copy, waited for. An errno where it failed, with m_problem.
int Mover::copy_once(const Ends &ends, std::uint64_t length) {
    struct State {
        bool over = false;
        int error = 0;
    } state;
    if (ends.source.card && ends.source.card == ends.destination.card) {
        Transfer *transfer = m_short_channel.take();
        transfer->source = ends.source.address;
        transfer->destination = ends.destination.address;
        transfer->length = length;
        transfer->flush = ends.source.flush;
        transfer->user = &state;
        transfer->done = [](Transfer &ended) {
            auto &seen = *static_cast<State *>(ended.user);
            seen = {true, ended.error};
        };
        ends.source.copier->post(Direction::on_card, *transfer);
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
        if (spins >= kSpins)
            for (const Place *place : {&ends.destination, &ends.source})
                if (place->copier && place->copier->busy())
                    place->copier->sleep();
    }
    if (state.error != 0)
        m_problem = problem_of(ends);
    return state.error;
}

/// Why a blocking copy failed: by the last that went wrong where it was.
std::string Mover::problem_of(const Ends &ends) const {
    Problem last = m_short_stager.problem();
    for (const Place *place : {&ends.destination, &ends.source})
        if (place->copier)
            if (const Problem problem = place->copier->problem(); problem.number > last.number)
                last = {problem.number, sentence(*place->copier, problem)};
    return last.text;
}

std::vector<std::string> Mover::new_problems() {
    std::vector<std::string> sentences;
    for (std::size_t i = 0; i < m_copiers.size(); ++i)
        if (const Problem problem = m_copiers[i]->problem();
            problem.number != std::exchange(m_known[i], problem.number))
            sentences.push_back(sentence(*m_copiers[i], problem));
    if (const Problem &problem = m_stager.problem(); problem.number != std::exchange(m_known_of_stager, problem.number))
        sentences.push_back(problem.text);
    return sentences;
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
