# SPDX-License-Identifier: Apache-2.0
"""Functions in threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_MOST_THREADS = 1000


def in_thread(
    target: Callable[..., Any],
    args: Sequence[Any] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Starts `target(*args)` in a thread, which it returns. `silent` keeps what it raises from
    being printed."""
    if not isinstance(args, tuple):
        raise ValueError(f"args is {args!r}: use a tuple, such as (value,)")
    run = _without_words(target) if silent else target
    thread = threading.Thread(target=run, args=args, name=name, daemon=daemon)
    thread.start()
    return thread


def _without_words(target: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> None:
        try:
            target(*args)
        except Exception:  # the caller asked for it
            return

    return run


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = _MOST_THREADS,
) -> dict[int, Any] | None:
    """Calls `fn(*args)` for each of the lists. Returns the results by their place in `args_list`,
    or None at once where it is not to wait."""
    if not args_list:
        return {} if block_until_all_done else None
    pool = ThreadPoolExecutor(min(max_concurrent_executions, len(args_list)))
    futures = [pool.submit(fn, *args) for args in args_list]
    pool.shutdown(wait=False)
    if not block_until_all_done:
        return None
    return {place: future.result() for place, future in enumerate(futures)}


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Starts a thread that calls `func(*args)` once `event` is set, unless `stop` is set before;
    `stop` is looked at every `check_stop_interval_s` seconds."""
    if event is None:
        raise ValueError("event is None: use a threading.Event")
    if not isinstance(args, tuple):
        raise ValueError(f"args is {args!r}: use a tuple, such as (value,)")

    def wait_and_call() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait_and_call, daemon=daemon, silent=silent)
