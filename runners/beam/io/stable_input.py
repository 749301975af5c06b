"""A DoFn of Beam's SDK that receives committed elements only."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import cast

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.functions.do_fns import BeamDoFn
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.stable_input import Held

PANE: ContextVar[int] = ContextVar("pane", default=0)
"""The index of the pane of the element that a `StableDoFn` processes."""


@named("BeamStableDoFn")
class StableDoFn(BeamDoFn):
    """A DoFn of Beam's SDK for a `StableParDo`."""

    def process(  # type: ignore[override]  # without side values
        self, element: object, value: WindowedValue = DoFn.WindowedValueParam
    ) -> Iterable[object] | None:
        """Outputs of an element."""
        given, sides = cast(Held, element)
        PANE.set(given.pane_info.index)
        return super().process(given.value, *sides, value=given)
