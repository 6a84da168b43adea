#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy 14 with the profile of .clang-tidy.
#   scripts/tidy.sh             files changed since the merge base with origin/main (uncommitted ones
#                               too); where HEAD is that merge base, those of the last commit
#   scripts/tidy.sh --all       the whole tree, also with the path analyzer (clang-analyzer-*), which
#                               takes half of the time and finds little that the sanitizers miss
#   scripts/tidy.sh FILE...     these files
# A header is checked through one source that includes it.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/tidy
mkdir -p build
cmake --preset tidy >"$build.log" || {
    cat "$build.log" >&2
    exit 2
}

# Every source that the build compiles, by its path from the root.
sources() {
    sed -n 's/^ *"file": "\(.*\)"$/\1/p' "$build/compile_commands.json" |
        sed -n "s|^$PWD/||p" | grep -v '^build/' | sort -u
}

# Names on standard input; the sources among them and, for each header among them, one source that
# includes it: its own, else the first.
affected() {
    local name
    while IFS= read -r name; do
        case $name in
        *.cpp | *.c) echo "$name" ;;
        *.hpp | *.h)
            {
                [[ ! -f ${name%.*}.cpp ]] || echo "${name%.*}.cpp"
                grep -rlF "#include \"$name\"" --include='*.cpp' apps launcher runtime collectives tests |
                    sort
            } | head -n 1
            ;;
        esac || true
    done | sort -u | comm -12 - <(sources)
}

changed() {
    local base
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    if [[ $base == "$(git rev-parse HEAD)" && -z $(git status --porcelain) ]]; then
        base=$(git rev-parse --verify --quiet HEAD~1 || true)
    fi
    if [[ -z $base ]]; then
        sources
    else
        { git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } | affected
    fi
}

checks=(--checks=-clang-analyzer-*)
case ${1-} in
--all)
    readarray -t files < <(sources)
    checks=()
    ;;
"") readarray -t files < <(changed) ;;
-*)
    echo "tidy.sh: unknown option '$1': use --all, files, or nothing" >&2
    exit 2
    ;;
*) readarray -t files < <(printf '%s\n' "$@" | affected) ;;
esac

echo "tidy: ${#files[@]} sources"
((${#files[@]} > 0)) || exit 0
printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p "$build" --quiet "${checks[@]}" 2> >(grep -v 'warnings generated\.$' >&2)
