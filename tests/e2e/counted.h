// SPDX-License-Identifier: BSD-3-Clause
// A look at what the software cards and HCAs have counted so far.
#pragma once

#include "moved.h"

namespace e2e {

inline Moved counted() { return Moved::so_far(SOFTGAUDI_STAT, SOFTHCA_STAT); }

} // namespace e2e
