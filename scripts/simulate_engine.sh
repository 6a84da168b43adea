#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs COUNT schedules of the simulated engine, from seed FIRST on or from where the last run stopped:
#   scripts/simulate_engine.sh [COUNT [FIRST]]
# The next seed is kept in build/simulate_engine.next. Ends at the first chunk with a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

count=${1:-100000}
next=build/simulate_engine.next
first=${2:-$(cat "$next" 2>/dev/null || echo 1)}
program=${SIM_ENGINE:-build/release/tests/sim_engine}
[[ -x $program ]] || { echo "simulate_engine: build $program first, or set SIM_ENGINE" >&2 && exit 2; }

chunk=5000
for ((seed = first; seed < first + count; seed += chunk)); do
    left=$((first + count - seed))
    "$program" --first "$seed" --count $((left < chunk ? left : chunk)) --most-failures 10
    echo $((seed + (left < chunk ? left : chunk))) >"$next"
done
