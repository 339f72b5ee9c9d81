// SPDX-License-Identifier: BSD-3-Clause
#include "layout.h"

#include "abi.h"

#include <cstddef>

namespace gaudi::ucx {

#define GAUDI_UCX_SIZE(library, type, name, bytes) static_assert(sizeof(type) == (bytes));
#define GAUDI_UCX_OFFSET(type, field, bytes) static_assert(offsetof(type, field) == (bytes));
GAUDI_UCX_LAYOUT(GAUDI_UCX_SIZE, GAUDI_UCX_SIZE, GAUDI_UCX_OFFSET)
#undef GAUDI_UCX_SIZE
#undef GAUDI_UCX_OFFSET

static_assert(sizeof(ucs_status_t) == 1);
static_assert(sizeof(uct_md_ops) == 16 * sizeof(void *) && sizeof(uct_iface_internal_ops) == 16 * sizeof(void *));

} // namespace gaudi::ucx
