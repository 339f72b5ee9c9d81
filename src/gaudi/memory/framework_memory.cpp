// SPDX-License-Identifier: BSD-3-Clause
#include "framework_memory.h"

#include "os/format.h"
#include "thunk/report.h"

#include <cerrno>
#include <optional>
#include <utility>

namespace gaudi {
namespace {

tl::unexpected<Error> refuse(int code, const Card &card, const std::string &reason) {
    return tl::unexpected(thunk::make_error(code, "allocate", card.bus_id(), reason));
}

} // namespace

/// Bytes of the limit, from the check to the end of the call.
class FrameworkMemory::Reservation {
public:
    Reservation(FrameworkMemory &memory, std::uint64_t length) GAUDI_REQUIRES(memory.m_mutex)
        : m_memory(memory), m_length(length) {
        memory.m_reserved += length;
    }
    ~Reservation() {
        const os::MutexLock lock(m_memory.m_mutex);
        release();
    }
    Reservation(const Reservation &) = delete;
    Reservation &operator=(const Reservation &) = delete;

    /// The caller holds the mutex, which the analysis knows by another name.
    void release() GAUDI_NO_THREAD_SAFETY_ANALYSIS { m_memory.m_reserved -= std::exchange(m_length, 0); }

private:
    FrameworkMemory &m_memory;
    std::uint64_t m_length;
};

const Synapse *FrameworkMemory::find_allocator(const Card &card) noexcept {
    const Synapse *synapse = Synapse::holder_of(card);
    return synapse && synapse->can_allocate() ? synapse : nullptr;
}

Result<std::uint64_t> FrameworkMemory::take(const Synapse &synapse, std::uint64_t length) const {
    std::uint64_t address = 0;
    if (auto taken = synapse.allocate(length, &address); !taken)
        return refuse(
            taken.error().code, m_session.card(),
            os::format("SynapseAI, which holds all memory of the card, gives none of it: {}", taken.error().text));
    return address;
}

void FrameworkMemory::give_back(const Synapse &synapse, std::uint64_t address) const {
    thunk::release_or_report([&] { return synapse.free(address); });
}

Result<std::uint64_t> FrameworkMemory::allocate(const Synapse &synapse, const AllocationRequest &request) {
    if (request.fixed != 0)
        return refuse(
            ENOTSUP, m_session.card(),
            os::format("nothing can be allocated at {:#x}: SynapseAI, which holds the card, chooses addresses "
                       "itself",
                       request.fixed));
    std::optional<Reservation> reserved;
    {
        const os::MutexLock lock(m_mutex);
        const std::uint64_t counted = m_held + m_reserved;
        if (request.length > request.limit || counted > request.limit - request.length)
            return tl::unexpected(error_exceeds(m_session.card(), request.limit, counted));
        reserved.emplace(*this, request.length);
    }
    auto taken = take(synapse, request.length);
    if (taken && request.alignment > 1 && *taken % request.alignment != 0) {
        give_back(synapse, *taken);
        taken = take(synapse, request.length + request.alignment);
    }
    if (!taken)
        return taken;
    const std::uint64_t unit = request.alignment > 1 ? request.alignment : 1;
    const std::uint64_t address = (*taken + unit - 1) / unit * unit;
    const os::MutexLock lock(m_mutex);
    if (!m_session.usable()) // SynapseAI has closed the card meanwhile, and its pool is gone
        return tl::unexpected(m_session.why_unusable());
    m_allocations[address] = {*taken, request.length};
    reserved->release(); // together with the next line: others never see the bytes twice
    m_held += request.length;
    return address;
}

bool FrameworkMemory::free(std::uint64_t address) {
    if (m_session.inherited()) // before the lock, which a thread of the parent may have held
        return false;
    Allocation allocation{};
    {
        const os::MutexLock lock(m_mutex);
        const auto found = m_allocations.find(address);
        if (found == m_allocations.end())
            return false;
        allocation = found->second;
        m_allocations.erase(found);
        m_held -= allocation.length;
    }
    if (const Synapse *synapse = Synapse::loaded(); synapse && m_session.usable())
        give_back(*synapse, allocation.address);
    return true;
}

void FrameworkMemory::release() {
    const os::MutexLock lock(m_mutex);
    m_allocations.clear();
    m_held = 0;
}

} // namespace gaudi
