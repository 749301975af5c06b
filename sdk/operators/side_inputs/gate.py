"""When an element meets its side inputs: it waits at the gate until something is known of their windows.

A gate is one keyed computation before the step that has the side inputs. Its keys are a few shards, each of which gets
every view of every side input and its share of the main input. The low watermark follows the main input alone; elements
that wait hold the output watermark. What it puts out is (value, window, pane, side values), once for each window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.computation import BundleComputation, Context
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.raised import packed
from headrace.lowlevel.record import Batch
from headrace.lowlevel.timer import Timer
from headrace.sdk.frames import Frame
from headrace.sdk.grouping import OUTSIDE
from headrace.sdk.panes import PaneInfo
from headrace.sdk.sides.arguments import Make
from headrace.sdk.sides.mapping import SideWindows
from headrace.sdk.sides.messages import Message
from headrace.sdk.sides.shelf import Shelf
from headrace.sdk.sides.waiting import Element, Waiting
from headrace.sdk.windows import BoundedWindow

_REMEMBERED = 100
"""Side values that a process keeps from bundle to bundle."""


@dataclass(frozen=True, slots=True)
class SideArgument:
    """One argument that is a side input."""

    description: str
    """For errors."""
    number: int
    """Of the side input; several arguments may show the same one."""
    make: Make


class Gate(BundleComputation):
    """Keeps elements until their side inputs are ready and sends them on with these.

    Args:
        label: The step that it stands before, for errors.
        windows: Of each side input.
        streams: Input stream with the messages of a side input -> its number. Any other stream is the main input.
        arguments: The step's arguments that are side inputs.
        output: Stream of the elements with their side values.
    """

    def __init__(
        self,
        label: str,
        windows: Sequence[SideWindows],
        streams: Mapping[str, int],
        arguments: Sequence[SideArgument],
        output: str,
    ) -> None:
        self._label, self._output = label, output
        self._windows, self._streams, self._arguments = list(windows), dict(streams), list(arguments)
        self._frames = windows[0].main_frames
        self._made: dict[tuple[int, bytes, bytes], object] = {}
        self._context: Context | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_made": {}, "_context": None}

    def state_signature(self) -> Mapping[str, str]:
        """Which side input has which number, and the windows of all inputs."""
        inputs = sorted(self._streams, key=self._streams.__getitem__)
        windows = [*map(SideWindows.kinds, self._windows)]
        return {"side inputs": ", ".join(inputs), "windows": ", ".join(windows)}

    # What the worker calls

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Take in what side inputs say, and put elements with others of their windows."""
        self._turn_to(context)
        number = self._streams.get(stream)
        if number is None:
            self._sort(batch)
            return
        self._told = True
        for _, message in cast("Sequence[tuple[str, Message]]", batch.values):
            self._shelf.take(number, message)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """A view may have become useless."""
        self._turn_to(context)
        self._sweeping = True

    def finish_key(self, context: Context) -> None:
        """Let go what is ready, older elements of a window first; keep the rest."""
        if self._context is not context:
            return
        if self._told:
            self._let_go()
        for frame, elements in self._came.values():
            if not self._send(frame, elements):
                self._waiting.put(frame, elements, self._before)
        if self._sweeping:
            self._sweep()
        if self._values:
            context.produce_batch(self._output, Batch(self._values, self._timestamps))
        self._context = None

    def _turn_to(self, context: Context) -> None:
        """Begin with a key, if this is the first call for it."""
        if self._context is context:
            return
        self._context = context
        self._before = context.watermark
        self._shelf = Shelf(self._windows, context)
        self._waiting = Waiting(self._frames, context)
        self._came: dict[bytes, tuple[Frame, list[Element]]] = {}
        self._closed: dict[bytes, bool] = {}
        self._told = self._sweeping = False
        self._values: list[object] = []
        self._timestamps: list[int] = []

    # Elements

    def _sort(self, batch: Batch) -> None:
        """Put elements with others of their windows; those whose side windows are over are dropped and counted."""
        came, frame_of, dropped, outside = self._came, self._frames.of_window, 0, 0
        values = cast("Sequence[tuple[str, tuple[object, Sequence[BoundedWindow], PaneInfo | None]]]", batch.values)
        for (_, (value, windows, pane)), timestamp in zip(values, batch.timestamps, strict=True):
            taken = False
            for window in windows:
                frame = frame_of(window)
                found = came.get(frame.code)
                if found is not None:
                    found[1].append((value, pane, timestamp))
                elif not self._is_closed(frame):
                    came[frame.code] = (frame, [(value, pane, timestamp)])
                else:
                    continue
                taken = True
            dropped += not taken and len(windows) > 0
            outside += not windows
        assert self._context is not None
        if dropped:
            self._context.drop_late(dropped)
        if outside:
            self._context.count(OUTSIDE, outside)

    def _is_closed(self, frame: Frame) -> bool:
        """Whether a side window of a window is over, so that its view may be gone."""
        if frame.code not in self._closed:
            self._closed[frame.code] = any(
                windows.expires_at(windows.of(frame)) <= self._before for windows in self._windows
            )
        return self._closed[frame.code]

    def _let_go(self) -> None:
        """Send waiting elements on whose side inputs have become ready."""
        for frame in self._waiting.windows():
            if self._sides_of(frame) is not None:
                self._send(frame, self._waiting.take(frame))
                self._sweeping = True

    def _send(self, frame: Frame, elements: Sequence[Element]) -> bool:
        """Put elements out with their side values, if these are ready."""
        sides = self._sides_of(frame)
        if sides is None:
            return False
        window = frame.window
        self._values += [(value, window, pane, sides) for value, pane, _ in elements]
        self._timestamps += [timestamp for _, _, timestamp in elements]
        return True

    # Side values

    def _sides_of(self, frame: Frame) -> tuple[object, ...] | None:
        """The side values for elements in a window; None if they are not ready."""
        sides = [windows.of(frame) for windows in self._windows]
        versions: list[bytes] = []
        for number, side in enumerate(sides):
            version = self._shelf.version(number, side)
            if version is None:
                return None
            versions.append(version)
        return tuple(
            self._value(place, sides[argument.number], versions[argument.number])
            for place, argument in enumerate(self._arguments)
        )

    def _value(self, place: int, side: Frame, version: bytes) -> object:
        """The value of an argument; the same object as long as the view stays the same."""
        key = (place, side.code, version)
        if key not in self._made:
            value = self._make(self._arguments[place], side)
            if len(self._made) >= _REMEMBERED:
                del self._made[next(iter(self._made))]
            self._made[key] = value
        return self._made[key]

    def _make(self, argument: SideArgument, side: Frame) -> object:
        values = self._shelf.values(argument.number, side)
        try:
            return argument.make(values)
        except Exception as error:
            cause = f"{type(error).__name__}: {argument.description} in window {side.window}: {error}"
            raise StepError(self._label, None, None, cause, packed(error)) from error

    def _sweep(self) -> None:
        waiting = self._waiting.windows()
        needed = {(number, windows.of(frame).code) for frame in waiting for number, windows in enumerate(self._windows)}
        self._shelf.sweep(needed, bool(waiting))
