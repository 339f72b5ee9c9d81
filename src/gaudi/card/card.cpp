// SPDX-License-Identifier: BSD-3-Clause
#include "card.h"

#include "adoption.h"
#include "open_wait.h"
#include "os/format.h"
#include "thunk/owners.h"
#include "thunk/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gaudi {

// ---- opening --------------------------------------------------------------------------------------------------------

Result<Session *> Card::open() {
    auto session = try_open();
    OpenWait::Turn turn(m_wait);
    while (!session && session.error().code == EAGAIN && turn.pause("card " + bus_id()))
        session = try_open();
    if (session)
        turn.succeeded();
    return session;
}

Result<Session *> Card::try_open() {
    if (inherited()) // before any lock: in a forked child the thread that holds it may not exist
        return tl::unexpected(error_inherited());
    close_if_lost();
    {
        const os::MutexLock lock(m_mutex);
        while (state() == State::opening)
            m_opened.wait(m_mutex);
        if (state() == State::closing)
            return tl::unexpected(session()->card_lost() ? error_in_reset() : error_closed());
        if (Session *current = session())
            return current;
        if (Session *adopted = adopt_any())
            return adopted;
        set_state(State::opening);
    }
    return open_device();
}

/// Without the lock: a driver may take seconds to open a card, and detection asks find_session() meanwhile.
Result<Session *> Card::open_device() {
    Result<thunk::DeviceFd> device = tl::unexpected(Error{});
    try {
        device = thunk::DeviceFd::open(library(), bus_id());
    } catch (...) {
        const os::MutexLock lock(m_mutex);
        set_state(State::closed);
        m_opened.notify_all();
        throw;
    }
    Result<thunk::Notifier> notifier; // without the lock too
    if (device)
        notifier = thunk::create_notifier(device->get());
    Session *session = nullptr;
    {
        const os::MutexLock lock(m_mutex);
        set_state(State::closed);
        m_opened.notify_all();
        if (device) {
            prepare_release();
            session = begin(device->get(), Session::Origin::own, std::move(notifier));
            device->detach(); // the session has it
        }
    }
    if (session) {
        if (CardListener *listener = m_listener.load(std::memory_order_acquire))
            listener->session_began(*session);
        return session;
    }
    if (device.error().code == EBUSY)
        return tl::unexpected(thunk::make_error(EBUSY, "hlthunk_open", bus_id(),
                                                os::format("card {} (module {}) is in use, and a card serves one user "
                                                           "at a time; `ucx_gaudi info` names the process",
                                                           number(), module_id())));
    return tl::unexpected(device.error());
}

Session *Card::begin(const thunk::Device &device, Session::Origin origin, Result<thunk::Notifier> notifier) {
    Session *session =
        m_sessions.emplace_back(std::make_unique<Session>(*this, *this, device, origin, std::move(notifier))).get();
    m_session.store(session, std::memory_order_release);
    set_state(origin == Session::Origin::own ? State::own : State::adopted);
    return session;
}

// ---- a card that the framework opened -------------------------------------------------------------------------------

Session *Card::find_session() {
    if (inherited())
        return nullptr;
    if (state() == State::own) // when that changes meanwhile, the session is not usable
        return session();
    const os::MutexLock lock(m_mutex);
    switch (state()) {
    case State::closed:
        return adopt_any();
    case State::own:
    case State::adopted:
        return session();
    case State::opening:
    case State::closing:
        break;
    }
    return nullptr;
}

Session *Card::find_session(int fd) {
    if (inherited())
        return nullptr;
    if (Session *current = session(); current && current->usable())
        return current;
    const os::MutexLock lock(m_mutex);
    if (state() == State::closed)
        return adopt(fd);
    return state() == State::own || state() == State::adopted ? session() : nullptr;
}

Session *Card::adopt_any() {
    const int fd = find_descriptor(*this, m_being_closed).value_or(-1);
    return fd < 0 ? nullptr : adopt(fd);
}

