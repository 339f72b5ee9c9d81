// SPDX-License-Identifier: BSD-3-Clause
// The register of assumptions about cards and their driver.
#pragma once

#include <span>
#include <string_view>

namespace gaudi::cli::verify {

struct Assumption {
    std::string_view id;
    std::string_view sentence;
    std::string_view source;
    std::string_view test;     // a step of `ucx_gaudi verify`, a self-test of the product, or *not testable*
    std::string_view if_false; // what the product does then

    bool has_step() const { return test.find("step `") != test.npos; }
};

std::span<const Assumption> assumptions();
/// Null for an unknown id.
const Assumption *find_assumption(std::string_view id);

} // namespace gaudi::cli::verify
