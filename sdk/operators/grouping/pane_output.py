"""How: the panes of one key's windows, from the trigger that fires to the output stream (Streaming 102, table 1).

All panes and retractions of a per-key grouping are made here. They are sent at the end of the bundle, in the order of
the watermarks at which their windows fired. Panes that may have to be retracted are stored in cells of their own, which
are written only when a pane fires; the record of a window is written with every bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.state.state_store import StateStore
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming, pane_of_window, retraction_of
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.window_state import WindowState

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE
SHOWN = b"s"
"""First byte of the names of cells with panes; the window's code follows."""


class EmittedPane(NamedTuple):
    """A pane that a window has emitted."""

    value: object
    code: bytes
    """Code of the pane's window; another window retracts the pane if windows have merged since."""
    pane: PaneInfo
    timestamp: int
    """Microseconds UTC."""


def encode_panes(panes: Sequence[EmittedPane]) -> bytes:
    """What the cell of a window has: the panes that it would retract."""
    return dumps([tuple(pane) for pane in panes])


def decode_panes(data: bytes) -> list[EmittedPane]:
    """The panes that `encode_panes` has encoded."""
    return [EmittedPane(*fields) for fields in loads(data)]


class EmittedPanes:
    """Stores the panes that the windows of a key have emitted and may have to retract; `context` is the key's."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def take(self, state: WindowState) -> list[EmittedPane]:
        """Remove and return the panes of a window."""
        if not state.shown:
            return []
        cell = SHOWN + state.namespace.code
        data = self._context.read(cell)
        assert data is not None, f"window {state.namespace.window} has panes in {cell!r}"
        self.forget(state)
        return decode_panes(data)

    @staticmethod
    def stored(store: StateStore, key_hash: bytes, state: WindowState) -> list[EmittedPane]:
        """The panes of a window in a store of many keys; they stay there."""
        if not state.shown:
            return []
        data = store.get(key_hash, SHOWN + state.namespace.code)
        assert data is not None, f"window {state.namespace.window} has shown panes"
        return decode_panes(data)

    def put(self, state: WindowState, panes: Sequence[EmittedPane]) -> None:
        """Store the panes of a window in place of those stored before."""
        self._context.write(SHOWN + state.namespace.code, encode_panes(panes))
        state.show(True)

    def forget(self, state: WindowState) -> None:
        """Delete the stored panes of a window, which has some."""
        self._context.write(SHOWN + state.namespace.code, None)
        state.show(False)


class PaneOutput:
    """Collects the panes of a key until the end of a bundle; `context` is the key's."""

    __slots__ = ("_config", "_context", "_fired_at", "_timestamps", "_values", "now")

    def __init__(self, config: GroupingConfig, context: Context) -> None:
        self._config, self._context = config, context
        self.now = context.watermark
        """The watermark at which the next panes fire, microseconds UTC; panes are sent in this order."""
        self._values: list[object] = []
        self._timestamps: list[int] = []
        self._fired_at: list[int] = []

    def emit(self, state: WindowState, *, early: bool, is_last: bool, triggered: bool) -> None:
        """Emit a pane of a window if it has new elements or the windowing asks for a pane without new elements.

        Args:
            state: The window; its number of new elements becomes 0.
            early: Whether the watermark is before the end of the window.
            is_last: Whether the window has no pane after this one.
            triggered: Whether the trigger fires, rather than the window only closing.
        """
        config = self._config
        timing = EARLY if early else ON_TIME if state.timely else LATE
        on_time = triggered and timing is ON_TIME and config.has_ontime_pane
        if state.fresh or (on_time and config.empty_on_time) or (is_last and config.empty_last):
            if state.shown:
                self._retract(state)
            if state.live > 0 or not config.takes_back or self._corrects(state):
                self._show(state, timing, is_last)
        # Accumulated elements count for the timestamps of all panes up to the one at the end of the window.
        state.begin_pane(early, keeps_stamp=early and config.has_ontime_pane and not config.discarding)

    def _corrects(self, state: WindowState) -> bool:
        """Whether the result of no elements corrects an earlier pane, which no retraction takes back."""
        return not self._config.retracting and state.index > 0

    def _show(self, state: WindowState, timing: PaneInfoTiming, is_last: bool) -> None:
        """Emit the result of a window's contents."""
        namespace = state.namespace
        pane = pane_of_window(state.index, state.nonspeculative, timing, is_last)
        value = (self._context.key, self._config.contents.result(state, self._context))
        timestamp = namespace.last if state.stamp is None else state.stamp
        self._add((value, namespace.window, pane), timestamp)
        state.count_pane(timing is EARLY)
        if self._config.retracting and not is_last:
            EmittedPanes(self._context).put(state, [EmittedPane(value, namespace.code, pane, timestamp)])

    def _retract(self, state: WindowState) -> None:
        """Emit the retractions of the window's stored panes."""
        namespaces = self._config.namespaces
        for pane in EmittedPanes(self._context).take(state):
            self._add((pane.value, namespaces.of_code(pane.code).window, retraction_of(pane.pane)), pane.timestamp)

    def _add(self, value: object, timestamp: int) -> None:
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._fired_at.append(self.now)

    def send(self, stream: str) -> None:
        """Produce the collected panes to a stream."""
        values, timestamps, fired_at = self._values, self._timestamps, self._fired_at
        if not values:
            return
        if len(fired_at) > 1 and any(map(int.__gt__, fired_at, fired_at[1:])):
            order = sorted(range(len(fired_at)), key=fired_at.__getitem__)
            values = [values[index] for index in order]
            timestamps = [timestamps[index] for index in order]
        self._context.produce_batch(stream, Batch(values, timestamps))
