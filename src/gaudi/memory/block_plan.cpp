// SPDX-License-Identifier: BSD-3-Clause
#include "block_plan.h"

#include <algorithm>

namespace gaudi {
namespace {

constexpr std::uint64_t kFilledPercent = 95;
// Later blocks may be this many times larger than the smallest equal blocks that would do: that is what lets the first
// allocations of a size have blocks of their own.
constexpr std::uint64_t kGrowth = 2;

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

/// Blocks that are divided among allocations of one size.
class Division {
public:
    Division(std::uint64_t unit, std::uint64_t length)
        : m_unit(unit), m_length(length), m_needed(divide_up(length, unit)) {}

    std::uint64_t needed() const { return m_needed; }
    std::uint64_t allocations(std::uint64_t units) const { return units * m_unit / m_length; }

    /// The smallest block with which `units`, cut into blocks of that size and a rest, hold `wanted` allocations;
    /// UINT64_MAX if not even one block of all units does.
    std::uint64_t smallest_block(std::uint64_t units, std::uint64_t wanted) const {
        if (wanted == 0)
            return 0;
        for (std::uint64_t block = m_needed; block <= units; ++block)
            if (units / block * allocations(block) + allocations(units % block) >= wanted)
                return block;
        return UINT64_MAX;
    }

private:
    std::uint64_t m_unit, m_length, m_needed;
};

} // namespace

std::uint64_t plan_block(std::uint64_t length, const BlockSpace &space) {
    const Division division(space.unit, length);
    const std::uint64_t left = space.left / space.unit;
    if (division.needed() > left)
        return 0;
    const std::uint64_t all = (space.held + space.left) / space.unit;
    const std::uint64_t filled = divide_up((space.held + space.left) * kFilledPercent, 100);
    const std::uint64_t in_use = space.held - std::min(space.held, space.wasted);
    const std::uint64_t wanted =
        std::min(divide_up(filled - std::min(filled, in_use), length), division.allocations(left));
    const std::uint64_t moderate =
        kGrowth * division.smallest_block(all, std::min(divide_up(filled, length), division.allocations(all)));
    // What was wasted so far may leave no choice but larger ones. Equal blocks of this size satisfy the loop below.
    const std::uint64_t largest = std::max(moderate, division.smallest_block(left, wanted));
    for (std::uint64_t block = division.needed(); block < left; ++block) {
        const std::uint64_t held = division.allocations(block);
        if (division.smallest_block(left - block, wanted - std::min(wanted, held)) <= largest)
            return block * space.unit;
    }
    return left * space.unit;
}

} // namespace gaudi
