// SPDX-License-Identifier: BSD-3-Clause
// SynapseAI, where it is loaded: in real jobs it opens the card and owns its memory, so we ask it. It is found by name
// in the process, never linked and never loaded by us.
#pragma once

#include "framework_abi.h"

#include <cstdint>
#include <vector>

namespace gaudi {

// Without their prefix.
#define GAUDI_FRAMEWORK_INFO(X)                                                                                        \
    X(DeviceGetInfo)                                                                                                   \
    X(DeviceGetInfoV2)
#define GAUDI_FRAMEWORK_COPY(X)                                                                                        \
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

class Framework {
public:
    /// Null while no SynapseAI is loaded. Notices one that is loaded later, at little cost; one that was found stays.
    static const Framework *loaded() noexcept;

    /// A process holds one card at most, and this is what SynapseAI calls it.
    static constexpr std::uint32_t kDevice = 0;

    /// The descriptor of the card that SynapseAI holds, which stays its own; -1 for none. Before it has one SynapseAI
    /// writes a line to its log each time that it is asked.
    int descriptor() const noexcept;

    /// Where SynapseAI gets its users' memory from: [begin, begin + size). It is part of one mapping of the driver, and
    /// only the start of that, `mapping`, can be exported.
    struct Pool {
        std::uint64_t mapping;
        std::uint64_t begin;
        std::uint64_t size;

        /// From the start of the mapping to the end of the pool: the length of an export that has it all.
        std::uint64_t reach() const noexcept { return begin - mapping + size; }
    };
    /// The pools of the card behind SynapseAI's descriptor. Empty when nothing is known about them.
    std::vector<Pool> pools(int fd) const;

    /// Whether it has all that FrameworkStream needs.
    bool copies() const noexcept;

    /// A null one is not in the library.
    struct Calls {
#define GAUDI_FRAMEWORK_MEMBER(name) vendor::syn##name *name = nullptr;
        GAUDI_FRAMEWORK_INFO(GAUDI_FRAMEWORK_MEMBER)
        GAUDI_FRAMEWORK_COPY(GAUDI_FRAMEWORK_MEMBER)
#undef GAUDI_FRAMEWORK_MEMBER
    };
    const Calls &call() const noexcept { return m_call; }

    explicit Framework(void *library) noexcept; // for loaded()
    Framework(const Framework &) = delete;
    Framework &operator=(const Framework &) = delete;

private:
    Calls m_call;
};

} // namespace gaudi
