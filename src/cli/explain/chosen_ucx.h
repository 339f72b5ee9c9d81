// SPDX-License-Identifier: BSD-3-Clause
// The UCX that a transfer is tried on, and the doctor's facts about it.
#pragma once

#include "cli/doctor/facts.h"
#include "cli/ucx.h"

#include <string>

namespace gaudi::cli::explain {

struct ChosenUcx {
    Ucx ucx;
    std::string source; // where it was found, as in "--ucx rapids"
    bool has_ib_module = true;
    doctor::Facts facts; // of the machine, with this UCX as the only one
};

/// `name` is the value of --ucx. Without it: the UCX that linked programs get here, else the first usable one, if there is
/// one with an ib module. No card is opened.
OrSentence<ChosenUcx> choose_ucx(const std::string &name);

} // namespace gaudi::cli::explain
