#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records a program on softgaudi and replays the recording: no answer may differ.
#
#     replays.sh UCX_GAUDI "OPTIONS OF RUN" COMMAND [ARGUMENTS]
program=$1 options=$2
shift 2
file=$(mktemp) || exit
trap 'rm -f "$file"' EXIT
# shellcheck disable=SC2086 # options are several words
"$program" run $options -- "$program" record -o "$file" -- "$@" || exit
unset GAUDI_THUNK
"$program" replay "$file"
