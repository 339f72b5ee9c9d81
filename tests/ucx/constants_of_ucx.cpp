// SPDX-License-Identifier: BSD-3-Clause
// The only file that sees UCX's own headers: their macros have the names of our constants.
#include "constants.h"

#include <ucm/api/ucm.h>
#include <ucs/config/parser.h>
#include <ucs/config/types.h>
#include <ucs/memory/memory_type.h>
#include <ucs/sys/event_set.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/status.h>
#include <ucs/type/thread_mode.h>
#include <uct/api/uct.h>

#define ROW(name) {#name, (long)(name)},
const Constant public_constants_of_ucx[] = {UCX_PUBLIC_CONSTANTS(ROW){nullptr, 0}};
