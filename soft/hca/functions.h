// SPDX-License-Identifier: BSD-3-Clause
// The functions that SOFTHCA_FAULTS can name, without ibv_.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace softhca {

inline constexpr std::array<std::string_view, 14> kFunctions = {
    "open_device", "alloc_pd",  "reg_mr",    "reg_dmabuf_mr", "create_comp_channel", "create_cq",  "create_srq",
    "create_qp",   "modify_qp", "create_ah", "post_send",     "post_recv",           "query_port", "query_device",
};

constexpr std::optional<size_t> function_index(std::string_view name) {
    for (size_t i = 0; i < kFunctions.size(); ++i)
        if (kFunctions[i] == name)
            return i;
    return {};
}

/// Index of a function, checked at compile time.
struct Function {
    size_t index;
    template <size_t N>
    consteval Function(const char (&name)[N]) : index(function_index(name).value()) {}
};

} // namespace softhca
