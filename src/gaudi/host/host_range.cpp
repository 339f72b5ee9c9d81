// SPDX-License-Identifier: BSD-3-Clause
#include "host_range.h"

#include "gaudi/card/forks.h"
#include "gaudi/card/settings.h"
#include "host_access.h"
#include "os/format.h"
#include "thunk/report.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace gaudi {
namespace {

constexpr auto kCopiesLimit = std::chrono::seconds(10);

/// Whether the next copy may be able to map the range. Other refusals are about the memory itself.
bool may_succeed_later(int code) {
    return thunk::is_transient(code) || code == ENODEV || code == EBADF ||
           code == EIO; // a card that was closed or reset, and may be opened again
}

} // namespace

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, Residency residency)
    : m_fork(fork_count()), m_address(address), m_length(length), m_residency(residency), m_starts(cards),
      m_refused_by(cards) {}

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf,
                     std::uint64_t offset)
    : m_fork(fork_count()), m_address(address), m_length(length), m_residency(Residency::permanent),
      m_dmabuf(std::move(dmabuf)), m_offset(offset), m_starts(cards), m_refused_by(cards) {}

HostRange::~HostRange() {
    // In a forked child no engine ends the copies, and no mapping is undone.
    const bool held = m_copies->load(std::memory_order_acquire) != 0 && m_fork == fork_count();
    if (!held && !m_was_mapped.load(std::memory_order_acquire))
        return;
    if (held) {
        wait_for_copies();
        if (m_copies->load(std::memory_order_acquire) != 0) {
            const os::MutexLock lock(m_mutex);
            for (HostMapping &mapping : m_mappings) {
                thunk::report(thunk::make_error(ETIMEDOUT, "unmap", mapping.session().card().bus_id(),
                                                "a copy does not end, so its host memory stays pinned"));
                mapping.detach();
            }
        }
    }
    HostMemory::get().remove(*this);
    if (m_copies->load(std::memory_order_acquire) != 0)
        HostMemory::get().keep(std::move(m_copies));
}

void HostRange::wait_for_copies() {
    const auto limit = std::chrono::steady_clock::now() + kCopiesLimit;
    while (has_running_copies() && std::chrono::steady_clock::now() < limit) {
        std::vector<const Session *> sessions;
        {
            const os::MutexLock lock(m_mutex);
            for (const HostMapping &mapping : m_mappings)
                sessions.push_back(&mapping.session());
        }
        for (const Session *session : sessions)
            session->progress();
        std::this_thread::yield(); // a thread that holds the range may be about to post
    }
}

void HostRange::end_mappings(std::vector<HostMapping> &later) GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    // Either the lock is held (unmap_if_idle) or no other thread has the range (its end).
    for (HostMapping &mapping : m_mappings)
        if (mapping.unmap_may_block())
            later.push_back(std::move(mapping));
    m_mappings.clear();
}

std::optional<unsigned> HostRange::unmap_from(const Session &session) {
    slot(session).store(0, std::memory_order_seq_cst); // also while the range is being mapped on another card
    if (!m_mutex.try_lock())
        return {};
    const os::MutexLock lock(m_mutex, std::adopt_lock);
    const bool abandoned = m_copies->load(std::memory_order_acquire) / kAbandoned != 0;
    return static_cast<unsigned>(std::erase_if(m_mappings, [&](HostMapping &mapping) {
        if (&mapping.session() != &session)
            return false;
        if (abandoned || session.card_lost()) // the driver unmaps it with the descriptor
            mapping.detach();
        return true;
    }));
}

bool HostRange::unmap_if_idle(std::vector<HostMapping> &later) {
    if (!m_mutex.try_lock())
        return false;
    const os::MutexLock lock(m_mutex, std::adopt_lock);
    if (m_copies->load(std::memory_order_seq_cst) != 0)
        return false;
    std::vector<std::uint64_t> starts(m_starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i)
        starts[i] = m_starts[i].load(std::memory_order_relaxed);
    for (const HostMapping &mapping : m_mappings)
        slot(mapping.session()).store(0, std::memory_order_seq_cst);
    if (m_copies->load(std::memory_order_seq_cst) != 0) { // a copy has just begun, and may have seen the mapping
        for (std::size_t i = 0; i < starts.size(); ++i)
            m_starts[i].store(starts[i], std::memory_order_seq_cst);
        return false;
    }
    end_mappings(later);
    return true;
}

Result<HostMapping> HostRange::make_mapping(Session &session) const {
    if (!session.usable())
        return tl::unexpected(session.why_unusable());
    std::shared_ptr<HostMapper> mapper = session.get<HostAccess>().mapper();
    if (mapper->maps_own_memory_only() && m_residency != Residency::own && !is_dmabuf())
        return tl::unexpected(thunk::make_error(
            ENOTSUP, "map", session.card().bus_id(),
            "only memory of this library is mapped through the framework; other memory is staged there"));
    // An import begins where the dma-buf does.
    const auto start = is_dmabuf() ? mapper->import_dmabuf(m_dmabuf.get(), m_offset + m_length)
                                   : mapper->map(reinterpret_cast<void *>(m_address), m_length);
    if (!start)
        return tl::unexpected(start.error());
    return HostMapping(session, std::move(mapper), *start);
}

/// Unmaps other ranges where the limit or the driver demands it.
Result<HostMapping> HostRange::make_mapping_with_room(Session &session) const {
    if (!evictable())
        return make_mapping(session);
    if (!HostMemory::get().make_room(*this, m_length))
        return tl::unexpected(thunk::make_error(
            ENOMEM, "map", "",
            os::format("{} bytes more would exceed the limit of mapped host memory, and running copies use what is "
                       "mapped; raise {}",
                       m_length, settings().max_mapped_host.name)));
    auto mapping = make_mapping(session);
    while (!mapping && mapping.error().code == ENOMEM && HostMemory::get().evict_one(*this))
        mapping = make_mapping(session);
    return mapping;
}

Result<std::uint64_t> HostRange::refuse(Error error) {
    m_refusal = std::move(error);
    return tl::unexpected(m_refusal);
}

Result<std::uint64_t> HostRange::map_now(Session &session, std::uint64_t address) {
    const os::MutexLock lock(m_mutex);
    std::atomic<std::uint64_t> &start = slot(session);
    std::uint64_t known = start.load(std::memory_order_acquire); // another thread may have mapped it meanwhile
    if (known == kRefused && is_refused_by(session))
        return tl::unexpected(m_refusal);
    if (known <= kRefused) {
        start.store(0, std::memory_order_release); // an earlier session's refusal says nothing about this one
        m_being_mapped.store(true, std::memory_order_release);
        auto mapping = make_mapping_with_room(session);
        m_being_mapped.store(false, std::memory_order_release);
        if (!mapping) {
            if (!may_succeed_later(mapping.error().code) && session.usable()) {
                m_refused_by[session.card().slot()] = &session;
                start.store(kRefused, std::memory_order_release);
            }
            return refuse(mapping.error());
        }
        m_was_mapped.store(true, std::memory_order_release);
        known = mapping->start() + m_offset;
        m_mappings.push_back(std::move(*mapping));
        if (!HostMemory::get().add(*this, m_length, session)) { // closed while it was mapped
            m_mappings.back().detach();
            m_mappings.pop_back();
            return refuse(session.why_unusable());
        }
        start.store(known, std::memory_order_release);
    }
    return known + (address - m_address);
}

} // namespace gaudi
