// SPDX-License-Identifier: BSD-3-Clause
#include "bookkeeping.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace gaudi::ucm {
namespace {

constexpr unsigned kTries = 1000;

/// What we do around a call must show neither in errno nor as an exception: its caller is a C program. Without memory to
/// remember with we know less, and the call is made all the same.
template <class Step>
void aside(Step &&step) noexcept {
    const int kept = errno;
    try {
        step();
    } catch (...) {
        try {
            thunk::report({ENOMEM, "hook", "there is no memory to remember what the program does with its cards"});
        } catch (...) { // nor to say so
        }
    }
    errno = kept;
}

bool is_named(hlthunk_device_name name, const Card &card) {
    return name == HLTHUNK_DEVICE_DONT_CARE ||
           name == (card.info().device_id == HL_PCI_ID_GAUDI3 ? HLTHUNK_DEVICE_GAUDI3 : HLTHUNK_DEVICE_GAUDI2);
}

/// As the library reads a bus id: without its domain it is of the first one, and what is too long is cut.
bool is_at(std::string_view bus_id, const Card &card) {
    bus_id = bus_id.substr(0, 12);
    return card.bus_id() == bus_id || (bus_id.size() == 7 && card.bus_id() == "0000:" + std::string(bus_id));
}

} // namespace

/// As far as we have heard. To look would cost each call a system call, and who makes calls on a card where we see them also
/// closes it there.
Card *Bookkeeping::card_of(int fd) {
    {
        const std::lock_guard guard(m_mutex);
        if (const auto known = m_files.find(fd); known != m_files.end())
            return known->second.card;
    }
    return card_now(fd);
}

Card *Bookkeeping::card_now(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0)
        return nullptr;
    {
        const std::lock_guard guard(m_mutex);
        const auto known = m_files.find(fd);
        if (known != m_files.end() && known->second.device == status.st_dev && known->second.inode == status.st_ino &&
            known->second.node == status.st_rdev)
            return known->second.card;
    }
    const auto card = m_cards.of_descriptor(fd);
    if (!card)
        return nullptr; // the next call asks again
    const std::lock_guard guard(m_mutex);
    m_files[fd] = {*card, status.st_dev, status.st_ino, status.st_rdev}; // null for one that we are not to see
    return *card;
}

// ---- open and close -----------------------------------------------------------------------------------------------

/// A card that we have opened before its framework did would be refused to it: it gets our context to share. -1 where it
/// is not ours to share.
int Bookkeeping::lend(Card &card) {
    const auto lent = card.lend();
    if (!lent) {
        thunk::report({lent.error().code, "hlthunk_open",
                       fmt::format("card {} is UCX's and cannot be shared with the program that opens it: {}",
                                   card.index(), lent.error().text)});
        return -1;
    }
    if (*lent >= 0)
        aside([&] { // who had it before may have closed it unseen
            opened(*lent);
            clean_up(card, *lent);
        });
    return *lent;
}

/// What the driver does when a card is closed, for one that stays open because it is ours: ends what they left on it.
void Bookkeeping::clean_up(const Card &card, int fd) {
    constexpr unsigned kLimitMs = 5000;
    if (Copier *copier = card.copier_if_started())
        copier->drain(kLimitMs); // to unmap memory under its hands would reset the card
    std::vector<std::uint64_t> addresses;
    std::set<std::uint64_t> handles;
    {
        const std::lock_guard guard(m_mutex);
        for (const auto &[key, mapped] : m_mapped)
            if (key.first == &card) {
                addresses.push_back(key.second);
                handles.insert(mapped.handle);
            }
        for (const auto &[key, size] : m_sizes)
            if (key.first == &card)
                handles.insert(key.second);
    }
    for (const std::uint64_t address : addresses)
        unmap(fd, address);
    for (const std::uint64_t handle : handles)
        free(fd, handle);
}

/// Whether only we held it any more, because it was closed unseen. Then all that we remember of it is of another life.
bool Bookkeeping::was_left(Card &card) {
    const std::lock_guard alone(m_retrying); // nothing that lingered may be unmapped in the card's next life
    if (!card.let_go_if_left())
        return false;
    forget(&card);
    return true;
}

