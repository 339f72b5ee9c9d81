// SPDX-License-Identifier: BSD-3-Clause
#include "session.h"

#include "gaudi/counters/counter_page.h"
#include "thunk/fd.h"
#include "thunk/report.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

namespace gaudi {
namespace {

std::optional<std::uint64_t> count_resets(const thunk::Device &device) {
    const auto count = device.reset_count();
    return count ? std::optional(std::uint64_t{count->hard_reset_count} + count->soft_reset_count) : std::nullopt;
}

/// The entry of the card, published at the first session of the process. Cards beyond the last entry share one.
CardCounters &find_counters(const CardIdentity &card) {
    static constinit CardCounters s_unpublished;
    publish_counters(card.library().version().value_or(""));
    if (card.slot() >= CounterPage::kCards)
        return s_unpublished;
    CardCounters &entry = counters().cards[card.slot()];
    if (value_of(entry.sessions) == 0) { // else a thread may be reading it
        entry.bus_id[card.bus_id().copy(entry.bus_id.data(), entry.bus_id.size() - 1)] = '\0';
        entry.module_id = card.module_id();
        entry.memory_total_bytes = card.info().dram_size;
    }
    entry.sessions.fetch_add(1, std::memory_order_release);
    return entry;
}

} // namespace

Session::Session(Card &card, const CardIdentity &identity, const thunk::Device &device, Origin origin,
                 Result<thunk::Notifier> notifier)
    : m_card(card), m_identity(identity), m_device(device), m_counters(find_counters(identity)), m_origin(origin),
      m_resets(origin == Origin::adopted ? count_resets(device) : std::nullopt),
      m_why_no_events(notifier ? "" : notifier.error().text) {
    const os::MutexLock lock(m_events_mutex);
    if (!notifier || !*notifier)
        return;
    m_notifier = std::move(*notifier);
    // The library reads with a blocking call; a signal that another call has taken must not keep it waiting.
    fcntl(m_notifier.get(), F_SETFL, fcntl(m_notifier.get(), F_GETFL) | O_NONBLOCK);
    m_event_descriptor.store(m_notifier.get(), std::memory_order_release);
}

Error Session::why_unusable() const {
    if (inherited())
        return m_identity.error_inherited();
    return card_lost() ? m_identity.error_lost() : m_identity.error_closed();
}

bool Session::check_events() {
    constexpr std::uint64_t kLost = HL_NOTIFIER_EVENT_DEVICE_RESET | HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE;
    if (card_lost() || adopted() || inherited())
        return card_lost();
    const os::MutexLock lock(m_events_mutex);
    if (card_lost()) // another thread has taken the event meanwhile
        return true;
    std::optional<std::uint64_t> events;
    if (m_notifier) {
        pollfd ready{m_notifier.get(), POLLIN, 0};
        if (poll(&ready, 1, 0) <= 0)
            return false;
        if (const auto taken = m_device.take_events(m_notifier.get()))
            events = *taken;
    }
    // Without a notifier the state of the card tells; the driver counts a reset only when it is over.
    const bool lost = events ? (*events & kLost) != 0 : !is_operational();
    if (!lost)
        return false;
    m_card_lost.store(true, std::memory_order_release);
    const std::uint64_t again =
        1; // this may be an engine's thread: the thread that waits for events is to close the card
    if (m_notifier)
        (void)!write(m_notifier.get(), &again, sizeof again);
    return true;
}

bool Session::is_operational() const {
    const auto status = m_device.status();
    return status ? *status == thunk::Status::operational : thunk::is_transient(status.error().code);
}

void Session::release_notifier() {
    thunk::Notifier notifier;
    {
        const os::MutexLock lock(m_events_mutex);
        m_event_descriptor.store(-1, std::memory_order_release);
        notifier = std::move(m_notifier);
    }
    if (card_lost() && notifier) // the registration ends with the descriptor of the card
        thunk::Fd(notifier.detach());
    else
        thunk::release_or_report([&] { return notifier.release(); });
}

bool Session::was_reset() const {
    if (!m_resets)
        return false;
    const auto now = count_resets(m_device);
    return now && *now != *m_resets;
}

void Session::set_exports(const Result<void> &probed, std::uint64_t length) {
    const os::MutexLock lock(m_refusal_mutex);
    if (!usable())
        return;
    if (probed)
        m_longest_export.store(std::max(m_longest_export.load(std::memory_order_relaxed), length),
                               std::memory_order_release);
    else
        m_shortest_refusal.store(std::min(m_shortest_refusal.load(std::memory_order_relaxed), length),
                                 std::memory_order_release);
    // A mapping that is longer than the PCIe BAR is refused, and shorter ones are not.
    const bool too_long = !probed && probed.error().code == EINVAL && length > m_identity.page_size();
    if (exports() != Exports::unknown || too_long)
        return;
    if (!probed)
        m_why_no_exports = probed.error().text; // before the flag that lets others read it
    m_exports.store(probed ? Exports::yes : Exports::no, std::memory_order_release);
}

std::string Session::why_no_exports() const {
    const os::MutexLock lock(m_refusal_mutex);
    return m_why_no_exports;
}

void Session::end(const Error &why) {
    const auto run = [this](const auto &step) noexcept {
        try {
            step();
        } catch (const std::exception &problem) { // the kernel ends the rest with the descriptor
            thunk::report(thunk::make_error(ENOMEM, "hlthunk_close", m_identity.bus_id(), problem.what()));
        }
    };
    for (const auto &part : m_found)
        if (SessionPart *made = part.load(std::memory_order_acquire))
            run([&] { made->stop(why); });
    for (std::size_t i = kPartKinds; i-- > 0;)
        if (SessionPart *made = m_found[i].load(std::memory_order_acquire))
            run([&] { made->release(); });
    release_notifier();
    m_state.store(State::ended, std::memory_order_release);
}

} // namespace gaudi
