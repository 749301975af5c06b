"""What: an element with a restriction as it travels from initial splitting to processing, and as it is stored."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.functions.splitting import Splitting
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.windows import BoundedWindow

Encoded: TypeAlias = tuple[bytes, bytes]
"""Restriction and state of the watermark estimator, each encoded by the coder of its provider."""
Item: TypeAlias = tuple[object, bytes, bytes]
"""Element, encoded restriction, encoded state of the watermark estimator."""
Windowed: TypeAlias = tuple[tuple[bytes, Item], tuple[BoundedWindow, ...], PaneInfo | None]
"""Pair (key of its own, item), windows, pane: the output of initial splitting."""
Sided: TypeAlias = tuple[tuple[bytes, Item], BoundedWindow, PaneInfo | None, tuple[object, ...]]
"""The same behind a gate: with one window, and with side values."""

_ELEMENT, _RESTRICTION = b"element", b"restriction"


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
