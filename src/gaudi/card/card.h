// SPDX-License-Identifier: BSD-3-Clause
// One card of this machine: its identity, one state, and its current session. A card is known from its control node
// alone. It is opened at the first allocation or copy that needs it, once per process, and kept until exit, because
// closing a card resets it. Where a framework or the program has it open already, that context is adopted.
#pragma once

#include "card_identity.h"
#include "lock_ranks.h"
#include "os/mutex.h"
#include "result.h"
#include "session.h"
#include "thunk/fd.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace gaudi {

class OpenWait;

/// Notified of the sessions of cards, with no lock of the card held.
class CardListener {
public:
    virtual ~CardListener() = default;
    /// An own session has begun: close_if_lost() is to be called when its event_descriptor(), if any, is readable.
    virtual void session_began(Session &session) = 0;
    /// The session is retired, and its notifier is about to be released.
    virtual void session_ending(Session &session) = 0;
    /// The framework has closed a card that was adopted from it.
    virtual void card_closed(const Card &card) = 0;
    /// The own session has ended because the driver resets the card.
    virtual void card_lost(const Card &card) = 0;
};

class Card : public CardIdentity {
public:
    Card(CardIdentity identity, OpenWait &wait) : CardIdentity(std::move(identity)), m_wait(wait) {}
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    // ---- state
    enum class State {
        closed,
        opening, // one thread is in the driver's open; nothing is adopted meanwhile
        own,     // opened by this library
        adopted, // opened by the framework or the program; this library has a duplicate of the descriptor
        closing, // the session ends; a new one begins only after that
    };
    State state() const { return m_state.load(std::memory_order_acquire); }
    /// The session, from open to close; null before and after.
    Session *session() const { return m_session.load(std::memory_order_acquire); }
    bool is_open() const { return session() != nullptr; }
    /// Whether the card was opened before this process was forked off: then it is the parent's.
    bool inherited() const {
        const Session *current = session();
        return current && current->inherited();
    }

    /// Opens the card at the first call, or adopts it. Waits for a card in reset within the limit that all cards share
    /// (OpenWait), with no lock held; does not wait for a card in use by another process.
    Result<Session *> open();
    /// As open(), but a card in reset is refused with EAGAIN.
    Result<Session *> try_open();
    /// The session of a card that this process holds already: the current one, or an adopted one. Null where there is
    /// none, and while a thread opens or closes the card: never waits for either.
    Session *find_session();
    /// The same where the process holds the card by the descriptor `fd`.
    Session *find_session(int fd);

    /// Ends the own session and returns a descriptor of the card for the caller: for a framework that would be refused a
    /// card which this library holds. `vacate` gives back what the session holds unused, and refuses with an error while
    /// anything is in use. -1 where there is no own session.
    using Vacate = Result<void> (*)(Session &session);
    Result<int> hand_over(Vacate vacate);

    enum class CloseResult { owner_still_holds, kept_by_us, released };
    /// The framework is about to close its descriptor `fd`. With its last one the adopted session ends here, before the
    /// descriptor does. Until after_close() nothing is adopted through `fd`.
    CloseResult before_close(int fd);
    void after_close(int fd);
    /// Ends an adopted session whose framework has closed the card unseen; whether it was so.
    bool release_if_owner_closed();

    /// Ends the own session where the driver has reported that it resets the card or has lost it; whether it was so. The
    /// driver kills a process that keeps such a card open. From any thread.
    bool close_if_lost();

    /// In a forked child, at once: the session is the parent's.
    void mark_inherited() {
        if (Session *current = session())
            current->inherit();
    }
    void set_listener(CardListener *listener) { m_listener.store(listener, std::memory_order_release); }

private:
    Result<Session *> open_device();
    Session *begin(const thunk::Device &device, Session::Origin origin, Result<thunk::Notifier> notifier = {})
        GAUDI_REQUIRES(m_mutex);
    void prepare_release() GAUDI_REQUIRES(m_mutex);
    Session *adopt(int fd) GAUDI_REQUIRES(m_mutex);
    Session *adopt_any() GAUDI_REQUIRES(m_mutex);
    void set_state(State state) GAUDI_REQUIRES(m_mutex) { m_state.store(state, std::memory_order_release); }
    void begin_closing(Session &session) GAUDI_REQUIRES(m_mutex);
    void end_session(Session &session, const Error &why) GAUDI_EXCLUDES(m_mutex);
    Result<void> release_descriptor(const Session &session) GAUDI_REQUIRES(m_mutex);

    OpenWait &m_wait;
    std::atomic<State> m_state{State::closed};
    std::atomic<Session *> m_session{nullptr};
    std::atomic<CardListener *> m_listener{nullptr};
    os::Mutex m_mutex{rank::kCard}; // never held while a card is opened or a session ends
    os::CondVar m_opened;           // no thread is in the driver's open any more
    std::vector<std::unique_ptr<Session>> m_sessions GAUDI_GUARDED_BY(m_mutex); // all there ever were
    std::vector<int> m_being_closed GAUDI_GUARDED_BY(m_mutex);                  // descriptors of the framework
    thunk::Fd m_null GAUDI_GUARDED_BY(m_mutex); // takes the number of a session's descriptor when the session ends
    static constexpr std::size_t kParked = 8;
    std::vector<thunk::Fd>
        m_parked GAUDI_GUARDED_BY(m_mutex); // such numbers; the oldest is given free after kParked closes
};

} // namespace gaudi
