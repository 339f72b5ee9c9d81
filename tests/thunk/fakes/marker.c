/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library with next to nothing in it.
 */
int fake_marker(void);

int fake_marker(void) { return 1; }
