#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Layout and small rules of every tracked file: clang-format 14, layers, ruff, shellcheck.
#   scripts/format.sh           writes the layout into the files, then checks the rest
#   scripts/format.sh --check   changes nothing; exit code 1 names what is wrong
set -euo pipefail
cd "$(dirname "$0")/.."

check=0
case "${1-}" in
"") ;;
--check) check=1 ;;
*)
    echo "format.sh: unknown argument '$1': use --check or nothing" >&2
    exit 2
    ;;
esac

# `ruff` is in .venv after quickstart.sh, or on PATH.
if [[ -x .venv/bin/ruff ]]; then
    ruff=.venv/bin/ruff
elif ! ruff=$(command -v ruff); then
    echo "format.sh: ruff is missing: run scripts/quickstart.sh, or pip install ruff" >&2
    exit 2
fi

# Tracked files that still exist; new files of a working tree count too.
list() { git ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu | existing; }
existing() { while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done; }

readarray -d '' -t cpp < <(list '*.hpp' '*.cpp' '*.h' '*.cu' '*.cuh')
readarray -d '' -t python < <(list '*.py' tests/bench/launch)
readarray -d '' -t shell < <(list '*.sh' .ci/run)

failed=0
run() { "$@" || failed=1; }
ruff_options=(--config runtime/python/pyproject.toml)

if ((check)); then
    run clang-format-14 --dry-run -Werror "${cpp[@]}"
    run "$ruff" format -q --check "${ruff_options[@]}" "${python[@]}"
else
    run clang-format-14 -i "${cpp[@]}"
    run "$ruff" format -q "${ruff_options[@]}" "${python[@]}"
fi
run "$ruff" check -q "${ruff_options[@]}" "${python[@]}"
run python3 scripts/check_layers.py
run shellcheck "${shell[@]}"
echo "format: ${#cpp[@]} C++ files, ${#python[@]} Python files, ${#shell[@]} shell scripts"
exit "$failed"
