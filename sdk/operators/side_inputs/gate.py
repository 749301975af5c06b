"""When: the gate, at which elements wait until their side inputs are ready.

A gate is a keyed computation before the step that has the side inputs. The keys are a few shards; each shard receives
every view of every side input, and a part of the main input. The low watermark follows the main input only; waiting
elements hold the output watermark. Outputs are (value, window, pane, side values), one for each window of an element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from headrace.lowlevel.errors import StepError, TopologyError
from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Context
from headrace.lowlevel.topology.timer import Timer
from headrace.lowlevel.user_errors import failed_step, packed
from headrace.sdk.functions.arguments import Make
from headrace.sdk.model.panes import PaneInfo, is_retraction
from headrace.sdk.operators.side_inputs.gate_inputs import Message
from headrace.sdk.operators.side_inputs.gate_state import NOTHING, Element, SideViewStore, Waiting
from headrace.sdk.operators.side_inputs.seen_views import CLOSING, SeenViews, Versions
from headrace.sdk.operators.side_inputs.window_mapping import SideWindows
from headrace.sdk.windows import BoundedWindow
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.window_namespace import WindowNamespace

_REMEMBERED = 100
"""Number of side values that a process caches from bundle to bundle."""


@dataclass(frozen=True, slots=True)
class SideArgument:
    """An argument of a step that is a side input."""

    description: str
    """Description of the argument, for errors."""
    number: int
    """Number of the side input; several arguments may be views of one side input."""
    make: Make


@named("Gate")
class Gate(BundleComputation):
    """Keeps elements until their side inputs are ready, and sends them with their side values.

    Args:
        label: The step after the gate, for errors.
        windows: Windows of each side input, by its number.
        streams: Input stream with the messages of a side input -> number of the side input. Other streams are main
            input.
        arguments: The arguments of the step that are side inputs.
        output: Stream of the elements with their side values.
        takes_back: Whether elements of the main input may be retractions, and side inputs may have several panes.
    """

    def __init__(
        self,
        label: str,
        windows: Sequence[SideWindows],
        streams: Mapping[str, int],
        arguments: Sequence[SideArgument],
        output: str,
        takes_back: bool = False,
    ) -> None:
        self._label, self._output, self._takes_back = label, output, takes_back
        self._windows, self._streams, self._arguments = list(windows), dict(streams), list(arguments)
        self._namespaces = windows[0].main_namespaces
        self._made: dict[tuple[int, bytes, bytes], object] = {}
        self._context: Context | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_made": {}, "_context": None}

    def state_signature(self) -> Mapping[str, str]:
        """The number of each side input, and the windows of all inputs."""
        inputs = sorted(self._streams, key=self._streams.__getitem__)
        windows = [*map(SideWindows.kinds, self._windows)]
        return {"side inputs": ", ".join(inputs), "windows": ", ".join(windows)}

    # What the worker calls

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Store the messages of side inputs, or group elements of the main input by window."""
        self._turn_to(context)
        number = self._streams.get(stream)
        if number is None:
            self._sort(batch)
            return
        self._views_changed = True
        for _, message in cast("Sequence[tuple[str, Message]]", batch.values):
            self._shelf.take(number, message, self._seen if self._takes_back else None)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Check at the end of the key whether views are unreachable."""
        self._turn_to(context)
        if timer.tag.startswith(CLOSING):
            self._seen.close(self._namespaces.of_tag(timer.tag.removeprefix(CLOSING)))
        self._sweeping = True

    def finish_key(self, context: Context) -> None:
        """Send the elements whose side inputs are ready, older elements of a window first; store the others."""
        if self._context is not context:
            return
        if self._views_changed:
            self._let_go()
        for namespace, elements in self._arrived.values():
            if not self._send(namespace, elements):
                self._waiting.put(namespace, elements, self._before)
        if self._sweeping:
            self._sweep()
        self._seen.finish()
        if self._values:
            context.produce_batch(self._output, Batch(self._values, self._timestamps))
        self._context = None

    def _turn_to(self, context: Context) -> None:
        """Start a key, if this is the first call for the key."""
        if self._context is context:
            return
        self._context = context
        self._before = context.watermark
        self._shelf = SideViewStore(self._windows, context)
        self._waiting = Waiting(self._namespaces, context)
        self._seen = SeenViews(context)
        self._arrived: dict[bytes, tuple[WindowNamespace, list[Element]]] = {}
        self._closed: dict[bytes, bool] = {}
        self._views_changed = self._sweeping = False
        self._values: list[object] = []
        self._timestamps: list[int] = []

    # Elements

    def _sort(self, batch: Batch) -> None:
        """Group elements by window; elements whose side windows have expired are dropped and counted."""
        arrived, namespace_of, outside = self._arrived, self._namespaces.of_window, 0
        late: list[Sequence[BoundedWindow]] = []
        values = cast("Sequence[tuple[str, tuple[object, Sequence[BoundedWindow], PaneInfo | None]]]", batch.values)
        for (_, (value, windows, pane)), timestamp in zip(values, batch.timestamps, strict=True):
            has_window = False
            for window in windows:
                namespace = namespace_of(window)
                found = arrived.get(namespace.code)
                if found is not None:
                    found[1].append((value, pane, timestamp))
                elif not self._is_closed(namespace):
                    arrived[namespace.code] = (namespace, [(value, pane, timestamp)])
                else:
                    continue
                has_window = True
            if not windows:
                outside += 1
            elif not has_window:
                late.append(windows)
        assert self._context is not None
        for _, alike in groupby(late, id):
            of_last, *others = map(self._namespaces.of_last, alike)
            self._context.drop_late(1 + len(others), of_last.window)
        if outside:
            self._context.count(OUTSIDE_WINDOWS, outside)

    def _is_closed(self, namespace: WindowNamespace) -> bool:
        """Whether a side window of a window has expired, so that its view may be deleted."""
        if namespace.code not in self._closed:
            self._closed[namespace.code] = any(
                is_closed(windows.expires_at(side), self._before)
                for windows, side in zip(self._windows, self._side_windows(namespace), strict=True)
            )
        return self._closed[namespace.code]

    def _let_go(self) -> None:
        """Send waiting elements whose side inputs have become ready."""
        for namespace in self._waiting.windows():
            if self._versions_of(namespace) is not None:
                self._send(namespace, self._waiting.take(namespace))
                self._sweeping = True

    def _send(self, namespace: WindowNamespace, elements: Sequence[Element]) -> bool:
        """Send elements with their side values; return False if these are not ready."""
        versions = self._versions_of(namespace)
        if versions is None:
            return False
        window, sides = namespace.window, self._sides_of(namespace, versions)
        for value, pane, timestamp in elements:
            seen = self._seen_by(namespace, value, pane, versions) if self._takes_back else versions
            values = sides if seen is versions else self._sides_of(namespace, seen)
            self._values.append((value, window, pane, values))
            self._timestamps.append(timestamp)
        return True

    def _seen_by(
        self, namespace: WindowNamespace, value: object, pane: PaneInfo | None, versions: Versions
    ) -> Versions:
        """The versions with which an element is processed: a retraction's are those that its element has seen."""
        if is_retraction(pane):
            seen = self._seen.take(namespace, value)
            return versions if seen is None else seen
        if not is_closed(namespace.closes, self._before):
            self._seen.note(namespace, value, self._side_windows(namespace), versions)
        return versions

    # Side values

    def _versions_of(self, namespace: WindowNamespace) -> Versions | None:
        """The version of each side input for elements in a window; None if one is not ready."""
        versions: list[bytes] = []
        for number, side in enumerate(self._side_windows(namespace)):
            version = self._shelf.version(number, side)
            if version is None:
                return None
            versions.append(version)
        return versions

    def _sides_of(self, namespace: WindowNamespace, versions: Versions) -> tuple[object, ...]:
        """The side values for elements in a window."""
        sides = self._side_windows(namespace)
        return tuple(
            self._value(place, sides[argument.number], versions[argument.number])
            for place, argument in enumerate(self._arguments)
        )

    def _side_windows(self, namespace: WindowNamespace) -> list[WindowNamespace]:
        """The window of each side input for a window of the main input."""
        try:
            return [windows.of(namespace) for windows in self._windows]
        except TopologyError as error:
            raise failed_step(error, self._label, None, None) from error

    def _value(self, place: int, side: WindowNamespace, version: bytes) -> object:
        """The value of an argument; the same object as long as the view does not change."""
        key = (place, side.code, version)
        if key not in self._made:
            value = self._make(self._arguments[place], side, version)
            if len(self._made) >= _REMEMBERED:
                del self._made[next(iter(self._made))]
            self._made[key] = value
        return self._made[key]

    def _make(self, argument: SideArgument, side: WindowNamespace, version: bytes) -> object:
        values = self._seen.values(argument.number, side.code, version) if self._takes_back else None
        if values is None:
            values = [] if version == NOTHING else self._shelf.values(argument.number, side)
        try:
            return argument.make(values)
        except Exception as error:
            cause = f"{type(error).__name__}: {argument.description} in window {side.window}: {error}"
            raise StepError(self._label, None, None, cause, packed(error)) from error

    def _sweep(self) -> None:
        waiting = self._waiting.windows()
        needed = {
            (number, windows.of(namespace).code)
            for namespace in waiting
            for number, windows in enumerate(self._windows)
        }
        self._shelf.sweep(needed, bool(waiting))
