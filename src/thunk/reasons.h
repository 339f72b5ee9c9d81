// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_GAUDI_THUNK_REASONS_H
#define UCX_GAUDI_THUNK_REASONS_H

#include <string_view>

namespace gaudi::thunk {

// What an errno means coming from this call, where that is more than strerror knows; else nullptr.
const char *known_reason(std::string_view call, int code) noexcept;

} // namespace gaudi::thunk

#endif
