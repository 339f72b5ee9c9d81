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
    : AccountedRange(address, length, cards, residency == Residency::evictable || residency == Residency::cached),
      m_fork(fork_count()), m_residency(residency) {
    constexpr std::uint64_t kMergeUpTo = HostMemory::kMergedBytes / 2; // two of these are one mapping
    if (residency == Residency::evictable && length > 0 && length <= kMergeUpTo && address <= UINT64_MAX - length) {
        HostMemory::get().enroll(*this);
        m_was_mapped.store(true, std::memory_order_relaxed);
    }
}

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf,
                     std::uint64_t offset)
    : AccountedRange(address, length, cards, false), m_fork(fork_count()), m_residency(Residency::permanent),
      m_dmabuf(std::move(dmabuf)), m_offset(offset) {}

HostRange::~HostRange() {
    // In a forked child no engine ends the copies, and no mapping is undone.
    const bool held = m_copies->load(std::memory_order_acquire) != 0 && m_fork == fork_count();
    if (!held && !m_was_mapped.load(std::memory_order_acquire))
        return;
    HostMemory &memory = HostMemory::get();
    if (held) {
        wait_for_copies();
        if (m_copies->load(std::memory_order_acquire) != 0)
            for (const Session *session : memory.detach(*this))
                thunk::report(thunk::make_error(ETIMEDOUT, "unmap", session->card().bus_id(),
                                                "a copy does not end, so its host memory stays pinned"));
    }
    memory.remove(*this);
    if (m_copies->load(std::memory_order_acquire) != 0)
        memory.keep(std::move(m_copies));
}

void HostRange::wait_for_copies() {
    const auto limit = std::chrono::steady_clock::now() + kCopiesLimit;
    while (has_running_copies() && std::chrono::steady_clock::now() < limit) {
        for (const Session *session : HostMemory::get().sessions_of(*this))
            session->progress();
        std::this_thread::yield(); // a thread that holds the range may be about to post
    }
}

Result<HostMapping> HostRange::make_mapping(Session &session, std::uint64_t begin, std::uint64_t length) const {
    if (!session.usable())
        return tl::unexpected(session.why_unusable());
    std::shared_ptr<HostMapper> mapper = session.get<HostAccess>().mapper();
    if (mapper->maps_own_memory_only() && m_residency != Residency::own && !is_dmabuf())
        return tl::unexpected(thunk::make_error(
            ENOTSUP, "map", session.card().bus_id(),
            "only memory of this library is mapped through the framework; other memory is staged there"));
    // An import begins where the dma-buf does.
    const auto start = is_dmabuf() ? mapper->import_dmabuf(m_dmabuf.get(), m_offset + length)
                                   : mapper->map(reinterpret_cast<void *>(begin), length);
    if (!start)
        return tl::unexpected(start.error());
    return HostMapping(session, std::move(mapper), *start);
}

/// Unmaps other ranges where the limit or the driver demands it.
Result<HostMapping> HostRange::make_mapping_with_room(Session &session) const {
    if (!evictable())
        return make_mapping(session, address(), length());
    if (!HostMemory::get().make_room(*this))
        return tl::unexpected(thunk::make_error(
            ENOMEM, "map", "",
            os::format("{} bytes more would exceed the limit of mapped host memory, and running copies use what is "
                       "mapped; raise {}",
                       length(), settings().max_mapped_host.name)));
    auto mapping = make_mapping(session, address(), length());
    while (!mapping && mapping.error().code == ENOMEM && HostMemory::get().evict_one())
        mapping = make_mapping(session, address(), length());
    return mapping;
}

/// Together with its neighbours, else alone. Returns where the card sees the range.
Result<std::uint64_t> HostRange::map_on(Session &session) {
    HostMemory &memory = HostMemory::get();
    for (const bool alone : {false, true}) {
        MergedRanges ranges(*this);
        if (!alone && !memory.merge(*this, session, ranges))
            continue;
        auto mapping = alone ? make_mapping_with_room(session) : make_mapping(session, ranges.begin, ranges.length());
        if (!mapping) {
            const int code = mapping.error().code;
            if (alone)
                return tl::unexpected(mapping.error());
            memory.cancel(ranges, !may_succeed_later(code) || code == ENOMEM);
            continue;
        }
        std::uint64_t start = mapping->start() + m_offset;
        switch (memory.add(ranges, *mapping, start)) {
        case HostMemory::Added::added:
        case HostMemory::Added::mapped_meanwhile:
            return start;
        case HostMemory::Added::session_ended: // while it was mapped
            mapping->detach();
            return tl::unexpected(session.why_unusable());
        case HostMemory::Added::neighbour_ended:
            break;
        }
    }
    return tl::unexpected(session.why_unusable()); // not reached: a range alone has no neighbour
}

Result<std::uint64_t> HostRange::map_now(Session &session, std::uint64_t address) {
    const os::MutexLock lock(m_mutex);
    std::atomic<std::uint64_t> &start = slot(session).start;
    std::uint64_t known = start.load(std::memory_order_acquire); // another thread may have mapped it meanwhile
    if (known == kRefused) {
        if (is_refused_by(session))
            return tl::unexpected(m_refusal);
        start.store(0, std::memory_order_release); // an earlier session's refusal says nothing about this one
        known = 0;
    }
    if (known == 0) {
        m_was_mapped.store(true, std::memory_order_release);
        const auto mapped = map_on(session);
        if (!mapped) {
            m_refusal = mapped.error();
            if (!may_succeed_later(m_refusal.code) && session.usable()) {
                m_refused_by.resize(m_slots.size());
                m_refused_by[session.card().slot()] = &session;
                std::uint64_t unmapped = 0; // a neighbour's mapping may reach it by now
                start.compare_exchange_strong(unmapped, kRefused, std::memory_order_release);
            }
            return tl::unexpected(m_refusal);
        }
        known = *mapped;
    }
    return known + (address - this->address());
}

} // namespace gaudi
