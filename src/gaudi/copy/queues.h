// SPDX-License-Identifier: BSD-3-Clause
// Queues of a Gaudi2 that copies are submitted to.
#pragma once

#include <array>
#include <cstdint>

namespace gaudi {

inline constexpr std::array<std::uint32_t, 2> kDownQueues = {0, 1}; // two streams of the engine for each direction
inline constexpr std::array<std::uint32_t, 2> kUpQueues = {4, 5};
/// The first stream of each DMA engine within the card, by the bits of edma_enabled_mask.
inline constexpr std::array<std::uint32_t, 8> kCardQueues = {8, 12, 48, 52, 84, 88, 120, 124};

} // namespace gaudi
