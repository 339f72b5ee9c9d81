// SPDX-License-Identifier: BSD-3-Clause
// The two packets of CsEngine, as a Gaudi2 queue reads them: a copy, and a message that sets the completion flag.
#pragma once

#include <cstdint>

namespace gaudi::packet {

inline constexpr std::uint32_t kOpcodeShift = 24;
inline constexpr std::uint32_t kEngineBarrier = 1u << 29;  // after the copies before it
inline constexpr std::uint32_t kMessageBarrier = 1u << 31; // after the messages before it

struct LinearDma {
    std::uint32_t size;
    std::uint32_t control = 9u << kOpcodeShift | kMessageBarrier;
    std::uint64_t source;
    std::uint64_t destination;
};
static_assert(sizeof(LinearDma) == 24);

struct Message {
    std::uint32_t value;
    std::uint32_t control = 3u << kOpcodeShift | kEngineBarrier | kMessageBarrier;
    std::uint64_t address;
};
static_assert(sizeof(Message) == 16);

} // namespace gaudi::packet
