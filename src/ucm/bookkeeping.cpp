// SPDX-License-Identifier: BSD-3-Clause
#include "bookkeeping.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace gaudi::ucm {
namespace {

/// What we do must not show in errno: neither to the library, nor to its caller.
class KeepErrno {
public:
    KeepErrno() : m_errno(errno) {}
    ~KeepErrno() { errno = m_errno; }
    KeepErrno(const KeepErrno &) = delete;
    KeepErrno &operator=(const KeepErrno &) = delete;

private:
    const int m_errno;
};

} // namespace

Card *Bookkeeping::card_of(int fd) {
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
    Card *card = m_cards.of_descriptor(fd);
    const std::lock_guard guard(m_mutex);
    m_files[fd] = {status.st_dev, status.st_ino, status.st_rdev, card};
    return card;
}

// ---- open and close -----------------------------------------------------------------------------------------------

/// A card that we have opened before its framework did would be refused to it: it gets our context to share.
int Bookkeeping::lend(Card *card, int opened) {
    if (opened != -EBUSY || !card || !card->is_open() || card->adopted())
        return opened;
    const auto ours = card->open();
    const int own = ours ? fcntl(ours->fd(), F_DUPFD_CLOEXEC, 0) : -1;
    return own >= 0 ? own : opened;
}

int Bookkeeping::open(hlthunk_device_name name, const char *bus_id) {
    const int fd = m_real.open(name, bus_id);
    if (fd >= 0 || !bus_id)
        return fd;
    const KeepErrno keep;
    return lend(m_cards.by_bus_id(bus_id), fd);
}

int Bookkeeping::open_by_module_id(std::uint32_t module_id) {
    const int fd = m_real.open_by_module_id(module_id);
    if (fd >= 0)
        return fd;
    const KeepErrno keep;
    const auto &all = m_cards.all();
    const auto card =
        std::find_if(all.begin(), all.end(), [&](const auto &known) { return known->module_id() == module_id; });
    return lend(card != all.end() ? card->get() : nullptr, fd);
}

void Bookkeeping::forget(const Card *card) {
    const std::lock_guard guard(m_mutex);
    std::erase_if(m_sizes, [&](const auto &entry) { return entry.first.first == card; });
    std::erase_if(m_mapped, [&](const auto &entry) { return entry.first.first == card; });
    std::erase_if(m_lingering, [&](const Lingering &gone) { return gone.card == card; });
}

int Bookkeeping::close(int fd) {
    Card *card = nullptr;
    {
        const KeepErrno keep;
        card = card_of(fd);
        if (card && card->closing(fd))
            forget(card);
        const std::lock_guard guard(m_mutex);
        m_files.erase(fd);
    }
    const int closed = m_real.close(fd);
    const KeepErrno keep;
    if (card)
        card->closed(fd);
    return closed;
}

// ---- memory -------------------------------------------------------------------------------------------------------

std::uint64_t Bookkeeping::alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous, bool shared) {
    {
        const KeepErrno keep;
        retry();
    }
    const std::uint64_t handle = m_real.device_memory_alloc(fd, size, page_size, contiguous, shared);
    if (handle == 0)
        return 0;
    const KeepErrno keep;
    if (const Card *card = card_of(fd)) {
        const std::lock_guard guard(m_mutex);
        m_sizes[{card, handle}] = size;
    }
    return handle;
}

std::uint64_t Bookkeeping::map(int fd, std::uint64_t handle, std::uint64_t hint) {
    const std::uint64_t address = m_real.device_memory_map(fd, handle, hint);
    if (address == 0)
        return 0;
    const KeepErrno keep;
    Card *card = card_of(fd);
    if (!card)
        return address;
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
    return address;
}

int Bookkeeping::unmap(int fd, std::uint64_t address) {
    Card *card = nullptr;
    Mapped mapped;
    bool exported = false;
    {
        const KeepErrno keep;
        retry();
        card = card_of(fd);
        if (card) {
            exported = m_cards.foreign().unmapping(*card, address);
            const std::lock_guard guard(m_mutex);
            if (const auto known = m_mapped.extract(Key(card, address)))
                mapped = known.mapped();
        }
    }
    const int unmapped = m_real.memory_unmap(fd, address);
    if (!card)
        return unmapped;
    const KeepErrno keep;
    if (unmapped != 0 && exported) {
        m_cards.foreign().lingers(*card, address);
        // UCX has taken the registration out of use, but gives it back to the NIC only at its next registration. Until then
        // the address is nobody's; to its owner it is gone.
        const std::lock_guard guard(m_mutex);
        m_lingering.push_back({card, address, mapped.handle});
        return 0;
    }
    m_cards.foreign().unmapped(*card, address);
    if (unmapped != 0 && mapped.size != 0) {
        {
            const std::lock_guard guard(m_mutex);
            m_mapped[{card, address}] = mapped;
        }
        m_cards.foreign().mapped(*card, address, mapped.size);
    }
    return unmapped;
}

int Bookkeeping::free(int fd, std::uint64_t handle) {
    {
        const KeepErrno keep;
        retry();
        const Card *card = card_of(fd);
        const std::lock_guard guard(m_mutex);
        m_sizes.erase({card, handle});
        for (Lingering &waiting : m_lingering)
            if (waiting.card == card && waiting.handle == handle && !waiting.freed) {
                waiting.freed = true; // with its mapping
                return 0;
            }
    }
    const int freed = m_real.device_memory_free(fd, handle);
    if (freed == 0)
        return freed;
    const KeepErrno keep;
    // It may be that of a mapping which was made before we looked.
    const Card *card = card_of(fd);
    const std::lock_guard guard(m_mutex);
    for (Lingering &waiting : m_lingering)
        if (waiting.card == card && waiting.handle == 0 && !waiting.freed) {
            waiting.handle = handle;
            waiting.freed = true;
            return 0;
        }
    return freed;
}

void Bookkeeping::retry() {
    const std::unique_lock alone(m_retrying, std::try_to_lock); // two would unmap what is there by then
    if (!alone)
        return;
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
            }
        }
        m_cards.foreign().unmapped(*over.card, over.address);
        if (over.freed)
            m_real.device_memory_free(device->fd(), over.handle);
    }
}

std::size_t Bookkeeping::lingering() const {
    const std::lock_guard guard(m_mutex);
    return m_lingering.size();
}

} // namespace gaudi::ucm
