// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host.h"

namespace gaudi::ucx {

// The operation tables that are known. All of them fit into the ones of abi.h.
enum class Tables {
    v1_22_0,
    v1_22_x, // with mem_elem_release, as on the branch after 1.22.0
    v1_23,   // with ep_get_sgl_zcopy and ep_outstanding_purge too
};

const char *tables_name(Tables tables) noexcept;

// The newest minor that the tests run on.
constexpr Version newest_tested{1, 23, 0};

bool newer_than_tested(const Version &version) noexcept;

// Proves on the very library that its operation tables and classes are the declared ones: numbered stubs in scratch
// tables are called through libuct's own dispatchers and must be hit at the declared slots. Costs microseconds. The
// error's text says what was found and what is needed.
Result<Tables> prove(const Functions &uct);

} // namespace gaudi::ucx