Session *Card::adopt(int fd) {
    if (std::find(m_being_closed.begin(), m_being_closed.end(), fd) != m_being_closed.end())
        return nullptr;
    thunk::Fd duplicate(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    prepare_release();
    if (!duplicate || !m_null ||
        !is_compute_node(*this, duplicate.get()).value_or(false)) // it may have been closed meanwhile
        return nullptr;
    return begin(thunk::Device(library(), duplicate.detach()), Session::Origin::adopted);
}

Card::CloseResult Card::before_close(int fd) {
    if (inherited()) // the session is the parent's to end
        return CloseResult::owner_still_holds;
    Session *adopted = nullptr;
    {
        const os::MutexLock lock(m_mutex);
        m_being_closed.push_back(fd);
        if (state() == State::own)
            return CloseResult::kept_by_us;
        std::vector<int> except = m_being_closed;
        if (const Session *current = session())
            except.push_back(current->device().fd());
        if (find_descriptor(*this, except) != -1)
            return CloseResult::owner_still_holds;
        if (state() == State::adopted) {
            adopted = session();
            begin_closing(*adopted);
        }
    }
    if (adopted)
        end_session(*adopted, error_closed());
    return CloseResult::released;
}

void Card::after_close(int fd) {
    const os::MutexLock lock(m_mutex);
    std::erase(m_being_closed, fd);
}

bool Card::release_if_owner_closed() {
    if (inherited())
        return false;
    Session *adopted = nullptr;
    {
        const os::MutexLock lock(m_mutex);
        if (state() != State::adopted)
            return false;
        adopted = session();
        if (find_descriptor(*this, {adopted->device().fd()}) != -1)
            return false;
        begin_closing(*adopted);
    }
    end_session(*adopted, error_closed());
    return true;
}

Result<int> Card::hand_over(Vacate vacate) {
    Session *own = nullptr;
    thunk::Fd handed_over;
    {
        const os::MutexLock lock(m_mutex);
        if (state() != State::own || inherited())
            return -1;
        own = session();
        if (find_descriptor(*this, {own->device().fd()}) != -1)
            return -1; // the program has a descriptor of it already
        prepare_release();
        handed_over = thunk::Fd(fcntl(own->device().fd(), F_DUPFD_CLOEXEC, 0));
        if (!handed_over || !m_null)
            return tl::unexpected(thunk::from_minus_one(errno, "fcntl", bus_id()));
    }
    if (const Result<void> vacated = vacate(*own); !vacated) // without the lock, which comes after those of the parts
        return tl::unexpected(vacated.error());
    {
        const os::MutexLock lock(m_mutex);
        if (state() != State::own || session() != own)
            return -1;
        begin_closing(*own);
    }
    end_session(*own, error_closed());
    return handed_over.detach();
}

bool Card::close_if_lost() {
    if (inherited() || state() != State::own)
        return false;
    Session *own = nullptr;
    {
        const os::MutexLock lock(m_mutex);
        if (state() != State::own || !session()->check_events())
            return false;
        own = session();
        begin_closing(*own);
    }
    end_session(*own, error_lost());
    return true;
}

// ---- teardown -------------------------------------------------------------------------------------------------------

/// From here on no caller gets the session, and those that have it see that it is not usable.
void Card::begin_closing(Session &session) {
    set_state(State::closing);
    session.retire();
}

void Card::end_session(Session &session, const Error &why) {
    CardListener *listener = m_listener.load(std::memory_order_acquire);
    if (listener)
        listener->session_ending(session);
    session.end(why);
    const bool lost = session.card_lost() || session.was_reset(); // while the descriptor is still the card's
    {
        const os::MutexLock lock(m_mutex);
        if (const Result<void> released = release_descriptor(session); !released)
            thunk::report(released.error());
        m_session.store(nullptr, std::memory_order_release);
        set_state(State::closed);
    }
    if (listener && session.adopted())
        listener->card_closed(*this);
    else if (listener && session.card_lost())
        listener->card_lost(*this);
    if (lost)
        count_up(session.counters().resets);
}

/// Made while the card is open: when the session ends there may be no descriptor left, nor memory.
void Card::prepare_release() {
    if (!m_null)
        m_null = thunk::Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    m_parked.reserve(kParked + 1);
}

/// The number stays taken, by /dev/null: a thread may be about to call on it, and must not reach the descriptor that would
/// get the number next.
Result<void> Card::release_descriptor(const Session &session) {
    const int fd = session.device().fd();
    if (!m_null) // the process has no descriptor left: the card must be closed all the same
        return session.device().close();
    if (dup3(m_null.get(), fd, O_CLOEXEC) < 0)
        return tl::unexpected(thunk::from_minus_one(errno, "dup3", std::to_string(fd)));
    m_parked.emplace_back(fd);
    if (m_parked.size() > kParked)
        m_parked.erase(m_parked.begin());
    return {};
}

} // namespace gaudi
