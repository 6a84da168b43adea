# SPDX-License-Identifier: Apache-2.0
"""A Spark of two executors with two cores each, all on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SPARKDL = Path(__file__).resolve().parents[3] / "runtime/python/sparkdl"
SETTINGS = {
    "spark.master": "local-cluster[2,2,1024]",
    "spark.app.name": "horovod",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(
        filter(None, (str(SPARKDL), os.environ.get("PYTHONPATH")))
    ),
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(spark_events: Path) -> Iterator[object]:
    """A SparkContext; the session of the same cluster is the active one."""
    import pyspark
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{spark_events}",
    }
    for name, value in {**SETTINGS, **logged}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    folder = Path(pyspark.__file__).parent / "work" / context.applicationId
    yield context
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)  # of the executors
