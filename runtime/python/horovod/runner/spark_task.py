# SPDX-License-Identifier: Apache-2.0
"""`python -m horovod.runner.spark_task`: a rank in the place of a task of Spark. It becomes a rank
of horovod.run with the task's Python, import path, folder and GPUs. PySpark is not imported."""

from __future__ import annotations

import json
import os

PYTHON = "HOROVOD_SPARK_PYTHON"  # runs this module
TASKS = "HOROVOD_SPARK_TASKS"  # those of this host, in the order of its ranks


def main() -> None:
    del os.environ[PYTHON]
    task = json.loads(os.environ.pop(TASKS))[int(os.environ["HOROVOD_LOCAL_RANK"])]
    os.chdir(task["folder"])
    os.environ["PYTHONPATH"] = os.pathsep.join(task["path"])
    if task["gpus"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = task["gpus"]
    os.execv(task["python"], [task["python"], "-m", "horovod.runner.task"])


if __name__ == "__main__":
    main()
