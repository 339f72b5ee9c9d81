// SPDX-License-Identifier: BSD-3-Clause
// A range of host memory that cards may copy from and to. It is mapped into a card's address space at the first copy
// there, and stays so until the range ends: mapping pins pages and is the expensive part of a copy.
#pragma once

#include "card.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gaudi {

class HostRange {
public:
    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards);
    HostRange(const HostRange &) = delete;
    HostRange &operator=(const HostRange &) = delete;

    std::uint64_t address() const { return m_address; }
    std::uint64_t length() const { return m_length; }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        return address >= m_address && length <= m_length && address - m_address <= m_length - length;
    }

    /// Where the card sees `address`, or nothing where the memory cannot be pinned.
    std::optional<std::uint64_t> on(Card &card, std::uint64_t address);

private:
    const std::uint64_t m_address;
    const std::uint64_t m_length;
    std::vector<std::atomic<std::uint64_t>> m_starts; // per card; 0 is not mapped yet, kRefused never will be
    std::mutex m_mutex;
    std::vector<thunk::Mapping> m_mappings;
};

} // namespace gaudi
