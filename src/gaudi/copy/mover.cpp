// SPDX-License-Identifier: BSD-3-Clause
#include "mover.h"

#include "engine_slot.h"
#include "gaudi/counters/counter_page.h"
#include "gaudi/host/host_cache.h"
#include "gaudi/memory/lost_memory.h"
#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gaudi {
namespace {

// Below this a memcpy into mapped memory is cheaper than finding a mapping; making one costs more yet.
constexpr std::uint64_t kStageBelow = 16 * 1024;

tl::unexpected<Error> refuse(int code, std::string sentence) {
    return tl::unexpected(Error{code, "copy", std::move(sentence)});
}

/// Keeps a cached range until the copy that uses it has ended.
struct CachedUse {
    std::shared_ptr<HostRange> range;
    Mover::Done done;
    void *user;
};

} // namespace

void Mover::settle() {
    for (const auto &engine : m_engines)
        engine->settle();
}

void Mover::abandon() {
    m_abandoned = true;
    m_stager.abandon();
}

// ---- both ends ------------------------------------------------------------------------------------------------------

inline bool Mover::find(std::uint64_t address, std::uint64_t length, Place &place) const {
    place.address = address;
    // A mapping that has ended meanwhile has another generation.
    if (m_last && m_last.contains(address, length) && m_last.is_current()) [[likely]] {
        place.session = &m_last_engine->session();
        place.engine = m_last_engine;
        place.flush = m_last.region().needs_flush();
        return place.session->usable() && !m_last_engine->failed();
    }
    return !m_mappings.find(address) && !m_cards.is_card_address(address);
}

inline bool Mover::find_ends(std::uint64_t destination, std::uint64_t source, std::uint64_t length, Ends &ends) const {
    return find(destination, length, ends.destination) && find(source, length, ends.source) &&
           (ends.destination.session || ends.source.session);
}

Result<void> Mover::locate(std::uint64_t address, std::uint64_t length, Place &place) {
    place = {address, nullptr, nullptr, false};
    const Resolved found = resolve(m_cards, address, length);
    if (!found) {
        if (const auto lost = LostMemory::get().find(address))
            return tl::unexpected(lost->card.error_lost());
        if (m_cards.is_card_address(address))
            return refuse(EINVAL, os::format("{:#x} is in no mapping of Gaudi memory: it was freed, or is on a card "
                                             "that this process does not have "
                                             "open",
                                             address));
        return {}; // host memory
    }
    Session &session = found.session();
    const bool contained = found.contains(address, length);
    found.region().expect_foreign_writes();
    place.flush = found.region().needs_flush();
    const bool reusable = found.region().origin() != Region::Origin::probed;
    if (!found.is_current())
        return refuse(
            EINVAL,
            os::format(
                "the Gaudi memory at {:#x} was unmapped during the call: free memory after its copies have ended",
                address));
    if (!contained)
        return refuse(EINVAL, os::format("{:#x}..{:#x} reaches beyond the mapping of Gaudi memory that it begins in",
                                         address, address + length));
    const auto engine = start_engine(session);
    if (!engine)
        return tl::unexpected(engine.error());
    place.session = &session;
    place.engine = *engine;
    if (reusable) { // a probed mapping is confirmed at each copy
        m_last = found;
        m_last_engine = *engine;
    }
    return {};
}

Result<void> Mover::locate_ends(std::uint64_t destination, std::uint64_t source, std::uint64_t length, Ends &ends) {
    drop_ended_engines();
    if (auto located = locate(destination, length, ends.destination); !located)
        return located;
    if (auto located = locate(source, length, ends.source); !located)
        return located;
    if (!ends.destination.session && !ends.source.session)
        return refuse(ENOTSUP,
                      os::format("cards copy to and from Gaudi memory only, and neither the destination {:#x} nor the "
                                 "source {:#x} is Gaudi memory: use memcpy",
                                 destination, source));
    return {};
}

/// The engine of the session, of which this mover keeps a share.
Result<Engine *> Mover::start_engine(Session &session) {
    EngineSlot &slot = session.get<EngineSlot>();
    for (const auto &known : m_engines) // mostly it was used before
        if (known.get() == slot.started() && session.usable() && !known->failed())
            return known.get();
    const auto started = slot.start();
    if (!started)
        return tl::unexpected(started.error());
    Engine *engine = started->get();
    if (const Failure failure = engine->failed() ? engine->failure() : nullptr)
        return refuse(failure->code == ENOTSUP ? ENOTSUP : EIO,
                      os::format("card {} takes no copies: {}", session.card().bus_id(), failure->text));
    if (std::find(m_engines.begin(), m_engines.end(), *started) == m_engines.end()) {
        m_engines.push_back(*started);
    }
    return engine;
}

