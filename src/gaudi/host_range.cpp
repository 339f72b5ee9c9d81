// SPDX-License-Identifier: BSD-3-Clause
#include "host_range.h"

namespace gaudi {
namespace {

constexpr std::uint64_t kRefused = 1; // no mapping starts there

} // namespace

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards)
    : m_address(address), m_length(length), m_starts(cards) {}

std::optional<std::uint64_t> HostRange::on(Card &card, std::uint64_t address) {
    std::atomic<std::uint64_t> &start = m_starts[card.index()];
    std::uint64_t known = start.load(std::memory_order_acquire);
    if (known == 0) {
        const std::lock_guard guard(m_mutex);
        known = start.load(std::memory_order_acquire);
        if (known == 0) {
            known = kRefused;
            if (auto device = card.open()) {
                auto mapping = thunk::map_host(*device, reinterpret_cast<void *>(m_address), m_length);
                if (mapping) {
                    known = mapping->get();
                    m_mappings.push_back(std::move(*mapping));
                }
            }
            start.store(known, std::memory_order_release);
        }
    }
    if (known == kRefused)
        return {};
    return known + (address - m_address);
}

} // namespace gaudi
