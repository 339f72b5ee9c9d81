// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "card.h"

namespace softgaudi {

/// Runs one job to its end on the calling thread.
void run_job(Card &card, const Job &job);

} // namespace softgaudi