/// Engines of sessions that have ended are freed with their last user. Staged copies and the ends of a copy point to their
/// engines: none may be under way, and no end may be located yet.
void Mover::drop_ended_engines() {
    if (!m_stager.idle() || !m_short_stager.idle())
        return;
    m_last = {};
    std::erase_if(m_engines, [](const std::shared_ptr<Engine> &engine) {
        if (engine->session().usable() || engine->session().inherited() || engine->busy())
            return false;
        engine->settle();
        return true;
    });
}

// ---- posting --------------------------------------------------------------------------------------------------------

Result<Mover::Posted> Mover::post(const Operation &operation) {
    if (operation.length == 0)
        return Posted::done;
    Ends ends;
    if (!find_ends(operation.destination, operation.source, operation.length, ends))
        if (auto located = locate_ends(operation.destination, operation.source, operation.length, ends); !located) {
            count_up(counters().refused_copies);
            return tl::unexpected(located.error());
        }
    // Mostly one end is registered host memory that is mapped already.
    const bool up = ends.source.session != nullptr;
    HostRange *range = operation.range;
    if (range && !(up && ends.destination.session)) {
        const Place &card = up ? ends.source : ends.destination;
        const std::uint64_t host = up ? operation.destination : operation.source;
        if (range->contains(host, operation.length)) {
            range->hold();
            if (const std::uint64_t mapped = range->find(*card.session, host)) [[likely]] {
                if (up)
                    start(*card.engine, Direction::up, Path::up, mapped, operation.source, operation, range,
                          card.flush);
                else
                    start(*card.engine, Direction::down, Path::down, operation.destination, mapped, operation, range,
                          false);
                return Posted::started;
            }
            range->release();
        }
    }
    auto posted = post_slowly(operation, ends);
    if (!posted)
        count_up(counters().refused_copies);
    return posted;
}

Result<Mover::Posted> Mover::post_slowly(const Operation &operation, const Ends &ends) {
    Session *from = ends.source.session, *to = ends.destination.session;
    bool posted = false;
    if (from && to && from != to) {
        posted = post_between_cards(operation, ends);
    } else if (!operation.range && operation.length < kStageBelow && !(from && to)) {
        posted = post_bounced(operation, ends);
    } else {
        const auto tried = post_on_one_card(operation, ends);
        if (!tried)
            return tl::unexpected(tried.error());
        posted = *tried;
    }
    if (posted)
        return Posted::started;
    return m_stager.post(ends.destination, ends.source, operation.length, operation.done, operation.user).map([] {
        return Posted::started;
    });
}

inline void Mover::start(Engine &engine, Direction direction, Path path, std::uint64_t destination,
                         std::uint64_t source, const Operation &operation, HostRange *range, bool flush) {
    Transfer *transfer = m_channel.take();
    transfer->path = path;
    transfer->source = source;
    transfer->destination = destination;
    transfer->length = operation.length;
    transfer->flush = flush;
    transfer->copies = range ? &range->copies() : nullptr;
    transfer->user = operation.user;
    transfer->callback = operation.done;
    transfer->done = [](Transfer &ended) { ended.callback(ended.user, ended.failure.get()); };
    engine.post(direction, *transfer); // if the engine has failed meanwhile, the end says so
}

/// By the source's own engine into the other card, where the driver imports its memory: PCIe writes are faster than reads.
bool Mover::post_between_cards(const Operation &operation, const Ends &ends) {
    Session &from = *ends.source.session;
    if (from.refuses_imports())
        return false;
    const Resolved to = resolve(m_cards, operation.destination, operation.length);
    HostRange *import = to ? to.region().hold_import(m_cards.all().size()) : nullptr;
    if (!import)
        return false;
    const auto mapped = import->map(from, operation.destination);
    if (!mapped) {
        if (import->is_refused(from))
            from.note_refused_import();
        import->release();
        return false;
    }
    to.region().note_peer_write();
    start(*ends.source.engine, Direction::up, Path::to_card, *mapped, operation.source, operation, import,
          ends.source.flush);
    return true;
}

