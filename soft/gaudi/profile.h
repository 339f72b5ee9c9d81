// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_PROFILE: a report of `ucx_gaudi verify --json` (docs/schema/verify-1.json), as which the cards then behave.
#pragma once

#include "behaviour.h"
#include "model.h"

#include <tl/expected.hpp>

#include <string>

namespace softgaudi {

struct Profile {
    Model model;
    Quirks quirks;
    Behaviour behaviour;
};

/// The error says what is wrong with the file.
tl::expected<Profile, std::string> read_profile(const std::string &file);

} // namespace softgaudi
