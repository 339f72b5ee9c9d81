// SPDX-License-Identifier: BSD-3-Clause
// A libucp that is loaded at run time, whatever the names of its files are.
#pragma once

#include "cli/sentence.h"
#include "ucp_abi.h"

#include <string>

namespace gaudi::cli::explain {

/// Stays loaded until the process ends: UCX cannot be unloaded.
class UcpLibrary {
public:
    static OrSentence<UcpLibrary> load(const std::string &libucp);

#define GAUDI_EXPLAIN_MEMBER(name, ...)                                                                                \
    using name##_t = __VA_ARGS__;                                                                                      \
    name##_t *name = nullptr;
    GAUDI_EXPLAIN_UCP(GAUDI_EXPLAIN_MEMBER)
#undef GAUDI_EXPLAIN_MEMBER
};

} // namespace gaudi::cli::explain