/// One copy by one card.
Result<bool> Mover::post_on_one_card(const Operation &operation, const Ends &ends) {
    if (ends.source.session && ends.destination.session) {
        start(*ends.source.engine, Direction::on_card, Path::within_card, operation.destination, operation.source,
              operation, nullptr, ends.source.flush);
        return true;
    }
    const bool up = ends.source.session != nullptr;
    const std::uint64_t host = up ? operation.destination : operation.source;
    HostRange *range = operation.range;
    if (range && range->contains(host, operation.length))
        return post_mapped(operation, ends);
    if (range && range->is_dmabuf())
        return refuse(EXDEV, os::format("{} bytes at {:#x} are not inside the memory that was registered by a dma-buf",
                                        operation.length, host));
    return operation.length < kStageBelow ? post_bounced(operation, ends) : post_cached(operation, ends);
}

/// With a registered range.
Result<bool> Mover::post_mapped(const Operation &operation, const Ends &ends) {
    const bool up = ends.source.session != nullptr;
    const Place &card = up ? ends.source : ends.destination;
    HostRange &range = *operation.range;
    if (card.engine->worth_mapping() == Engine::kNeverMapped && !range.is_dmabuf())
        return operation.length < kStageBelow && post_bounced(operation, ends);
    // A registration may serve one copy only, so a first one that is not worth a mapping is staged. Only in the direction
    // down: bytes that come up would reach the user's memory after its registration may have ended.
    if (!up && operation.length < card.engine->worth_mapping() && !range.is_dmabuf() &&
        !range.is_worth_mapping(*card.session))
        return operation.length < kStageBelow && post_bounced(operation, ends);
    range.hold();
    const std::uint64_t host = up ? operation.destination : operation.source;
    const bool known = range.find(*card.session, host) != 0;
    const auto mapped = range.map(*card.session, host);
    if (!mapped) {
        range.release();
        if (range.is_dmabuf()) // the processor cannot stage it
            return refuse(EXDEV, os::format("card {} cannot reach memory that was registered by a dma-buf: {}",
                                            card.session->card().bus_id(), mapped.error().text));
        return false;
    }
    if (up)
        start(*card.engine, Direction::up, known ? Path::up : Path::up_mapped, *mapped, operation.source, operation,
              &range, ends.source.flush);
    else
        start(*card.engine, Direction::down, known ? Path::down : Path::down_mapped, operation.destination, *mapped,
              operation, &range, false);
    return true;
}

/// With unregistered host memory: mapped now, and kept so for the next time.
bool Mover::post_cached(const Operation &operation, const Ends &ends) {
    const bool up = ends.source.session != nullptr;
    const Place &card = up ? ends.source : ends.destination;
    const std::uint64_t host = up ? operation.destination : operation.source;
    if (card.engine->worth_mapping() == Engine::kNeverMapped)
        return false;
    auto cached = HostCache::get().find(host, operation.length, m_cards.all().size(), card.engine->worth_mapping());
    if (!cached)
        return false;
    cached->hold();
    const bool known = cached->find(*card.session, host) != 0;
    const auto mapped = cached->map(*card.session, host);
    if (!mapped) {
        cached->release();
        return false;
    }
    HostRange *range = cached.get();
    Operation kept = operation;
    kept.user = new CachedUse{std::move(cached), operation.done, operation.user};
    kept.done = [](void *user, const Error *error) {
        const std::unique_ptr<CachedUse> use(static_cast<CachedUse *>(user));
        use->done(use->user, error);
    };
    const Path path = up ? (known ? Path::up : Path::up_mapped) : (known ? Path::down : Path::down_mapped);
    start(*card.engine, up ? Direction::up : Direction::down, path, up ? *mapped : operation.destination,
          up ? operation.source : *mapped, kept, range, ends.source.flush);
    return true;
}

