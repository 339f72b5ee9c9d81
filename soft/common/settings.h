// SPDX-License-Identifier: BSD-3-Clause
// Settings that a library reads at its start, one after another, until one is wrong.
#pragma once

#include "common/parsing.h"

namespace soft {

/// A count from 0 to `most`; `usual` where the variable is not set.
Expected<unsigned> read_count(const char *variable, unsigned usual, unsigned most);

/// Moves a value to `to`; false when there is none, and `wrong` then says why.
template <class T>
bool assign(Expected<T> value, T &to, std::string &wrong) {
    if (value)
        to = std::move(*value);
    else
        wrong = std::move(value.error());
    return value.has_value();
}

} // namespace soft
