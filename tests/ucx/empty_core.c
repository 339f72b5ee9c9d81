// SPDX-License-Identifier: BSD-3-Clause
// A library that has the core's name and none of its functions.
extern const int gaudi_core_nothing;
const int gaudi_core_nothing = 0;
