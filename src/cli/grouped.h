// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gaudi::cli {

/// Items by what is to be said of them, in the order in which they came: one sentence for all that share it.
template <class Item>
class Grouped {
public:
    void add(const std::string &sentence, Item item) {
        for (auto &[known, items] : m_groups) {
            if (known == sentence) {
                items.push_back(std::move(item));
                return;
            }
        }
        m_groups.emplace_back(sentence, std::vector<Item>{std::move(item)});
    }

    bool empty() const { return m_groups.empty(); }
    auto begin() const { return m_groups.begin(); }
    auto end() const { return m_groups.end(); }

private:
    std::vector<std::pair<std::string, std::vector<Item>>> m_groups;
};

/// As in "card 3" or "cards 0-3, 6".
std::string name_cards(const std::vector<std::uint64_t> &numbers);

} // namespace gaudi::cli
