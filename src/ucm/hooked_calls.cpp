// SPDX-License-Identifier: BSD-3-Clause
#include "hooked_calls.h"

#include "gaudi/copy/engine_slot.h"
#include "gaudi/memory/arena.h"
#include "gaudi/memory/live_mappings.h"
#include "os/format.h"
#include "thunk/report.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

namespace gaudi::ucm {
namespace {

/// Runs a step around the library's call. It must show neither in errno nor as an exception, because the caller is a C
/// program. Without memory to take a note the call is made all the same.
template <class Step>
void aside(Step &&step) noexcept {
    const int kept = errno;
    try {
        step();
    } catch (...) {
        try {
            thunk::report(
                {ENOMEM, "hook",
                 "no memory to record a call of the program to libhl-thunk: its Gaudi memory may not be recognised"});
        } catch (...) { // nor to report it
        }
    }
    errno = kept;
}

bool has_name(hlthunk_device_name name, const Card &card) {
    return name == HLTHUNK_DEVICE_DONT_CARE ||
           name == (card.info().device_id == HL_PCI_ID_GAUDI3 ? HLTHUNK_DEVICE_GAUDI3 : HLTHUNK_DEVICE_GAUDI2);
}

/// As the library reads a bus id: one without a domain is in the first, and one that is too long is cut.
bool has_bus_id(std::string_view bus_id, const Card &card) {
    bus_id = bus_id.substr(0, 12);
    return card.bus_id() == bus_id || (bus_id.size() == 7 && card.bus_id() == "0000:" + std::string(bus_id));
}

/// Refuses the hand-over of a card on which copies fail: those of the framework would fail too.
Result<void> check_engine(const Card &card) {
    const Session *session = card.session();
    const EngineSlot *slot = session && !session->adopted() ? session->find<EngineSlot>() : nullptr;
    const auto engine = slot ? slot->find() : nullptr;
    const Failure failure = engine ? engine->failure() : nullptr;
    if (failure && failure->code != ENOTSUP)
        return tl::unexpected(Error{EBUSY, "hlthunk_open", "copies on it failed: " + failure->text});
    return {};
}

} // namespace

/// The card that the hooks have seen behind `fd`. Looking at the file would cost each call a system call, and a program whose calls the hooks
/// see closes the card through them too.
Card *HookedCalls::find_card(int fd) {
    {
        const os::MutexLock lock(m_mutex);
        if (const auto known = m_files.find(fd); known != m_files.end())
            return known->second.card;
    }
    return find_card_anew(fd);
}

Card *HookedCalls::find_card_anew(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0)
        return nullptr;
    {
        const os::MutexLock lock(m_mutex);
        const auto known = m_files.find(fd);
        if (known != m_files.end() && known->second.device == status.st_dev && known->second.inode == status.st_ino &&
            known->second.node == status.st_rdev)
            return known->second.card;
    }
    const auto card = m_cards.of_descriptor(fd);
    if (!card)
        return nullptr; // unknown now; the next call tries again
    const os::MutexLock lock(m_mutex);
    m_files[fd] = {*card, status.st_dev, status.st_ino, status.st_rdev};
    return *card;
}

/// The foreign mappings of the session behind `fd`, which is adopted at the first call.
ForeignMappings *HookedCalls::find_mappings(int fd) {
    Card *card = find_card(fd);
    Session *session = card ? card->find_session(fd) : nullptr;
    return session && session->usable() ? &session->get<ForeignMappings>() : nullptr;
}

void HookedCalls::forget(int fd) {
    const os::MutexLock lock(m_mutex);
    m_files.erase(fd);
}

void HookedCalls::forget(const Card &card) {
    const os::MutexLock lock(m_mutex);
    std::erase_if(m_files, [&](const auto &entry) { return entry.second.card == &card; });
}

// ---- open and close -------------------------------------------------------------------------------------------------

/// A card that this library has opened before the framework did would be refused to the framework. -1 where it cannot be
/// handed over.
int HookedCalls::hand_over_card(Card &card) {
    const auto handed_over = check_engine(card).and_then([&] { return hand_over(card); });
    if (handed_over) {
        const os::MutexLock lock(m_mutex);
        m_refusals.erase(&card);
        return *handed_over;
    }
    if (!is_new_refusal(card, handed_over.error().text))
        return -1;
    const Error why{handed_over.error().code, "hlthunk_open",
                    os::format("card {} cannot be handed over to the program that opens it: {}", card.number(),
                               handed_over.error().text)};
    if (!LiveMappings::get().hand_over_refused(why))
        thunk::report(why);
    return -1;
}

/// A framework that wants any card tries all of them, and may try again and again: each refusal is logged once, until its
/// reason or the session is another.
bool HookedCalls::is_new_refusal(const Card &card, const std::string &reason) {
    const Session *session = card.session();
    const os::MutexLock lock(m_mutex);
    Refusal &known = m_refusals[&card];
    if (known.session == session && known.reason == reason)
        return false;
    known = {session, reason};
    return true;
}

bool HookedCalls::release_if_owner_closed(Card &card) {
    if (!card.release_if_owner_closed())
        return false;
    forget(card);
    return true;
}

