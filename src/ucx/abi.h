// SPDX-License-Identifier: BSD-3-Clause
// UCX's ABI as far as a module needs it, declared by hand: nothing of UCX is included or linked.
#pragma once

#include "abi_perftest.h"
#include "abi_ucm.h"
#include "abi_ucs.h"
#include "abi_uct.h"
#include "abi_uct_iface.h"
#include "abi_uct_md.h"
