"""Where, when and how of one grouping: configuration derived from its windowing, without state."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sdk.combinefns.combine_fn import AnyCombineFn, combiner_signature
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.window_contents import (
    Contents,
    LiftedReduction,
    Reduction,
    RetractableContents,
    ValueBuffer,
)
from headrace.sdk.triggers import AccumulationMode, Trigger
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing, windowing_signature


@dataclass(frozen=True, slots=True)
class GroupingConfig:
    """The settings of a grouping."""

    windowing: Windowing
    namespaces: WindowNamespaces
    contents: Contents
    trigger: Trigger
    merging: bool
    """Whether windows may merge."""
    quiet: bool
    """Whether the trigger neither fires nor has progress before the end of a window."""
    uses_wall_time: bool
    has_ontime_pane: bool
    discarding: bool
    """Whether a window is emptied by each pane."""
    empty_on_time: bool
    """Whether the pane at the end of a window is emitted even without elements since the previous pane."""
    empty_last: bool
    """Whether the last pane is emitted even without elements since the previous pane."""
    retracting: bool
    """Whether a pane is preceded by the retraction of the previous pane."""
    takes_back: bool
    """Whether the input may have retractions."""

    @classmethod
    def of(
        cls, windowing: Windowing, combine: AnyCombineFn | None, form: GroupingInputForm, takes_back: bool = False
    ) -> GroupingConfig:
        """The configuration for a windowing, a `CombineFn` (None to group values) and a form of the input."""
        trigger = windowing.trigger
        merging = windowing.window_fn.is_merging()
        return cls(
            windowing,
            WindowNamespaces(windowing),
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

    def state_signature(self, combine: AnyCombineFn | None) -> dict[str, str]:
        """Windows, trigger, combiner, and the kind of the windows' contents.

        It is the same for a `Grouping` and for vectorized ones, as each can read the state that another has stored.
        """
        contents = {"contents": self.contents.kind}
        return {**windowing_signature(self.windowing), **combiner_signature(combine), **contents}


def _retractable(combine: AnyCombineFn | None, merging: bool) -> Contents:
    if merging or (combine is not None and not combine.is_invertible()):
        return RetractableContents(merging, combine)
    return ValueBuffer(merging) if combine is None else Reduction(combine)


def _contents(combine: AnyCombineFn | None, form: GroupingInputForm, merging: bool) -> Contents:
    if combine is None:
        return ValueBuffer(merging)
    combined = form in (GroupingInputForm.LIFTED, GroupingInputForm.SHARDED)
    return LiftedReduction(combine) if combined else Reduction(combine)