/// Makes the call. If no card is free: again, if a card was released whose owner had closed it past the hooks; else with a
/// card that is handed over. `matches` tells which cards the call names.
template <class Open, class Matches>
int HookedCalls::open_or_hand_over(const Open &open, const Matches &matches) noexcept {
    const auto refused = [](int fd) { return fd == -EBUSY || (fd == -1 && errno != ENOENT); };
    int fd = open();
    bool released = false;
    if (refused(fd))
        aside([&] {
            for (const auto &card : m_cards.all())
                released = (matches(*card) && release_if_owner_closed(*card)) || released;
        });
    if (released)
        fd = open();
    if (refused(fd))
        aside([&] {
            for (const auto &card : m_cards.all())
                if (const int own = matches(*card) ? hand_over_card(*card) : -1; own >= 0) {
                    fd = own;
                    return;
                }
        });
    aside([&] { forget(fd); }); // a file that had the number before was closed past the hooks
    return fd;
}

int HookedCalls::open(hlthunk_device_name name, const char *bus_id) noexcept {
    return open_or_hand_over(
        [&] { return m_real.open(name, bus_id); },
        [&](const Card &card) { return bus_id ? has_bus_id(bus_id, card) : has_name(name, card); });
}

int HookedCalls::open_by_module_id(std::uint32_t module_id) noexcept {
    return open_or_hand_over([&] { return m_real.open_by_module_id(module_id); },
                             [&](const Card &card) { return card.module_id() == module_id; });
}

int HookedCalls::close(int fd) noexcept {
    Card *card = nullptr;
    aside([&] {
        card = find_card_anew(fd);
        if (card && card->before_close(fd) == Card::CloseResult::released)
            forget(*card);
        forget(fd);
    });
    const int closed = m_real.close(fd);
    if (card)
        aside([&] { card->after_close(fd); });
    return closed;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

std::uint64_t HookedCalls::alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous,
                                 bool shared) noexcept {
    constexpr unsigned kTries = 100;
    ForeignMappings *mappings = nullptr;
    std::uint64_t ended = 0; // deferred unmaps, before the call
    aside([&] {
        mappings = find_mappings(fd);
        if (!mappings)
            return;
        mappings->retry_deferred_unmaps();
        ended = mappings->ended_unmaps();
    });
    std::uint64_t handle = m_real.device_memory_alloc(fd, size, page_size, contiguous, shared);
    // Deferred unmaps hold memory. What a retry gives back other threads may take, and defer again, before this one does.
    for (unsigned tries = 0; handle == 0 && mappings && tries < kTries; ++tries) {
        aside([&] { mappings->retry_deferred_unmaps(RetryPace::Need::memory); });
        if (mappings->ended_unmaps() == ended)
            break; // nothing came back since the refusal
        ended = mappings->ended_unmaps();
        handle = m_real.device_memory_alloc(fd, size, page_size, contiguous, shared);
    }
    if (handle != 0 && mappings)
        aside([&] { mappings->note_allocation(handle, size); });
    return handle;
}

std::uint64_t HookedCalls::map(int fd, std::uint64_t handle, std::uint64_t hint) noexcept {
    const std::uint64_t address = m_real.device_memory_map(fd, handle, hint);
    if (address != 0)
        aside([&] {
            if (ForeignMappings *mappings = find_mappings(fd))
                mappings->note_mapping(address, handle);
        });
    return address;
}

int HookedCalls::unmap(int fd, std::uint64_t address) noexcept {
    constexpr unsigned kTries = 6; // the driver logs each refusal
    ForeignMappings *mappings = nullptr;
    std::optional<ForeignMappings::Unmap> unmap;
    aside([&] {
        mappings = find_mappings(fd);
        if (!mappings)
            return;
        mappings->retry_deferred_unmaps();
        unmap = mappings->begin_unmap(address);
    });
    int unmapped = m_real.memory_unmap(fd, address);
    if (!unmap)
        return unmapped;
    // A probe may have the mapping exported for the moment.
    std::chrono::microseconds pause(20);
    for (unsigned tries = 1; unmapped != 0 && unmap->hooked && !unmap->exported && tries < kTries;
         ++tries, pause *= 4) {
        std::this_thread::sleep_for(pause);
        unmapped = m_real.memory_unmap(fd, address);
    }
    aside([&] {
        if (mappings->end_unmap(address, *unmap, unmapped == 0))
            unmapped = 0;
    });
    return unmapped;
}

int HookedCalls::free(int fd, std::uint64_t handle) noexcept {
    ForeignMappings *mappings = nullptr;
    ForeignMappings::Free free;
    aside([&] {
        mappings = find_mappings(fd);
        if (!mappings)
            return;
        mappings->retry_deferred_unmaps();
        free = mappings->begin_free(handle);
    });
    if (free.deferred)
        return 0;
    int freed = m_real.device_memory_free(fd, handle);
    if (freed != 0 && mappings)
        aside([&] {
            if (mappings->end_failed_free(handle, free))
                freed = 0;
        });
    return freed;
}

} // namespace gaudi::ucm