/// Makes the call; if no card is free, again where some were left, and else with one of ours. `meant` tells which cards it
/// asks for.
template <class Open, class Meant>
int Bookkeeping::open_or_lend(const Open &open, const Meant &meant) noexcept {
    const auto refused = [](int fd) { return fd == -EBUSY || (fd == -1 && errno != ENOENT); };
    int fd = open();
    bool some_left = false;
    if (refused(fd))
        aside([&] {
            for (const auto &card : m_cards.all())
                some_left = (meant(*card) && was_left(*card)) || some_left;
        });
    if (some_left)
        fd = open();
    if (refused(fd))
        aside([&] {
            for (const auto &card : m_cards.all())
                if (const int lent = meant(*card) ? lend(*card) : -1; lent >= 0) {
                    fd = lent;
                    return;
                }
        });
    aside([&] { opened(fd); });
    return fd;
}

int Bookkeeping::open(hlthunk_device_name name, const char *bus_id) noexcept {
    return open_or_lend([&] { return m_real.open(name, bus_id); },
                        [&](const Card &card) { return bus_id ? is_at(bus_id, card) : is_named(name, card); });
}

int Bookkeeping::open_by_module_id(std::uint32_t module_id) noexcept {
    return open_or_lend([&] { return m_real.open_by_module_id(module_id); },
                        [&](const Card &card) { return card.module_id() == module_id; });
}

/// Whatever had the number before was closed unseen.
void Bookkeeping::opened(int fd) {
    const std::lock_guard guard(m_mutex);
    m_files.erase(fd);
}

void Bookkeeping::forget(const Card *card) {
    const std::lock_guard guard(m_mutex);
    std::erase_if(m_files, [&](const auto &entry) { return entry.second.card == card; });
    std::erase_if(m_sizes, [&](const auto &entry) { return entry.first.first == card; });
    std::erase_if(m_mapped, [&](const auto &entry) { return entry.first.first == card; });
    std::erase_if(m_lingering, [&](const Lingering &gone) { return gone.card == card; });
    m_lingering_count.store(m_lingering.size(), std::memory_order_release);
}

int Bookkeeping::close(int fd) noexcept {
    Card *card = nullptr;
    aside([&] {
        card = card_now(fd);
        auto kept = Card::Kept::by_them;
        if (card) {
            const std::lock_guard alone(m_retrying); // nothing that lingered may be unmapped in the card's next life
            kept = card->closing(fd);
            if (kept == Card::Kept::by_nobody)
                forget(card);
        }
        if (kept == Card::Kept::by_us)
            clean_up(*card, fd);
        const std::lock_guard guard(m_mutex);
        m_files.erase(fd);
    });
    const int closed = m_real.close(fd);
    if (card)
        aside([&] { card->closed(fd); });
    return closed;
}

// ---- memory -------------------------------------------------------------------------------------------------------

std::uint64_t Bookkeeping::alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous,
                                 bool shared) noexcept {
    aside([&] { retry(); });
    std::uint64_t handle = m_real.device_memory_alloc(fd, size, page_size, contiguous, shared);
    if (handle == 0 && lingering() != 0) { // what it lacks may have been given back already
        aside([&] {
            const std::lock_guard alone(m_retrying);
            retry_all();
        });
        handle = m_real.device_memory_alloc(fd, size, page_size, contiguous, shared);
    }
    if (handle != 0)
        aside([&] {
            if (const Card *card = card_of(fd)) {
                const std::lock_guard guard(m_mutex);
                m_sizes[{card, handle}] = size;
            }
        });
    return handle;
}

std::uint64_t Bookkeeping::map(int fd, std::uint64_t handle, std::uint64_t hint) noexcept {
    const std::uint64_t address = m_real.device_memory_map(fd, handle, hint);
    if (address == 0)
        return 0;
    aside([&] {
        Card *card = card_of(fd);
        if (!card)
            return;
        std::uint64_t size = 0;
        {
            const std::lock_guard guard(m_mutex);
            const auto known = m_sizes.find({card, handle});
            if (known != m_sizes.end())
                size = known->second;
            m_mapped[{card, address}] = {handle, size};
        }
        if (size != 0) // else it was allocated before we looked, and is found when somebody asks for it
            m_cards.foreign().mapped(*card, address, size);
    });
    return address;
}

