// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace gaudi::thunk {

/// What an errno means when this call returns it, where that is more than strerror says; else nullptr.
const char *known_reason(std::string_view call, int code) noexcept;

} // namespace gaudi::thunk
