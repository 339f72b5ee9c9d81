// SPDX-License-Identifier: BSD-3-Clause
#include "card.h"

#include "adoption.h"
#include "cards.h"
#include "pinned.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace gaudi {
namespace {

constexpr unsigned kExitLimitMs = 5000;

/// A card that is closed with copies on their way is reset the hard way: wait for them, but not for ever.
void wait_at_exit() {
    static std::once_flag once;
    static std::atomic<unsigned> owner;
    owner.store(forks(), std::memory_order_relaxed);
    std::call_once(once, [] {
        std::atexit([] {
            if (owner.load(std::memory_order_relaxed) != forks()) // a child that has no engine of its own
                return;
            const auto cards = Cards::get();
            if (!cards)
                return;
            for (const auto &card : (*cards)->all())
                if (Copier *copier = card->copier_if_started())
                    copier->drain(kExitLimitMs);
        });
    });
}

// That a call of ours to a framework may take.
constexpr auto kBusy = std::chrono::milliseconds(200);

Error closed_by_owner(const Card &card) {
    return thunk::make_error(ENODEV, "hlthunk_close", card.bus_id(),
                             fmt::format("card {} was closed by the program that had opened it", card.index()));
}

std::optional<std::uint64_t> resets(const thunk::Device &device) {
    const auto count = device.reset_count();
    return count ? std::optional(std::uint64_t{count->hard_reset_count} + count->soft_reset_count) : std::nullopt;
}

} // namespace

Card::Card(Cards &cards, unsigned index, std::string bus_id, const hlthunk_hw_ip_info &info)
    : m_cards(cards), m_index(index), m_bus_id(std::move(bus_id)), m_info(info), m_arena(*this) {}

Range Card::window() const {
    constexpr std::uint64_t kProcessors = 1ull << 57; // with five levels of page tables, the most there are
    constexpr std::uint64_t kSpace = 1ull << 48;      // that the card's memory management has for it
    const std::uint64_t base = m_info.dram_base_address;
    return base < kProcessors ? Range{} : Range{base, kSpace - base % kSpace};
}

Error Card::of_the_parent() const {
    return thunk::make_error(
        ENODEV, "hlthunk_open", m_bus_id,
        fmt::format("card {} was opened before this process was forked off, and is its parent's", m_index));
}

Result<thunk::Device> Card::open() {
    auto device = try_open();
    OpenWait::Turn turn(m_cards.open_wait());
    // m_open_mutex is not held meanwhile: detection asks if_held(), which takes it.
    while (!device && device.error().code == EAGAIN && turn.pause("card " + m_bus_id))
        device = try_open();
    if (device)
        turn.succeeded();
    return device;
}

Result<thunk::Device> Card::try_open() {
    if (inherited()) // before any lock: in a forked child the thread that holds it may not exist
        return tl::unexpected(of_the_parent());
    const std::lock_guard guard(m_open_mutex);
    if (m_letting_go)
        return tl::unexpected(closed_by_owner(*this));
    if (is_open())
        return m_device;
    if (const auto theirs = adopt())
        return *theirs;
    auto device = open_device();
    if (device)
        opened(*device);
    return device;
}

void Card::opened(const thunk::Device &device) {
    m_device = device;
    m_forks.store(forks(), std::memory_order_relaxed);
    m_opened.store(true, std::memory_order_release);
}

std::optional<thunk::Device> Card::if_held() {
    if (inherited())
        return {};
    const std::lock_guard guard(m_open_mutex);
    if (m_letting_go)
        return {};
    return is_open() ? m_device : adopt();
}

// ---- a card that somebody else opened -----------------------------------------------------------------------------

