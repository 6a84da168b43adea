#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian 12 packages that building, testing and the examples need. Does nothing, in a
# fraction of a second, where all are there. Without root it only says what is missing.
set -euo pipefail

packages=(
    # Compilers and tools.
    build-essential ccache cmake ninja-build pkg-config git
    clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev llvm-14
    # Libraries, all but the shared-memory ones linked statically or used by their headers.
    libboost1.81-dev libboost-program-options1.81-dev libfmt-dev libhwy-dev libspdlog-dev
    libsodium-dev libssh2-1-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev
    # The man page from the user manual.
    lowdown
    # The MPI backend's headers, and the launchers that tests and benchmarks compare with.
    libmpich-dev libopenmpi-dev mpich openmpi-bin pdsh
    # Tests and examples.
    catch2 dataset-fashion-mnist munge procps shellcheck util-linux
    # Simulated hosts for tests, and login shells that they may have.
    fish iproute2 nftables openssh-client openssh-server tcsh zsh
    # A Slurm on them, which nothing starts outside of tests.
    slurm-client slurmctld slurmd
    # JupyterLab in a browser.
    chromium chromium-driver
    # Spark, which comes into .venv with pip.
    openjdk-17-jre-headless
    # Python front ends; frameworks come into .venv with pip.
    ca-certificates python3 python3-venv
)

# Where this is x86: the same for 64-bit Arm, compiled across and tested in qemu (the preset aarch64).
native=$(dpkg --print-architecture)
if [[ $native == amd64 ]]; then
    packages+=(g++-aarch64-linux-gnu qemu-user
        libfmt-dev:arm64 libsodium-dev:arm64 libspdlog-dev:arm64)
fi

# A package that is known but not installed has another status; an unknown one is an error line.
# shellcheck disable=SC2016 # ${...} is dpkg-query's format
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}:${Architecture}\n' "${packages[@]}" \
    2>/dev/null | sed -n "s/:\\(all\\|$native\\)\$//; s/^ii  *//p" || true)
missing=()
for package in "${packages[@]}"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
    echo "setup: all ${#packages[@]} system packages are installed"
    exit 0
fi
if ((EUID != 0)); then
    echo "setup: missing system packages: ${missing[*]}" >&2
    [[ "${missing[*]}" != *:arm64* ]] || echo "setup: first: dpkg --add-architecture arm64" >&2
    echo "setup: ask an administrator for: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
echo "setup: installing ${missing[*]}"
# The servers are for tests, which start their own: none is to run, now or after the next boot.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
[[ "${missing[*]}" != *:arm64* ]] || dpkg --add-architecture arm64
apt-get update
apt-get install -y --no-install-recommends "${missing[@]}"
if command -v systemctl >/dev/null; then
    for pair in openssh-server:ssh munge:munge slurmctld:slurmctld slurmd:slurmd; do
        if [[ " ${missing[*]} " == *" ${pair%:*} "* ]]; then
            systemctl --quiet disable "${pair#*:}.service"
        fi
    done
fi
