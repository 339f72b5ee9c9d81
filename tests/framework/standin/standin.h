// SPDX-License-Identifier: BSD-3-Clause
// Common parts of the stand-ins for libSynapse.so and libscal.so on a software Gaudi2. Names, arguments and results are
// those of the public headers that gaudi/framework/synapse_abi.h cites.
//
// While STANDIN_FAULT=function:status is set, that function returns that status. With STANDIN_SHORT_INFO synDeviceGetInfo
// fills the shorter structure of 2021. With STANDIN_SPARES_A_PAGE SCAL does not allocate the last page of the card.
#pragma once

#include "gaudi/framework/synapse_abi.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))
#ifdef STANDIN_OLD // libraries of 2021, which lack these functions
#define STANDIN_EXPORT_NEW extern "C" __attribute__((visibility("hidden")))
#else
#define STANDIN_EXPORT_NEW STANDIN_EXPORT
#endif

namespace standin {

inline std::optional<int> find_fault(std::string_view function) {
    const char *value = std::getenv("STANDIN_FAULT");
    if (value == nullptr)
        return {};
    const std::string_view text = value;
    const std::size_t colon = text.find(':');
    if (colon == text.npos || text.substr(0, colon) != function)
        return {};
    return std::atoi(value + colon + 1);
}

} // namespace standin

// Only libSynapse calls these two; scal.h of the same sources declares them.
STANDIN_EXPORT int scal_init(int fd, const char *config, gaudi::vendor::ScalHandle *scal, void *firmware);
STANDIN_EXPORT void scal_destroy(gaudi::vendor::ScalHandle scal);

STANDIN_EXPORT gaudi::vendor::scal_get_handle_from_fd scal_get_handle_from_fd;
STANDIN_EXPORT gaudi::vendor::scal_get_pool_handle_by_name scal_get_pool_handle_by_name;
STANDIN_EXPORT_NEW gaudi::vendor::scal_pool_get_infoV2 scal_pool_get_infoV2;
