// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "gaudi/card.h"

#include <cstdint>
#include <map>
#include <string>

namespace gaudi::test {

/// What the software server has counted for a card so far.
class Counters {
public:
    explicit Counters(const Card &card);

    std::uint64_t operator[](const char *name) const { return m_numbers.at(name); }
    bool in_use() const { return m_in_use; }
    std::uint64_t calls(const char *function) const;
    /// Of all functions.
    std::uint64_t calls() const;

private:
    std::map<std::string, std::uint64_t> m_numbers, m_calls;
    bool m_in_use = false;
};

} // namespace gaudi::test