std::optional<thunk::Device> Card::adopt() {
    const int theirs = find_descriptor(m_cards.library(), m_bus_id, m_closing).value_or(-1);
    if (theirs < 0)
        return {};
    thunk::Fd own(fcntl(theirs, F_DUPFD_CLOEXEC, 0));
    if (!m_nothing)
        m_nothing = thunk::Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)); // later there may be no descriptor left
    m_parked.reserve(kParked + 1);                                      // nor memory
    if (!own || !m_nothing ||
        !is_compute_node(m_cards.library(), m_bus_id, own.get()).value_or(false)) // it may have been closed meanwhile
        return {};
    const thunk::Device device(m_cards.library(), own.detach());
    m_resets.store(resets(device).value_or(0), std::memory_order_relaxed);
    m_adopted.store(true, std::memory_order_release);
    opened(device);
    return device;
}

bool Card::reset_since_shared(const thunk::Device &device) const {
    if (!adopted())
        return false;
    const std::optional<std::uint64_t> now = resets(device);
    return now && *now != m_resets.load(std::memory_order_relaxed);
}

Result<int> Card::lend() {
    const auto ours = [this] { return is_open() && !adopted(); };
    if (!ours())
        return -1;
    if (takes_submissions()) { // beside others nothing is copied before it was seen to arrive
        const auto engine = copier();
        if (!engine)
            return tl::unexpected(engine.error());
        if (const Copier &copies = **engine; !copies.proven() || copies.failed())
            return tl::unexpected(thunk::make_error(
                EBUSY, "hlthunk_open", m_bus_id, copies.failed() ? copies.failure() : "its copies could not be tried"));
    }
    thunk::Fd theirs;
    {
        const std::lock_guard guard(m_open_mutex);
        if (!ours() || find_descriptor(m_cards.library(), m_bus_id, {m_device.fd()}) != -1)
            return -1; // once: who has it already is refused, as by the driver
        theirs = thunk::Fd(fcntl(m_device.fd(), F_DUPFD_CLOEXEC, 0));
        m_lent.store(bool(theirs), std::memory_order_release);
    }
    m_arena.give_back_spare();
    return theirs.detach();
}

Card::Kept Card::closing(int fd) {
    {
        const std::lock_guard guard(m_open_mutex);
        m_closing.push_back(fd);
        std::vector<int> except = m_closing;
        if (is_open())
            except.push_back(m_device.fd());
        if (find_descriptor(m_cards.library(), m_bus_id, except) != -1)
            return Kept::by_them;
        if (is_open() && !adopted()) {
            m_lent.store(false, std::memory_order_release);
            return Kept::by_us;
        }
        m_letting_go = m_letting_go || is_open();
    }
    if (adopted())
        let_go();
    else
        m_cards.foreign().leave(*this);
    return Kept::by_nobody;
}

void Card::closed(int fd) {
    const std::lock_guard guard(m_open_mutex);
    std::erase(m_closing, fd);
}

bool Card::let_go_if_left() {
    {
        const std::lock_guard guard(m_open_mutex);
        if (!adopted() || m_letting_go || find_descriptor(m_cards.library(), m_bus_id, {m_device.fd()}) != -1)
            return false;
        m_letting_go = true;
    }
    let_go();
    return true;
}

/// m_letting_go is set: nobody gets the device any more.
void Card::let_go() {
    try {
        end_life();
    } catch (const std::exception &problem) { // then the kernel ends what is left, with the descriptor
        thunk::report(thunk::make_error(ENOMEM, "hlthunk_close", m_bus_id, problem.what()));
    }
    {
        const std::lock_guard guard(m_open_mutex);
        thunk::release_or_report([this] { return adoption_ends(m_device.fd(), m_nothing.get()); });
        m_parked.emplace_back(m_device.fd());
        if (m_parked.size() > kParked)
            m_parked.erase(m_parked.begin());
        m_device = thunk::Device();
        m_framework_copies.store(false, std::memory_order_relaxed);
        m_refuses_imports.store(false, std::memory_order_relaxed);
        m_opened.store(false, std::memory_order_release); // first: it never looks like ours
        m_adopted.store(false, std::memory_order_release);
        m_letting_go = false;
    }
    m_cards.left(*this);
}

