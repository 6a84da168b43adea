# SPDX-License-Identifier: Apache-2.0
"""The state of a training run as a value: saved, restored, and synchronized over the ranks."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from horovod.common.exceptions import HostsUpdatedInterrupt

_REMOVED_ONLY = 1  # the kinds of changes are bits: 1, hosts have gone; 2, hosts have come


def run(func: Callable[..., Any]) -> NoReturn:
    """The decorator of a training function that goes on when hosts come and go."""
    raise NotImplementedError(
        "horovod.elastic.run: this version has no elastic jobs yet; call "
        f"{getattr(func, '__name__', 'the function')} itself under horovodrun -np N"
    )


class State:
    """What all elastic states have in common. `bcast_object(value)` gives every rank rank 0's
    value."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """They are called when the number of ranks has changed, before training goes on."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The number of ranks has changed."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have come or gone. Thread: any."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, then `check_host_updates`."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks, where rank 0 has heard of changed hosts."""
        last, kinds = self._last_updated_timestamp, 0
        while not self._host_messages.empty():
            timestamp, kind = self._host_messages.get()
            if timestamp > last:
                last, kinds = timestamp, kinds | kind
        before, last, kinds = self._bcast_object((self._last_updated_timestamp, last, kinds))
        self._last_updated_timestamp = last
        if last > before:
            raise HostsUpdatedInterrupt(kinds == _REMOVED_ONLY)

    def save(self) -> None:
        """Remembers the present state on this rank."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what `save` or `sync` remembered last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives every rank the state of rank 0, and remembers it."""
        raise NotImplementedError

    def reset(self) -> None:
        """For a state that depends on the number of ranks."""


class ObjectState(State):
    """Plain Python values, each of which is an attribute with the name of its keyword."""

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = _copy(kwargs)
        self._set(kwargs)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def save(self) -> None:
        self._saved_state = _copy({name: getattr(self, name) for name in self._saved_state})

    def restore(self) -> None:
        self._set(_copy(self._saved_state))

    def sync(self) -> None:
        if self._saved_state:
            present = {name: getattr(self, name) for name in self._saved_state}
            self._saved_state = _copy(self._bcast_object(present))
            self.restore()


def _copy(values: dict[str, Any]) -> dict[str, Any]:
    """What is changed in place later stays as it was here; what cannot be copied, such as an open
    file, is shared."""
    copies = {}
    for name, value in values.items():
        try:
            copies[name] = copy.deepcopy(value)
        except TypeError:
            copies[name] = value
    return copies
