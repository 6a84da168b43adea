#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes dist/horovod-VERSION-py3-none-manylinux_2_34_x86_64.whl from build/release: programs, libraries,
# headers and the Python package; and dist/sparkdl-VERSION-py3-none-any.whl, the names of Databricks. Needs no network. Fails when auditwheel finds that the wheel needs a
# newer system than that, or any library beyond the C library and libgcc.
set -euo pipefail
cd "$(dirname "$0")/.."

newest=34 # of manylinux_2_N, the glibc that users must have
stage=build/wheel
python=.venv/bin/python
if [[ ! -x $python ]]; then
    echo "wheel.sh: .venv is missing: run scripts/quickstart.sh first" >&2
    exit 2
fi

cmake --build build/release --target product
rm -rf "$stage"
mkdir -p "$stage/out" dist
cmake --install build/release --prefix "$stage/prefix" --strip >"$stage.log"
for plugin in openmpi mpich; do
    [[ -f $stage/prefix/lib/horovod/hvd_mpi_$plugin.so ]] && continue
    echo "wheel.sh: the plugin for $plugin is missing: install its headers (scripts/setup_debian_12.sh)" >&2
    exit 1
done
mapfile -t folders < <("$python" scripts/pack_wheel.py "$stage/prefix" "$stage")
"$python" -m wheel pack "${folders[0]}" --dest-dir "$stage/out" >>"$stage.log"
wheel=$(echo "$stage"/out/*.whl)

report=$("$python" -m auditwheel show "$wheel")
tag=$(tr '\n' ' ' <<<"$report" | sed -n 's/.*platform tag: *"\([^"]*\)".*/\1/p')
if [[ ! $tag =~ ^manylinux_2_([0-9]+)_x86_64$ ]] || ((BASH_REMATCH[1] > newest)); then
    echo "wheel.sh: auditwheel does not accept the wheel for manylinux_2_$newest:" >&2
    echo "$report" >&2
    exit 1
fi
rm -f dist/horovod-*.whl dist/sparkdl-*.whl
"$python" -m wheel tags --remove --platform-tag "$tag" "$wheel" >>"$stage.log"
mv "$stage"/out/*.whl dist/
"$python" -m wheel pack "${folders[1]}" --dest-dir dist >>"$stage.log"
ls -l dist/*.whl