void Card::end_life() {
    m_life.fetch_add(1, std::memory_order_acq_rel);
    // Who holds it may be in a call to the framework, and that may be waiting for us: it sees that the life is over.
    std::unique_lock copier_guard(m_copier_mutex, std::try_to_lock);
    const auto limit = std::chrono::steady_clock::now() + kBusy;
    while (!copier_guard && !(m_calls_framework.load() && std::chrono::steady_clock::now() > limit)) {
        std::this_thread::yield();
        copier_guard = std::unique_lock(m_copier_mutex, std::try_to_lock);
    }
    if (copier_guard) {
        m_no_copier.reset();
        if (m_copier)
            m_copier->retire(closed_by_owner(*this));
    }
    m_cards.foreign().leave(*this);
    m_arena.leave();
    Pinned::get().leave(*this);
    if (copier_guard && m_copier) {
        m_copier->unmap_ring();
        m_started.store(nullptr, std::memory_order_release);
        m_retired.push_back(std::move(m_copier));
    }
    const std::lock_guard guard(m_exports_mutex);
    m_exports.store(Exports::unknown, std::memory_order_release);
}

void Card::set_exports(const Result<void> &probed, std::uint64_t life) {
    const std::lock_guard guard(m_exports_mutex);
    if (exports() != Exports::unknown || life != m_life.load(std::memory_order_acquire))
        return; // another thread was faster, or its owner with closing it
    if (!probed)
        m_why_no_exports = probed.error().text; // before the flag that lets others read it
    m_exports.store(probed ? Exports::yes : Exports::no, std::memory_order_release);
}

Result<thunk::Device> Card::open_device() {
    auto device = thunk::Device::open(m_cards.library(), m_bus_id);
    if (!device && device.error().code == EBUSY)
        return tl::unexpected(thunk::make_error(
            EBUSY, "hlthunk_open", m_bus_id,
            fmt::format("card {} (module {}) is in use, and a card serves one user at a time", m_index, module_id())));
    return device;
}

bool Card::find_copy_path() {
    if (!can_copy() && Copier::framework_copies() && if_held() && adopted())
        m_framework_copies.store(Copier::framework_of(*this) != nullptr, std::memory_order_relaxed);
    return can_copy();
}

Result<Copier *> Card::copier() {
    if (inherited())
        return tl::unexpected(of_the_parent());
    if (Copier *started = m_started.load(std::memory_order_acquire))
        return started;
    if (!can_copy() && !find_copy_path())
        return tl::unexpected(thunk::make_error(
            ENOTSUP, "copy", m_bus_id, "this generation of cards takes no copies from outside its own framework"));
    if (m_letting_go.load(std::memory_order_acquire)) // who asks again and again must not keep it from ending
        return tl::unexpected(closed_by_owner(*this));
    const std::lock_guard guard(m_copier_mutex);
    if (m_no_copier)
        return tl::unexpected(*m_no_copier);
    if (m_copier)
        return m_copier.get();
    const std::uint64_t life = m_life.load(std::memory_order_acquire);
    auto device = open();
    if (!device)
        return tl::unexpected(device.error());
    const auto by_framework = [&] {
        m_calls_framework.store(true);
        auto copier = Copier::start_by_framework(*this, *device);
        m_calls_framework.store(false);
        return copier;
    };
    auto made = takes_submissions() ? Copier::start(*this, *device) : by_framework();
    if (!made && adopted() && takes_submissions()) {
        const Error refusal = made.error();
        made = by_framework();
        if (!made && life == m_life.load(std::memory_order_acquire))
            m_no_copier = refusal;
        if (!made)
            return tl::unexpected(refusal);
    }
    if (!made)
        return tl::unexpected(made.error());
    if (life != m_life.load(std::memory_order_acquire)) {
        const Error gone = closed_by_owner(*this);
        (*made)->retire(gone);
        m_retired.push_back(std::move(*made));
        return tl::unexpected(gone);
    }
    m_copier = std::move(*made);
    wait_at_exit();
    m_started.store(m_copier.get(), std::memory_order_release);
    return m_copier.get();
}

} // namespace gaudi
