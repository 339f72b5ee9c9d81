// SPDX-License-Identifier: BSD-3-Clause
// What a command gives: a value, or the one sentence that the user gets instead.
#pragma once

#include <tl/expected.hpp>

#include <string>

namespace gaudi::cli {

template <class T>
using OrSentence = tl::expected<T, std::string>;
using Sentence = tl::unexpected<std::string>;

} // namespace gaudi::cli
