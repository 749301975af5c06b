"""A loop as it was written: ready to run, and able to say which step is at work."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType, FunctionType

from headrace.sdk.fusion.plan import Form


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables that hold an element at a point of the loop."""

    node: int
    value: str
    form: Form
    windows: str = ""
    """The variable of its window (form FIRED) or of its tuple of windows (form WINDOWED)."""
    pane: str = "None"


@dataclass(frozen=True, slots=True)
class Place:
    """What a line of the loop is part of."""

    label: str
    """The step's."""
    variable: str
    """The one that holds the step's element."""
    expects: str | None = None
    """What the step takes, where the line is not the user's code but a check of that."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop ready to run, and what explains its errors."""

    run: FunctionType
    """Takes values, timestamps and an `Emit`; returns how many elements `counts` got."""
    filename: str
    lines: list[str]
    places: dict[int, Place]
    """Line number -> the step there."""
    counts: tuple[int, ...]
    """The collections whose numbers of elements `run` returns."""
    fallback: str
    """The step of lines that belong to none: those that assign windows."""
    _steps: dict[int, str] = field(default_factory=dict)
    """Instruction -> the step there, for those that were asked for."""

    def current_step(self) -> str:
        """The label of the step whose code is running now, found from inside that code."""
        code = self.run.__code__
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if frame is None:
            return self.fallback
        # To find a line takes as long as the function is; a look-up does not.
        step = self._steps.get(frame.f_lasti)
        if step is None:
            place = self.places.get(frame.f_lineno)
            step = self._steps[frame.f_lasti] = place.label if place is not None else self.fallback
        return step
