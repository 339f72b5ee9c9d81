// SPDX-License-Identifier: BSD-3-Clause
// SynapseAI, where the process has loaded it: in real jobs it opens the card and owns its memory. It is found by name in
// the process, never linked and never loaded by this library.
#pragma once

#include "gaudi/card/result.h"
#include "synapse_abi.h"

#include <cstdint>
#include <vector>

namespace gaudi {

// Names of functions without their prefix.
#define GAUDI_SYNAPSE_INFO(X)                                                                                          \
    X(DeviceGetInfo)                                                                                                   \
    X(DeviceGetInfoV2)
#define GAUDI_SYNAPSE_MEMORY(X)                                                                                        \
    X(DeviceMalloc)                                                                                                    \
    X(DeviceFree)
#define GAUDI_SYNAPSE_COPY(X)                                                                                          \
    X(HostMap)                                                                                                         \
    X(HostUnmap)                                                                                                       \
    X(StreamCreateGeneric)                                                                                             \
    X(StreamDestroy)                                                                                                   \
    X(StreamSynchronize)                                                                                               \
    X(MemCopyAsync)                                                                                                    \
    X(EventCreate)                                                                                                     \
    X(EventRecord)                                                                                                     \
    X(EventQuery)                                                                                                      \
    X(EventDestroy)

class CardIdentity;

class Synapse {
public:
    /// Null while no SynapseAI is loaded. Notices one that is loaded later, at little cost; one that was found stays. The
    /// caller holds no lock: the dynamic loader takes its own.
    static const Synapse *loaded() noexcept;

    /// SynapseAI, if it holds this card. As loaded().
    static const Synapse *holder_of(const CardIdentity &card) noexcept;

    /// A process holds one card at most, and SynapseAI calls it by this number.
    static constexpr std::uint32_t kDevice = 0;

    /// The descriptor of the card that SynapseAI holds, which stays its own; -1 for none. While it holds none, SynapseAI
    /// writes a line to its log at each call.
    int descriptor() const noexcept;

    /// The range that SynapseAI serves its users from: [begin, begin + size). It is part of one mapping of the driver, and
    /// only the start of that, `mapping`, can be exported.
    struct Pool {
        std::uint64_t mapping;
        std::uint64_t begin;
        std::uint64_t size;

        /// From the start of the mapping to the end of the pool: the length of an export that holds the whole pool.
        std::uint64_t reach() const noexcept { return begin - mapping + size; }
    };
    /// The pools of the card behind SynapseAI's descriptor. Empty where SCAL does not give them.
    std::vector<Pool> pools(int fd) const;

    /// Device memory out of its pool, with SynapseAI's own alignment (128 bytes in the versions that are known).
    bool can_allocate() const noexcept;
    Result<void> allocate(std::uint64_t length, std::uint64_t *address) const;
    Result<void> free(std::uint64_t address) const;

    /// Whether it has all functions that SynapseStream needs.
    bool can_copy() const noexcept;

    /// A function that the library lacks is null.
    struct Calls {
#define GAUDI_SYNAPSE_MEMBER(name) vendor::syn##name *name = nullptr;
        GAUDI_SYNAPSE_INFO(GAUDI_SYNAPSE_MEMBER)
        GAUDI_SYNAPSE_MEMORY(GAUDI_SYNAPSE_MEMBER)
        GAUDI_SYNAPSE_COPY(GAUDI_SYNAPSE_MEMBER)
#undef GAUDI_SYNAPSE_MEMBER
    };
    const Calls &call() const noexcept { return m_call; }

    explicit Synapse(void *library) noexcept; // for loaded()
    Synapse(const Synapse &) = delete;
    Synapse &operator=(const Synapse &) = delete;

private:
    Calls m_call;
};

} // namespace gaudi
