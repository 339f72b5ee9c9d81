// SPDX-License-Identifier: BSD-3-Clause
// What the two stand-ins for SynapseAI's libraries share: libSynapse.so and libscal.so on a software Gaudi2. Names,
// arguments and answers are those of the public headers that gaudi/framework_abi.h cites.
//
// STANDIN_FAULT=function:status makes a function answer that status, for as long as it is set. With STANDIN_SHORT_INFO
// synDeviceGetInfo fills the shorter structure of 2021.
#pragma once

#include "gaudi/framework_abi.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))
#ifdef STANDIN_OLD // as of 2021, when these were not there
#define STANDIN_EXPORT_NEW extern "C" __attribute__((visibility("hidden")))
#else
#define STANDIN_EXPORT_NEW STANDIN_EXPORT
#endif

namespace standin {

inline std::optional<int> fault(std::string_view function) {
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

// These two are libSynapse's business with libscal only; their declarations are in scal.h of the same sources.
STANDIN_EXPORT int scal_init(int fd, const char *config, gaudi::vendor::ScalHandle *scal, void *firmware);
STANDIN_EXPORT void scal_destroy(gaudi::vendor::ScalHandle scal);

STANDIN_EXPORT gaudi::vendor::scal_get_handle_from_fd scal_get_handle_from_fd;
STANDIN_EXPORT gaudi::vendor::scal_get_pool_handle_by_name scal_get_pool_handle_by_name;
STANDIN_EXPORT_NEW gaudi::vendor::scal_pool_get_infoV2 scal_pool_get_infoV2;