int Bookkeeping::unmap(int fd, std::uint64_t address) noexcept {
    Card *card = nullptr;
    std::uint64_t life = 0;
    Mapped mapped;
    bool exported = false;
    aside([&] { retry(); });
    aside([&] {
        card = card_of(fd);
        if (!card)
            return;
        life = card->life();
        exported = m_cards.foreign().unmapping(*card, address);
        const std::lock_guard guard(m_mutex);
        if (const auto known = m_mapped.extract(Key(card, address)))
            mapped = known.mapped();
    });
    int unmapped = m_real.memory_unmap(fd, address);
    if (!card)
        return unmapped;
    // A search of ours may have it exported for the moment.
    for (unsigned tries = 0; unmapped != 0 && mapped.handle != 0 && !exported && tries < kTries; ++tries) {
        std::this_thread::yield();
        unmapped = m_real.memory_unmap(fd, address);
    }
    aside([&] {
        if (unmapped != 0 && exported && let_linger(card, life, address, mapped.handle)) {
            unmapped = 0;
            return;
        }
        m_cards.foreign().unmapped(*card, address);
        if (unmapped == 0 || mapped.handle == 0 || card->life() != life)
            return;
        {
            const std::lock_guard guard(m_mutex);
            m_mapped[{card, address}] = mapped;
        }
        if (mapped.size != 0)
            m_cards.foreign().mapped(*card, address, mapped.size);
    });
    return unmapped;
}

/// UCX has taken the registration out of use, but gives it back to the NIC only at its next registration. Until then the
/// address is nobody's; to its owner it is gone. False where the card was closed meanwhile: the next who has it may have that
/// address, too.
bool Bookkeeping::let_linger(Card *card, std::uint64_t life, std::uint64_t address, std::uint64_t handle) {
    {
        const std::lock_guard guard(m_mutex); // forget() comes after the life has ended
        if (card->life() != life)
            return false;
        m_lingering.push_back({card, address, handle});
        m_lingering_count.store(m_lingering.size(), std::memory_order_release);
    }
    m_cards.foreign().lingers(*card, address);
    return true;
}

/// The memory of a mapping that lingers is freed with it. A handle that we have not seen may be that of any.
bool Bookkeeping::freed_later(const Card *card, std::uint64_t handle, bool seen) {
    for (Lingering &waiting : m_lingering)
        if (handle != 0 && waiting.card == card && waiting.handle == (seen ? handle : 0) && !waiting.freed) {
            waiting.handle = handle;
            waiting.freed = true;
            return true;
        }
    return false;
}

int Bookkeeping::free(int fd, std::uint64_t handle) noexcept {
    const Card *card = nullptr;
    std::uint64_t size = 0;
    bool later = false;
    aside([&] { retry(); });
    aside([&] {
        card = card_of(fd);
        const std::lock_guard guard(m_mutex);
        if (const auto known = m_sizes.extract(Key(card, handle)))
            size = known.mapped();
        later = freed_later(card, handle, true);
    });
    if (later)
        return 0;
    int freed = m_real.device_memory_free(fd, handle);
    if (freed != 0)
        aside([&] {
            const std::lock_guard guard(m_mutex);
            // Of a handle that we have seen the refusal is the program's own business.
            if (size != 0)
                m_sizes[{card, handle}] = size;
            else if (freed_later(card, handle, false))
                freed = 0;
        });
    return freed;
}

void Bookkeeping::retry() {
    if (lingering() == 0)
        return;
    const std::unique_lock alone(m_retrying, std::try_to_lock); // somebody else is at it
    if (alone)
        retry_all();
}

/// One thread at a time: two would unmap what is there by then.
void Bookkeeping::retry_all() {
    std::vector<Lingering> waiting;
    {
        const std::lock_guard guard(m_mutex);
        waiting = m_lingering;
    }
    for (const Lingering &one : waiting) {
        const auto device = one.card->if_held();
        if (!device || m_real.memory_unmap(device->fd(), one.address) != 0)
            continue;
        Lingering over = one;
        {
            const std::lock_guard guard(m_mutex);
            const auto entry = std::find_if(m_lingering.begin(), m_lingering.end(), [&](const Lingering &other) {
                return other.card == one.card && other.address == one.address;
            });
            if (entry != m_lingering.end()) {
                over = *entry; // its memory may have been freed meanwhile
                m_lingering.erase(entry);
                m_lingering_count.store(m_lingering.size(), std::memory_order_release);
            }
        }
        m_cards.foreign().unmapped(*over.card, over.address);
        if (over.freed)
            m_real.device_memory_free(device->fd(), over.handle);
    }
}

} // namespace gaudi::ucm
