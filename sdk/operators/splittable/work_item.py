"""What: work items of a splittable DoFn, an element with a restriction as it travels and is stored, and their making.

Initial splitting makes each part of an element a work item with a key of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import Context, InlineComputation
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.functions.declarations import Splitting
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.windows import BoundedWindow
from headrace.sdk.windows.windowing import Windowing

Encoded: TypeAlias = tuple[bytes, bytes]
"""Restriction and state of the watermark estimator, each encoded by the coder of its provider."""
Item: TypeAlias = tuple[object, bytes, bytes]
"""Element, encoded restriction, encoded state of the watermark estimator."""
Windowed: TypeAlias = tuple[tuple[bytes, Item], tuple[BoundedWindow, ...], PaneInfo | None]
"""Pair (key of its own, item), windows, pane: the output of initial splitting."""
Sided: TypeAlias = tuple[tuple[bytes, Item], BoundedWindow, PaneInfo | None, tuple[object, ...]]
"""The same behind a gate: with one window, and with side values."""

_ELEMENT, _RESTRICTION = b"element", b"restriction"
_KEY_BYTES = 16
_Elements = Iterator[tuple[object, tuple[BoundedWindow, ...], PaneInfo | None]]


class Element(NamedTuple):
    """An element with everything that a call of `process` may ask for."""

    value: object
    timestamp: int
    """Microseconds UTC."""
    windows: tuple[BoundedWindow, ...]
    pane: PaneInfo | None
    sides: tuple[object, ...]
    """Side values, as they were when the element came."""


class RestrictionCoder:
    """Encodes restrictions and states of watermark estimators by the coders of their providers."""

    def __init__(self, splitting: Splitting) -> None:
        self._restriction = splitting.provider.restriction_coder()
        estimating = splitting.estimator_provider
        self._state: Coder = PickleCoder() if estimating is None else estimating.estimator_state_coder()

    def encode(self, restriction: object, state: object) -> Encoded:
        """The bytes of a restriction and of an estimator's state."""
        return self._restriction.encode(restriction), self._state.encode(state)

    def decode(self, encoded: Encoded) -> tuple[object, object]:
        """The restriction and the estimator's state."""
        restriction, state = encoded
        return self._restriction.decode(restriction), self._state.decode(state)


def store(context: Context, element: Element) -> None:
    """Store an element, before its first restriction is stored."""
    context.write(_ELEMENT, dumps(tuple(element)))


def store_restriction(context: Context, encoded: Encoded, is_truncated: bool) -> str:
    """Store a part of the element that is left for later; returns the name by which `take` finds it.

    One call of `process` may leave several: what it has deferred, and what was split off before.

    Args:
        context: The context of the work item.
        encoded: The restriction and the estimator's state.
        is_truncated: Whether the restriction was truncated, as the run is to end.
    """
    number = 0
    while context.read(name := _RESTRICTION + b"%d" % number) is not None:
        number += 1
    context.write(name, dumps((encoded, is_truncated)))
    return name.decode()


def take(context: Context, name: str) -> tuple[Element, Encoded, bool]:
    """The stored element, a restriction of it, which is deleted, and whether it was truncated."""
    element, encoded = context.read(_ELEMENT), context.read(name.encode())
    assert element is not None and encoded is not None, "a timer is set only with both"
    context.write(name.encode(), None)
    return Element(*loads(element)), *cast("tuple[Encoded, bool]", loads(encoded))


def forget_if_done(context: Context) -> None:
    """Delete the stored element if no restriction of it is left."""
    if next(context.scan(_RESTRICTION), None) is None:
        context.write(_ELEMENT, None)


@dataclass(frozen=True, slots=True)
class SplittingPlan:
    """Configuration of initial splitting; it is pickled and sent to the workers."""

    label: str
    splitting: Splitting
    windowing: Windowing
    forms: Mapping[str, ElementForm]
    """Input stream -> how its records carry windows, PLAIN or WINDOWED."""
    by_window: bool
    """Whether an element in several windows becomes one work item for each of them."""
    output: str
    drains: bool = False
    """Whether restrictions are truncated, so that the run ends."""


@named("InitialSplitting")
class InitialSplitting(InlineComputation):
    """Sends each element as work items: pairs (key, item) with windows and pane. Keys are random, so they spread."""

    def __init__(self, plan: SplittingPlan) -> None:
        self._plan = plan
        self._splitting, self._coder = plan.splitting, RestrictionCoder(plan.splitting)

    def __getstate__(self) -> dict[str, object]:
        return {"_plan": self._plan}

    def __setstate__(self, state: Mapping[str, SplittingPlan]) -> None:
        self._plan = state["_plan"]

    def setup(self) -> None:
        """Make a copy of the provider, so that the plan stays as it is."""
        self._splitting = shipped(self._plan, self._plan.label).splitting
        self._coder = RestrictionCoder(self._splitting)

    def loses_ids(self) -> bool:
        """Return True: an element that is delivered again gets other keys."""
        return True

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Split the elements of a batch."""
        values: list[Windowed] = []
        timestamps: list[int] = []
        with at(self._plan.label):
            elements = zip(self._elements(self._plan.forms[stream], batch), batch.timestamps, strict=True)
            for (value, windows, pane), timestamp in elements:
                windowings = [(window,) for window in windows] if self._plan.by_window else [windows]
                items = self._items(value)
                made: list[Windowed] = [
                    ((secrets.token_bytes(_KEY_BYTES), item), each, pane) for each in windowings for item in items
                ]
                values += made
                timestamps += [timestamp] * len(made)
        emit(self._plan.output, Batch(values, timestamps))

    def _elements(self, form: ElementForm, batch: Batch) -> _Elements:
        if form is ElementForm.WINDOWED:
            return iter(cast("Sequence[tuple[object, tuple[BoundedWindow, ...], PaneInfo | None]]", batch.values))
        assigned = self._plan.windowing.window_fn.assign_all(batch.timestamps, batch.values)
        return ((value, windows, None) for value, windows in zip(batch.values, assigned, strict=True))

    def _items(self, element: object) -> list[Item]:
        """The work items of an element. Raises `StepError` if the provider fails, or gives a negative size."""
        estimating = self._splitting.estimator_provider
        try:
            initial = self._splitting.provider.initial_restriction(element)
            state = None if estimating is None else estimating.initial_estimator_state(element, initial)
            items: list[Item] = []
            for part, size in self._parts(element, initial):
                if size < 0:
                    raise ValueError(f"restriction_size returned {size} for {part!r:.200}; sizes are 0 or more")
                items.append((element, *self._coder.encode(part, state)))
        except Exception as error:
            raise failed_step(error, self._plan.label, None, element) from error
        return items

    def _parts(self, element: object, initial: object) -> Iterator[tuple[object, float]]:
        """The restrictions of an element, each with its size."""
        for part, size in self._splitting.provider.split_and_size(element, initial):
            kept = self._splitting.provider.truncate(element, part) if self._plan.drains else part
            if kept is not None:
                yield kept, size