/// A few bytes of unregistered host memory: through the ring, in one piece.
bool Mover::post_bounced(const Operation &operation, const Ends &ends) {
    if (m_bounces.empty()) {
        if (!m_ring.set_up(m_cards.all().size()))
            return false;
        m_bounces.resize(BounceRing::kSlices);
    }
    const bool up = ends.source.session != nullptr;
    const Place &card = up ? ends.source : ends.destination;
    const auto slice = m_stager.idle() ? m_ring.take(operation.length) : std::nullopt; // after the copies that wait
    if (!slice)
        return false;
    const auto mapped = m_ring.map(*card.session, *slice);
    if (!mapped) {
        m_ring.release(*slice);
        return false;
    }
    if (!up)
        std::memcpy(m_ring.memory(*slice), reinterpret_cast<const void *>(operation.source), operation.length);
    Bounce &bounce = m_bounces[*slice];
    bounce = {this,
              operation.done,
              operation.user,
              up ? reinterpret_cast<void *>(operation.destination) : nullptr,
              operation.length,
              *slice};
    Transfer *transfer = m_channel.take();
    transfer->path = up ? Path::staged_up : Path::staged_down;
    transfer->source = up ? operation.source : *mapped;
    transfer->destination = up ? *mapped : operation.destination;
    transfer->length = operation.length;
    transfer->flush = ends.source.flush;
    transfer->user = &bounce;
    transfer->done = [](Transfer &ended) {
        const Bounce bounced = *static_cast<Bounce *>(ended.user); // the callback may post into the same slice
        Mover &mover = *bounced.mover;
        if (bounced.destination && !ended.failure && !mover.m_abandoned)
            std::memcpy(bounced.destination, mover.m_ring.memory(bounced.slice), bounced.length);
        if (ended.abandoned)
            mover.m_ring.abandon(bounced.slice);
        else
            mover.m_ring.release(bounced.slice);
        bounced.done(bounced.user, ended.failure.get());
    };
    card.engine->post(up ? Direction::up : Direction::down, *transfer);
    return true;
}

// ---- blocking copies ------------------------------------------------------------------------------------------------

Result<void> Mover::copy_now(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
    if (length == 0)
        return {};
    Ends ends;
    if (!find_ends(destination, source, length, ends))
        if (auto located = locate_ends(destination, source, length, ends); !located) {
            count_up(counters().refused_copies);
            return located;
        }
    Failure failure = copy_once(ends, length);
    // UCP ends the process when this fails: one refused submission on an operational card is no reason yet.
    const auto failed = [](const Place &place) { return place.engine && place.engine->failed(); };
    if (failure && !failed(ends.destination) && !failed(ends.source))
        failure = copy_once(ends, length);
    if (failure) {
        count_up(counters().refused_copies);
        return tl::unexpected(*failure);
    }
    return {};
}

Failure Mover::copy_once(const Ends &ends, std::uint64_t length) {
    struct State {
        bool ended = false;
        Failure failure;
    } state;
    if (ends.source.session && ends.source.session == ends.destination.session) {
        Transfer *transfer = m_short_channel.take();
        transfer->path = Path::within_card;
        transfer->source = ends.source.address;
        transfer->destination = ends.destination.address;
        transfer->length = length;
        transfer->flush = ends.source.flush;
        transfer->user = &state;
        transfer->done = [](Transfer &ended) { *static_cast<State *>(ended.user) = {true, ended.failure}; };
        ends.source.engine->post(Direction::on_card, *transfer);
    } else {
        const auto done = [](void *user, const Error *error) {
            *static_cast<State *>(user) = {true, error ? std::make_shared<const Error>(*error) : nullptr};
        };
        if (auto posted = m_short_stager.post(ends.destination, ends.source, length, done, &state); !posted)
            return std::make_shared<const Error>(posted.error());
    }
    constexpr unsigned kSpins = 2000; // longer than a card takes; after that another thread may use the core better
    for (unsigned spins = 0; !state.ended; ++spins) {
        for (const auto &engine : m_engines)
            engine->progress();
        m_short_channel.dispatch();
        if (!m_short_stager.idle())
            m_short_stager.pump();
        if (spins >= kSpins)
            for (const Place *place : {&ends.destination, &ends.source})
                if (place->engine && place->engine->busy())
                    place->engine->wait();
    }
    return state.failure;
}

// ---- progress -------------------------------------------------------------------------------------------------------

unsigned Mover::progress() {
    for (const auto &engine : m_engines)
        engine->progress();
    const unsigned count = m_channel.dispatch();
    if (!m_stager.idle())
        m_stager.pump();
    return count;
}

bool Mover::arm(int event_fd) {
    if (m_stager.has_ended() || !m_channel.arm(event_fd))
        return false;
    for (const auto &engine : m_engines)
        if (engine->busy())
            engine->arm();
    return true;
}

} // namespace gaudi
