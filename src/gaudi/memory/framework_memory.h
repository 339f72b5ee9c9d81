// SPDX-License-Identifier: BSD-3-Clause
// Device memory of a card that SynapseAI holds. SynapseAI takes all memory of its card in one allocation, so that the driver
// has none left: what this library needs there comes from SynapseAI's own allocator.
#pragma once

#include "allocation_request.h"
#include "gaudi/card/session.h"
#include "gaudi/framework/synapse.h"

#include <cstdint>
#include <map>

namespace gaudi {

class FrameworkMemory : public SessionPart {
public:
    static constexpr PartKind kKind = PartKind::framework_memory;

    explicit FrameworkMemory(Session &session) : m_session(session) {}

    /// SynapseAI, if it holds the card and allocates for others; null otherwise. The caller holds no lock.
    static const Synapse *find_allocator(const Card &card) noexcept;

    /// The address, in SynapseAI's pool. The caller holds no lock.
    Result<std::uint64_t> allocate(const Synapse &synapse, const AllocationRequest &request);
    /// False when no allocation of allocate() starts at `address`. The caller holds no lock.
    bool free(std::uint64_t address);

    /// The allocations end with SynapseAI's pool: it is closing the card and is not called.
    void release() override;

private:
    struct Allocation {
        std::uint64_t address; // SynapseAI's; that of the caller may be above it, for its alignment
        std::uint64_t length;
    };

    class Reservation;

    Result<std::uint64_t> take(const Synapse &synapse, std::uint64_t length) const;
    void give_back(const Synapse &synapse, std::uint64_t address) const;

    Session &m_session;
    os::Mutex m_mutex{rank::kFrameworkMemory};                                   // never held while SynapseAI is called
    std::map<std::uint64_t, Allocation> m_allocations GAUDI_GUARDED_BY(m_mutex); // by the caller's address
    std::uint64_t m_held GAUDI_GUARDED_BY(m_mutex) = 0;                          // bytes
    std::uint64_t m_reserved GAUDI_GUARDED_BY(m_mutex) = 0; // bytes of calls under way, which count for the limit too
};

} // namespace gaudi
