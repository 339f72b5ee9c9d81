#!/bin/sh
# with_fabric.sh LIBRARY PROGRAM [ARGUMENT...]: runs the program on software HCAs with a fabric of its own.
library=$1
shift
SOFTHCA_DIR=$(mktemp -d /dev/shm/softhca-test-XXXXXX) || exit 1
export SOFTHCA_DIR
trap 'rm -rf "$SOFTHCA_DIR"' EXIT
LD_PRELOAD=$library "$@"
