// SPDX-License-Identifier: BSD-3-Clause
#include "card_identity.h"

#include "os/format.h"

#include <cerrno>
#include <utility>

namespace gaudi {

CardIdentity::CardIdentity(const thunk::Library &library, unsigned slot, std::uint32_t number, std::string bus_id,
                           const hlthunk_hw_ip_info &info, NodeProof node)
    : m_library(library), m_slot(slot), m_number(number), m_bus_id(std::move(bus_id)), m_info(info),
      m_node(std::move(node)) {}

std::uint64_t CardIdentity::block_size() const {
    constexpr std::uint64_t kEnough = 512ull << 20;
    return page_size() >= kEnough ? page_size() : (kEnough + page_size() - 1) / page_size() * page_size();
}

Range CardIdentity::address_range() const {
    constexpr std::uint64_t kProcessors = 1ull << 57; // with five levels of page tables, the most there are
    constexpr std::uint64_t kSpace = 1ull << 48;      // that the card's memory management has for it
    const std::uint64_t base = m_info.dram_base_address;
    return base < kProcessors ? Range{} : Range{base, kSpace - base % kSpace};
}

Error CardIdentity::error_inherited() const {
    return {ENODEV, "hlthunk_open",
            os::format("card {} ({}) was opened before this process was forked off, and is its parent's; use another "
                       "card, or open it after the fork",
                       m_number, m_bus_id)};
}

Error CardIdentity::error_closed() const {
    return {ENODEV, "hlthunk_close",
            os::format("the session on card {} ({}) has ended: the program closed the card, or opened it itself; free "
                       "its memory and allocate again",
                       m_number, m_bus_id)};
}

Error CardIdentity::error_lost() const {
    return {ENODEV, "hlthunk_notifier_recv",
            os::format("card {} ({}) was reset by its driver or is gone, and what was on it is lost: free its memory "
                       "and allocate again",
                       m_number, m_bus_id)};
}

Error CardIdentity::error_in_reset() const { return thunk::make_error(EAGAIN, "hlthunk_open", m_bus_id); }

} // namespace gaudi
