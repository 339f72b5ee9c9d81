#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# accel_node_test.sh: with_accel_node.sh shows its node to the command, and leaves nothing behind.
set -eu
TMPDIR=$(mktemp -d)
export TMPDIR
"$(dirname "$0")/with_accel_node.sh" test -e /dev/accel/accel0 -a -c /dev/null
rmdir "$TMPDIR" # fails if anything is in it
