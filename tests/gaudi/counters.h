// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "gaudi/card/card.h"

#include <cstdint>
#include <map>
#include <string>

namespace gaudi::test {

/// The counters of the software server for one card, at the time of construction.
class Counters {
public:
    explicit Counters(const Card &card);

    std::uint64_t operator[](const char *name) const { return m_numbers.at(name); }
    bool in_use() const { return m_in_use; }
    std::uint64_t calls(const char *function) const;
    /// The calls of all functions.
    std::uint64_t calls() const;

private:
    std::map<std::string, std::uint64_t> m_numbers, m_calls;
    bool m_in_use = false;
};

} // namespace gaudi::test
