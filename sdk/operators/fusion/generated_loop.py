"""The generated loop of a fused stage, compiled, with the step that each of its lines belongs to."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType, FunctionType

from headrace.sdk.model.element_form import ElementForm


@dataclass(frozen=True, slots=True)
class Variables:
    """The names of the variables that hold an element of a collection at one line of the loop."""

    node: int
    """Number of the collection."""
    value: str
    form: ElementForm
    windows: str = ""
    """The variable of the element's window (form FIRED) or of its tuple of windows (form WINDOWED)."""
    pane: str = "None"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The step that a line of the loop belongs to."""

    label: str
    """Label of the step."""
    variable: str
    """Name of the variable that holds the element which the step takes."""
    expects: str | None = None
    """Which elements the step takes, if the line checks that; None for a line that calls user code."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled loop, with its source for tracebacks and error messages."""

    run: FunctionType
    """Takes values, their timestamps (equally many, microseconds UTC) and an `Emit`.

    Returns a tuple: the number of elements of each collection of `counts`.
    """
    filename: str
    lines: list[str]
    source_lines: dict[int, SourceLine]
    """Line number (from 1) -> the step of that line."""
    counts: tuple[int, ...]
    """The collections whose elements `run` counts."""
    fallback: str
    """Label for errors in lines that belong to no step: those that assign windows."""
    _steps: dict[int, str] = field(default_factory=dict)
    """Offset of an instruction -> label of its step, for the offsets looked up so far."""

    def current_step(self, frame: FrameType | None = None) -> str:
        """The label of the step that is running; to be called from code that the loop calls, or with its frame."""
        code = self.run.__code__
        frame = frame or sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if frame is None:
            return self.fallback
        # Finding the line of an instruction takes time proportional to the length of the code, a look-up does not.
        step = self._steps.get(frame.f_lasti)
        if step is None:
            line = self.source_lines.get(frame.f_lineno)
            step = self._steps[frame.f_lasti] = line.label if line is not None else self.fallback
        return step
