# SPDX-License-Identifier: Apache-2.0
"""The barrier stage of a job, as the driver sees it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext

from horovod.spark.stage import Settings, join_job

_NEWS_SECONDS = 0.2  # between two looks at Spark's state of the stage
_GRACE = 3.0  # seconds, in which tasks return by themselves
_LAST_WAIT = 30.0  # seconds, for what Spark says after the job has ended
# Executors register with a new SparkContext one after the other: for so many seconds of its life,
# and until none has come for so many. The first is Spark's own default of
# spark.scheduler.maxRegisteredResourcesWaitingTime.
_REGISTRATION = 30.0
_QUIET = 3.0


class Stage:
    """The tasks of a job, on a thread of their own, which calls `on_error` where Spark fails."""

    def __init__(
        self, context: SparkContext, settings: Settings, size: int, on_error: Callable[[], None]
    ) -> None:
        self._context = context
        self._settings = settings
        self._size = size
        self._on_error = on_error
        self._group = f"horovod.spark.run {secrets.token_hex(8)}"
        self._ended = threading.Event()
        self._answers: list[str] = []
        self.error: Exception | None = None
        self._thread = InheritableThread(target=self._run)
        self._thread.daemon = True
        self._thread.start()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "horovod.spark.run", interruptOnCancel=True)
            tasks = self._context.parallelize(range(self._size), self._size).barrier()
            self._answers = tasks.mapPartitions(join_job(self._settings)).collect()
        except Exception as error:  # Py4JJavaError, mostly
            self.error = error
            self._on_error()
        finally:
            self._ended.set()

    def has_lost_tasks(self) -> bool:
        """Whether Spark has: tasks of ours do not fail, they return their failure."""
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            infos = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds]
            return any(info and (info.numFailedTasks or info.currentAttemptId) for info in infos)
        except (Py4JError, AttributeError, OSError):  # the context was stopped
            return False

    def wait_for_news(self) -> None:
        """After a job that has failed: until the tasks have returned, or one was lost."""
        for _ in range(int(_LAST_WAIT / _NEWS_SECONDS)):
            if self._ended.wait(_NEWS_SECONDS) or self.has_lost_tasks():
                return

    def end(self) -> None:
        """The job has ended: so do its tasks, and those that still wait for something are ended."""
        if self._ended.wait(_GRACE):
            return
        try:
            self._context.cancelJobGroup(self._group)
        except (Py4JError, AttributeError, OSError):
            return  # the context was stopped, and all tasks with it
        self._ended.wait(_LAST_WAIT)

    def first_failure(self) -> str:
        """What a task said of its own failure, or nothing."""
        return next(filter(None, self._answers), "")


def slots_of(context: SparkContext) -> int | None:
    """How many tasks can run at a time; None where Spark does not say."""
    try:
        scala = context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))
    except Exception:  # a private function of Spark, or a context that was stopped
        return None


def registered_slots_of(context: SparkContext, wanted: int) -> int | None:
    """slots_of, once executors have registered: waits for those of a new context, until there are
    `wanted` slots (0: as many as will come)."""
    deadline = context.startTime / 1000 + _REGISTRATION  # type: ignore[attr-defined]
    slots = slots_of(context)
    changed = time.monotonic()
    while slots is not None and not 0 < wanted <= slots and time.time() < deadline:
        if slots > 0 and time.monotonic() - changed > _QUIET:
            break
        time.sleep(_NEWS_SECONDS)
        before, slots = slots, slots_of(context)
        if slots != before:
            changed = time.monotonic()
    return slots
