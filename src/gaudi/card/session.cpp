// SPDX-License-Identifier: BSD-3-Clause
#include "session.h"

#include "thunk/report.h"

#include <algorithm>
#include <cerrno>
#include <exception>

namespace gaudi {
namespace {

std::optional<std::uint64_t> count_resets(const thunk::Device &device) {
    const auto count = device.reset_count();
    return count ? std::optional(std::uint64_t{count->hard_reset_count} + count->soft_reset_count) : std::nullopt;
}

} // namespace

Session::Session(Card &card, const CardIdentity &identity, const thunk::Device &device, Origin origin)
    : m_card(card), m_identity(identity), m_device(device), m_origin(origin),
      m_resets(origin == Origin::adopted ? count_resets(device) : std::nullopt) {}

Error Session::why_unusable() const { return inherited() ? m_identity.error_inherited() : m_identity.error_closed(); }

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
    m_state.store(State::ended, std::memory_order_release);
}

} // namespace gaudi
