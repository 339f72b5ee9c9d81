// SPDX-License-Identifier: BSD-3-Clause
// The counters of the software cards and HCAs.
#pragma once

#include "moved.h"

namespace e2e {

inline Moved read_counters() { return Moved::so_far(SOFTGAUDI_STAT, SOFTHCA_STAT); }

} // namespace e2e
