// SPDX-License-Identifier: BSD-3-Clause
// How the device layer reports failure: a value, or an errno with one sentence for people.
#pragma once

#include "thunk/error.h"

namespace gaudi {

using Error = thunk::Error;

template <class T>
using Result = thunk::Result<T>;

} // namespace gaudi
