// SPDX-License-Identifier: BSD-3-Clause
// The result of a step of a command: a value, or the one sentence that is printed for the user.
#pragma once

#include <tl/expected.hpp>

#include <string>

namespace gaudi::cli {

template <class T>
using OrSentence = tl::expected<T, std::string>;
using Sentence = tl::unexpected<std::string>;

} // namespace gaudi::cli
