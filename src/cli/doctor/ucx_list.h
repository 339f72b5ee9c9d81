// SPDX-License-Identifier: BSD-3-Clause
// Settings of UCX that are lists of names, with a ^ in front where they exclude.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::cli::doctor {

class UcxList {
public:
    explicit UcxList(std::string_view text) {
        m_excludes = text.starts_with('^');
        if (m_excludes)
            text.remove_prefix(1);
        while (!text.empty()) {
            const std::size_t end = std::min(text.find(','), text.size());
            if (end > 0)
                m_names.emplace_back(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
    }

    bool excludes() const { return m_excludes; }
    const std::vector<std::string> &names() const { return m_names; }
    /// Whether the list selects something that has these names.
    bool selects(std::initializer_list<std::string_view> names) const {
        const bool named = std::ranges::any_of(
            m_names, [&](const std::string &name) { return std::ranges::find(names, name) != names.end(); });
        return m_excludes ? !named : named || std::ranges::find(m_names, "all") != m_names.end();
    }

private:
    bool m_excludes = false;
    std::vector<std::string> m_names;
};

} // namespace gaudi::cli::doctor
