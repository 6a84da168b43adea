#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of horovod.spark on another version of PySpark than that of scripts/requirements.txt:
#   scripts/spark.sh 3.5.7
# The version goes into build/spark/VERSION; horovod and everything else are those of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/spark.sh VERSION [ARGUMENT of pytest...]}
shift
folder=$PWD/build/spark/$version
if [[ ! -f $folder/.done ]]; then
    rm -rf "$folder"
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --target "$folder" \
        "pyspark==$version"
    touch "$folder/.done"
fi
export PATH="$PWD/.venv/bin:$PATH" PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH}
python -c 'import pyspark; print("PySpark", pyspark.__version__)'
exec python -m pytest tests/e2e/python/test_spark*.py "$@"
