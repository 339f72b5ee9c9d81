// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host.h"

namespace gaudi::ucx {

/// The operation tables that are known. All of them fit into those of abi.h.
enum class Tables {
    v1_22_0,
    v1_22_x, // with mem_elem_release, as on the branch after 1.22.0
    v1_23,   // with ep_get_sgl_zcopy and ep_outstanding_purge too
};

const char *tables_name(Tables tables) noexcept;

/// The newest minor that the tests run on.
constexpr Version kNewestTested{1, 23, 0};

bool is_newer_than_tested(const Version &version) noexcept;

/// Proves on the loaded library that its operation tables and classes are the declared ones: libuct's own dispatchers
/// are called on scratch tables of numbered stubs, and must call the stubs at the declared slots. The functions for lists
/// (put_sgl, get_sgl) may be missing, and are then not offered. Takes microseconds.
/// The text of the error says what was found and what is needed.
Result<Tables> prove_tables(const Functions &uct);

} // namespace gaudi::ucx
