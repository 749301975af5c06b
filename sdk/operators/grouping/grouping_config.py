"""Where, when and how of one grouping: configuration derived from its windowing, without state."""

from __future__ import annotations

from headrace.sdk.combinefns.combine_fn import AnyCombineFn, combiner_signature
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.window_contents import (
    Contents,
    LiftedReduction,
    Reduction,
    RetractableContents,
    ValueBuffer,
)
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing, windowing_signature


class GroupingConfig:
    """The settings of a grouping, worked out once.

    Args:
        windowing: Windowing of the input.
        combine: The CombineFn; None to group values.
        form: The form of the input.
        takes_back: Whether the input may have retractions.
    """

    def __init__(
        self, windowing: Windowing, combine: AnyCombineFn | None, form: GroupingInputForm, takes_back: bool = False
    ) -> None:
        self.windowing, self.trigger, self.takes_back = windowing, windowing.trigger, takes_back
        self.namespaces = WindowNamespaces(windowing)
        self.merging = windowing.window_fn.is_merging()
        """Whether windows may merge."""
        self.contents = _retractable(combine, self.merging) if takes_back else _contents(combine, form, self.merging)
        self.quiet = self.trigger.quiet_until_end
        """Whether the trigger neither fires nor has progress before the end of a window."""
        self.uses_wall_time, self.has_ontime_pane = self.trigger.uses_wall_time, self.trigger.has_ontime_pane()
        self.discarding = windowing.accumulation_mode is AccumulationMode.DISCARDING
        """Whether a window is emptied by each pane."""
        self.retracting = windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING
        """Whether a pane is preceded by the retraction of the previous pane."""
        self.empty_on_time = windowing.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS
        """Whether the pane at the end of a window is emitted even without elements since the previous pane."""
        self.empty_last = windowing.closing_behavior is ClosingBehavior.FIRE_ALWAYS
        """Whether the last pane is emitted even without elements since the previous pane."""

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
