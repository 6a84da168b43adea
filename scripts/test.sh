#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and installs everything (see prepare.sh), then runs all tests but the benchmarks: ctest for
# C++, pytest for the installed programs and the Python front ends. The last line is
# `N passed, N failed, N skipped`; the exit code is not 0 when one failed.
# With CI=true a test may not skip for want of a package: see count_tests.py.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh all

results=$PWD/build/release/test-results
rm -rf "$results"
mkdir -p "$results"
export PATH="$PWD/.venv/bin:$PATH"

# run_pytest NAME ARGUMENTS...: its verdict comes from the result file NAME.xml, where a crash shows as a missing file.
run_pytest() {
    local name=$1
    shift
    timeout 2400 python -m pytest "$@" --junitxml="$results/$name.xml" </dev/null ||
        echo "test: $name ended with $?"
}

echo "test: ctest"
ctest --test-dir build/release -j 2 -LE bench --output-on-failure --no-tests=error \
    --test-output-size-passed 65536 --output-junit "$results/ctest.xml" </dev/null ||
    echo "test: ctest ended with $?"

# The front ends compute, the others mostly wait. With job control, since without it bash has what
# runs in the background ignore SIGINT, which these tests send.
echo "test: pytest of the installed programs, and beside them of the Python front ends"
set -m
run_pytest python tests/e2e/python &>"$results/python.log" &
python_tests=$!
trap 'kill -- -$python_tests' EXIT
run_pytest programs tests/e2e --ignore=tests/e2e/python
wait "$python_tests"
trap - EXIT
cat "$results/python.log"

require=()
[[ ${CI-} != true ]] || require=(--require-all)
exec scripts/count_tests.py "${require[@]}" "$results"/{ctest,programs,python}.xml
