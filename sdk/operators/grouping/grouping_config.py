"""Where, when and how of one grouping, worked out once: configuration only."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sdk.arrivals import InputForm
from headrace.sdk.contents import Combiner, Contents, LiftedReduction, Reduction, ValueBuffer
from headrace.sdk.frames import Frames
from headrace.sdk.ledger import Ledger
from headrace.sdk.transforms.combinefn import has_inverse
from headrace.sdk.triggers import AccumulationMode, Trigger
from headrace.sdk.windowing import ClosingBehavior, OnTimeBehavior, Windowing


@dataclass(frozen=True, slots=True)
class Rules:
    """What a windowing means for a grouping."""

    windowing: Windowing
    frames: Frames
    contents: Contents
    trigger: Trigger
    merging: bool
    """Whether windows may merge."""
    quiet: bool
    """Whether the trigger has nothing to do before the end of a window."""
    uses_wall_time: bool
    has_ontime_pane: bool
    discarding: bool
    """Whether a window is emptied by each pane."""
    empty_on_time: bool
    """Whether the pane at the end of a window is wanted even if nothing came since the last."""
    empty_last: bool
    """Whether the last pane is wanted even if nothing came since the one before."""
    retracting: bool
    """Whether a pane takes back the one before it."""
    takes_back: bool
    """Whether the input may have retractions."""

    @classmethod
    def of(cls, windowing: Windowing, combine: Combiner | None, form: InputForm, takes_back: bool = False) -> Rules:
        """The rules of grouping (or combining) such input."""
        trigger = windowing.trigger
        merging = windowing.window_fn.is_merging()
        return cls(
            windowing,
            Frames(windowing),
            _retractable(combine, merging) if takes_back else _contents(combine, form, merging),
            trigger,
            merging,
            quiet=trigger.quiet_until_end,
            uses_wall_time=trigger.uses_wall_time,
            has_ontime_pane=trigger.has_ontime_pane(),
            discarding=windowing.accumulation_mode is AccumulationMode.DISCARDING,
            empty_on_time=windowing.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS,
            empty_last=windowing.closing_behavior is ClosingBehavior.FIRE_ALWAYS,
            retracting=windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING,
            takes_back=takes_back,
        )


def _retractable(combine: Combiner | None, merging: bool) -> Contents:
    if merging or (combine is not None and not has_inverse(combine)):
        return Ledger(merging, combine)
    return ValueBuffer(merging) if combine is None else Reduction(combine)


def _contents(combine: Combiner | None, form: InputForm, merging: bool) -> Contents:
    if combine is None:
        return ValueBuffer(merging)
    combined = form in (InputForm.LIFTED, InputForm.SHARDED)
    return LiftedReduction(combine) if combined else Reduction(combine)
