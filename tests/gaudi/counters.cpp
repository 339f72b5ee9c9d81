// SPDX-License-Identifier: BSD-3-Clause
// In a file of its own: the JSON library takes longer to compile than most tests.
#include "counters.h"

#include "output_of.h"

#include <nlohmann/json.hpp>

#include <numeric>

namespace gaudi::test {

Counters::Counters(const Card &card) {
    const nlohmann::json report = nlohmann::json::parse(output_of(SOFTGAUDI_STAT " --json"));
    for (const auto &entry : report.at("cards"))
        if (entry.at("bus_id") == card.bus_id()) {
            for (const auto &[name, value] : entry.items())
                if (value.is_number())
                    m_numbers[name] = value.get<std::uint64_t>();
            entry.at("calls").get_to(m_calls);
            m_in_use = entry.at("in_use").get<bool>();
        }
}

std::uint64_t Counters::calls(const char *function) const {
    const auto count = m_calls.find(function);
    return count == m_calls.end() ? 0 : count->second;
}

std::uint64_t Counters::calls() const {
    return std::accumulate(m_calls.begin(), m_calls.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto &count) { return sum + count.second; });
}

} // namespace gaudi::test
