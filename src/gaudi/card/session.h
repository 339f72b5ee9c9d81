// SPDX-License-Identifier: BSD-3-Clause
// One open device context of a card, from open to close. All that lives on the open card belongs to its session: the
// descriptor, the arena, foreign mappings, host mappings and the engine. Work holds a Session * and asks usable(). A
// session is retired when the card is closed and never freed, because readers hold such pointers without a lock.
#pragma once

#include "card_identity.h"
#include "gaudi/counters/counters.h"
#include "lock_ranks.h"
#include "os/mutex.h"
#include "result.h"
#include "thunk/owners.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gaudi {

class Card;

/// A part of a session that ends with it. The rooms above this one define the parts.
class SessionPart {
public:
    SessionPart() = default;
    virtual ~SessionPart() = default;
    SessionPart(const SessionPart &) = delete;
    SessionPart &operator=(const SessionPart &) = delete;

    /// The card is about to be closed. The part takes no more work, and ends or fails the work under way.
    virtual void stop(const Error &) {}
    /// Gives back what the part holds on the card. All parts have stopped.
    virtual void release() = 0;
    /// Moves work under way on, for a caller that waits for it to end.
    virtual void progress() {}
};

/// Parts stop in this order and are released in the reverse one: memory is unmapped only after copies have ended.
enum class PartKind : unsigned { engine, host, arena, framework_memory, foreign };
inline constexpr std::size_t kPartKinds = 5;

class Session {
public:
    enum class Origin { own, adopted };

    /// `device` is a descriptor of this session alone: the one that was opened, or a duplicate of the framework's.
    /// `notifier` is for an own session; the reason where the driver or the library has none.
    Session(Card &card, const CardIdentity &identity, const thunk::Device &device, Origin origin,
            Result<thunk::Notifier> notifier = {});
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    Card &card() const { return m_card; }
    const thunk::Device &device() const { return m_device; }
    /// What this process counts on the card, over all sessions.
    CardCounters &counters() const { return m_counters; }
    /// Whether the framework or the program opened the card, not this library.
    bool adopted() const { return m_origin == Origin::adopted; }

    /// Whether work may start on the session and results of it may be published: the card is open, and this process is the
    /// one that opened it. False for ever once it is false.
    bool usable() const { return m_state.load(std::memory_order_acquire) == State::open; }
    /// Whether the session belongs to the process that this one was forked off.
    bool inherited() const { return m_state.load(std::memory_order_acquire) == State::inherited; }
    /// Whether the teardown is over: nothing of the session may be given back to the driver any more.
    bool ended() const { return m_state.load(std::memory_order_acquire) == State::ended; }
    /// Why usable() is false.
    Error why_unusable() const;

    /// The part of this type; null where there is none yet.
    template <class Part>
    Part *find() const {
        return static_cast<Part *>(m_found[index(Part::kKind)].load(std::memory_order_acquire));
    }
    /// The part of this type, made at the first call.
    template <class Part>
    Part &get() {
        if (Part *found = find<Part>())
            return *found;
        const os::MutexLock lock(m_parts_mutex);
        std::unique_ptr<SessionPart> &part = m_parts[index(Part::kKind)];
        if (!part) {
            part = std::make_unique<Part>(*this);
            m_found[index(Part::kKind)].store(part.get(), std::memory_order_release);
        }
        return static_cast<Part &>(*part);
    }

    /// Moves work of all parts on.
    void progress() const {
        for (const auto &part : m_found)
            if (SessionPart *made = part.load(std::memory_order_acquire))
                made->progress();
    }

    // ---- events of the card
    /// Becomes readable when the driver reports an event; -1 for a session without a notifier, and once it has ended.
    int event_descriptor() const { return m_event_descriptor.load(std::memory_order_acquire); }
    /// Takes the events that the driver has reported; whether this or an earlier call has found that the card is lost, and
    /// then event_descriptor() stays readable. Costs one poll(2) where there is no event.
    bool check_events();
    /// Whether the card is being reset, or gone, as far as the driver has reported: the descriptor must be closed, and nothing
    /// can be given back or will end by itself any more.
    bool card_lost() const { return m_card_lost.load(std::memory_order_acquire); }
    /// Why an own session has no notifier; empty where it has one.
    const std::string &why_no_events() const { return m_why_no_events; }
    /// The state of the card, as far as the driver says. A shortage inside the driver says nothing against the card.
    bool is_operational() const;
    /// Whether the card was reset since the session began. Only for an adopted session, whose framework has the notifier.
    bool was_reset() const;

    /// Whether the driver exports this card's memory: probed with the first mapping.
    enum class Exports { unknown, yes, no };
    Exports exports() const { return m_exports.load(std::memory_order_acquire); }
    /// Records a probe; the first one that tells decides.
    /// `length` is that of the mapping whose export was probed.
    void set_exports(const Result<void> &probed, std::uint64_t length);
    /// The longest mapping that the driver has exported, and the shortest that it has refused.
    std::uint64_t longest_export() const { return m_longest_export.load(std::memory_order_acquire); }
    std::uint64_t shortest_refusal() const { return m_shortest_refusal.load(std::memory_order_acquire); }
    /// The driver's refusal, once exports() is no.
    std::string why_no_exports() const;

    /// Whether the driver has refused to import another card's memory: it would refuse the next time too.
    bool refuses_imports() const { return m_refuses_imports.load(std::memory_order_relaxed); }
    void note_refused_import() { m_refuses_imports.store(true, std::memory_order_relaxed); }

private:
    friend class Card;
    enum class State { open, retired, ended, inherited };

    static std::size_t index(PartKind kind) { return static_cast<std::size_t>(kind); }
    void retire() {
        State open = State::open; // not an inherited one
        m_state.compare_exchange_strong(open, State::retired, std::memory_order_acq_rel);
    }
    void inherit() { m_state.store(State::inherited, std::memory_order_release); }
    /// The one teardown. The session is retired.
    void end(const Error &why);
    void release_notifier();

    Card &m_card;
    const CardIdentity &m_identity;
    const thunk::Device m_device;
    CardCounters &m_counters;
    const Origin m_origin;
    const std::optional<std::uint64_t> m_resets; // of an adopted card, when the session began
    const std::string m_why_no_events;
    std::atomic<State> m_state{State::open};

    os::Mutex m_events_mutex{rank::kCardEvents}; // one thread takes events
    thunk::Notifier m_notifier GAUDI_GUARDED_BY(m_events_mutex);
    std::atomic<int> m_event_descriptor{-1};
    std::atomic<bool> m_card_lost{false};

    std::array<std::atomic<SessionPart *>, kPartKinds> m_found{};
    os::Mutex m_parts_mutex{rank::kSessionParts};
    std::array<std::unique_ptr<SessionPart>, kPartKinds> m_parts GAUDI_GUARDED_BY(m_parts_mutex);

    std::atomic<Exports> m_exports{Exports::unknown};
    std::atomic<std::uint64_t> m_longest_export{0}, m_shortest_refusal{UINT64_MAX};
    std::atomic<bool> m_refuses_imports{false};
    mutable os::Mutex m_refusal_mutex{rank::kRefusal};
    std::string m_why_no_exports GAUDI_GUARDED_BY(m_refusal_mutex);
};

} // namespace gaudi
