#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Launches the compiler in builds with precompiled headers: precompiled_launcher.sh CCACHE COMPILER ARGUMENT...
# A precompiled header contains whole paths, and no two are equal. So it is compiled in each build, and what
# uses it counts for ccache as using the text that it was made of (pch_external_checksum in ccache(1)).
set -euo pipefail
ccache=$1
shift

output='' made_of='' previous='' relative=()
for argument in "$@"; do
    relative+=("${argument#"$PWD"/}") # of clang's precompiled headers ccache knows no path
    case $previous in
    -o) output=$argument ;;
    -MF) made_of=$argument ;;
    esac
    previous=$argument
done
case $output in
*.gch | *.pch)
    "$@"
    # Names of files, after the name of the target.
    sed 's/^[^ ]*: *//; s/ *\\$//' "$made_of" | xargs cat | sha256sum >"$output.sum"
    ;;
*)
    # Without the sloppiness ccache keeps nothing that uses a precompiled header.
    CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros exec "$ccache" "${relative[@]}"
    ;;
esac
