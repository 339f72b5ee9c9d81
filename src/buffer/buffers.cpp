// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include "gaudi/card/settings.h"
#include "gaudi/memory/allocation.h"
#include "os/format.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <utility>

namespace gaudi::buffer {
namespace {

constinit std::atomic<Buffers *> s_current{nullptr};

tl::unexpected<Error> refuse(int code, std::string sentence) {
    return tl::unexpected(Error{code, "buffer", std::move(sentence)});
}

} // namespace

/// A forked child gets a table of its own: a thread of the parent may have held the lock of the other.
Result<Buffers *> Buffers::get() {
    Buffers *known = s_current.load(std::memory_order_acquire);
    if (known && known->m_fork == fork_count())
        return known;
    const auto cards = Cards::get();
    if (!cards)
        return tl::unexpected(cards.error());
    std::unique_ptr<Buffers> made(new Buffers(**cards, known));
    if (s_current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
        return made.release();
    return known;
}

Error Buffers::explain(std::uint64_t address) const {
    if (const Region *region = LiveMappings::get().find(address); region && region->session().inherited())
        return region->session().why_unusable();
    return {EINVAL, "buffer", os::format("{:#x} is in no buffer: it was freed, or never allocated as one", address)};
}

/// The buffer that holds an address.
Buffers::Table::iterator Buffers::find(std::uint64_t address) {
    const auto after = m_table.upper_bound(address);
    if (after == m_table.begin())
        return m_table.end();
    const auto found = std::prev(after);
    return address - found->first < found->second.length ? found : m_table.end();
}

Result<std::uint64_t> Buffers::allocate(const std::string &device, std::uint64_t length) {
    const auto card = device == "auto" ? m_cards.choose_default() : m_cards.named(device);
    if (!card)
        return tl::unexpected(card.error());
    AllocationRequest request;
    request.length = length;
    request.limit = settings().max_memory.value;
    auto address = gaudi::allocate(**card, request);
    if (!address)
        return address;
    const Resolved memory = resolve(m_cards, *address, length);
    if (!memory)
        return tl::unexpected((*card)->error_closed());
    const os::MutexLock lock(m_mutex);
    m_table.insert_or_assign(*address,
                             Buffer{length, memory, &memory.session(), 0}); // one of an ended session may be there
    return address;
}

Result<void> Buffers::free(std::uint64_t address) {
    Resolved memory;
    {
        const os::MutexLock lock(m_mutex);
        const auto found = m_table.find(address);
        if (found == m_table.end()) {
            if (const Region *region = LiveMappings::get().find(address); region && region->session().inherited())
                return {}; // the parent frees it
            return refuse(EINVAL, os::format("cannot free {:#x}: no buffer starts there; it may have been freed before",
                                             address));
        }
        if (found->second.copies != 0)
            return refuse(EBUSY, os::format("cannot free {:#x}: a copy of another thread uses the buffer", address));
        memory = found->second.memory;
        m_table.erase(found);
    }
    if (memory.is_current()) // else the memory ended with its session
        free_allocation(memory.region(), address);
    return {};
}

/// Keeps a buffer while a copy uses a range of it, and has a mover for the copy.
class Buffers::Use {
public:
    static Result<Use> begin(Buffers &buffers, std::uint64_t address, std::uint64_t length) {
        for (const auto &card : buffers.m_cards.all()) // a program without UCX has nothing else that looks
            card->close_if_lost();
        std::uint64_t start = 0;
        {
            const os::MutexLock lock(buffers.m_mutex);
            const auto found = buffers.find(address);
            if (found == buffers.m_table.end())
                return tl::unexpected(buffers.explain(address));
            start = found->first;
            Buffer &buffer = found->second;
            if (length > buffer.length - (address - start))
                return refuse(EINVAL, os::format("{} bytes at {:#x} are not inside the buffer of {} bytes at {:#x}",
                                                 length, address, buffer.length, start));
            if (!buffer.memory.is_current())
                return tl::unexpected(buffer.session->why_unusable());
            ++buffer.copies;
        }
        return Use(buffers, start);
    }
    Use(Use &&other) noexcept
        : m_buffers(std::exchange(other.m_buffers, nullptr)), m_start(other.m_start),
          m_mover(std::move(other.m_mover)) {}
    ~Use() {
        if (!m_buffers)
            return;
        m_buffers->give_back(std::move(m_mover));
        const os::MutexLock lock(m_buffers->m_mutex);
        --m_buffers->m_table.at(m_start).copies;
    }

    Result<void> copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        if (!m_mover)
            m_mover = m_buffers->take_mover();
        return m_mover->copy_now(destination, source, length);
    }

private:
    Use(Buffers &buffers, std::uint64_t start) : m_buffers(&buffers), m_start(start) {}

    Buffers *m_buffers;
    std::uint64_t m_start;
    std::unique_ptr<Mover> m_mover;
};

std::unique_ptr<Mover> Buffers::take_mover() {
    {
        const os::MutexLock lock(m_mutex);
        if (!m_movers.empty()) {
            std::unique_ptr<Mover> mover = std::move(m_movers.back());
            m_movers.pop_back();
            return mover;
        }
        m_movers.reserve(m_movers.capacity() + 1); // give_back() must not throw
    }
    return std::make_unique<Mover>(m_cards);
}

void Buffers::give_back(std::unique_ptr<Mover> mover) {
    if (!mover)
        return;
    const os::MutexLock lock(m_mutex);
    m_movers.push_back(std::move(mover));
}

/// The other end of a copy is host memory: on a card its range would not be checked.
Result<void> Buffers::check_host(std::uint64_t host) const {
    if (host == 0 || m_cards.is_card_address(host))
        return refuse(EINVAL, os::format("{:#x} is not host memory", host));
    return {};
}

Result<void> Buffers::write(std::uint64_t address, std::uint64_t host, std::uint64_t length) {
    if (length == 0)
        return {};
    if (auto checked = check_host(host); !checked)
        return checked;
    auto use = Use::begin(*this, address, length);
    return use ? use->copy(address, host, length) : tl::unexpected(use.error());
}

Result<void> Buffers::read(std::uint64_t host, std::uint64_t address, std::uint64_t length) {
    if (length == 0)
        return {};
    if (auto checked = check_host(host); !checked)
        return checked;
    auto use = Use::begin(*this, address, length);
    return use ? use->copy(host, address, length) : tl::unexpected(use.error());
}

/// A piece comes from the host; the card doubles it until the range is full, which is faster than the link.
Result<void> Buffers::fill(std::uint64_t address, unsigned char byte, std::uint64_t length) {
    if (length == 0)
        return {};
    auto use = Use::begin(*this, address, length);
    if (!use)
        return tl::unexpected(use.error());
    constexpr std::uint64_t kPiece = 1 << 20;
    const std::vector<unsigned char> bytes(std::min(length, kPiece), byte);
    auto copied = use->copy(address, reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size());
    for (std::uint64_t done = bytes.size(); copied && done < length;) {
        const std::uint64_t more = std::min(done, length - done);
        copied = use->copy(address + done, address, more);
        done += more;
    }
    return copied;
}

Result<std::string> Buffers::bus_id(std::uint64_t address) {
    const os::MutexLock lock(m_mutex);
    const auto found = find(address);
    if (found == m_table.end())
        return tl::unexpected(explain(address));
    return found->second.memory.session().card().bus_id();
}

Result<void> Buffers::flush_rdma_writes(std::uint64_t address) {
    if (address == 0) {
        for (const auto &card : m_cards.all())
            if (const Session *session = card->find_session(); session && session->usable())
                if (auto flushed = session->device().flush_pci_writes(); !flushed)
                    return flushed;
        return {};
    }
    const Resolved memory = resolve(m_cards, address, 1);
    if (!memory)
        return refuse(
            EINVAL, os::format("cannot flush the writes to {:#x}: it is in no Gaudi memory of this process", address));
    if (!memory.session().usable())
        return tl::unexpected(memory.session().why_unusable());
    return memory.session().device().flush_pci_writes();
}

} // namespace gaudi::buffer
