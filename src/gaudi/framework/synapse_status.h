// SPDX-License-Identifier: BSD-3-Clause
// SynapseAI's status codes as errors of this library.
#pragma once

#include "gaudi/card/result.h"
#include "synapse_abi.h"

#include <string>

namespace gaudi::vendor {

/// The error of a call that SynapseAI refused.
tl::unexpected<Error> failure(Status status, const char *call, const std::string &args = {});
/// The same; success for synSuccess.
Result<void> outcome(Status status, const char *call, const std::string &args = {});

} // namespace gaudi::vendor
