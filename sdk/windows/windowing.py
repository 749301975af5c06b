"""Where, when and how of a collection together (Beam's `Windowing` and `WindowInto`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes
from headrace.sdk.triggers import AccumulationMode, DefaultTrigger, Trigger
from headrace.sdk.windows import GlobalWindows, TimestampCombiner, WindowFn


class ClosingBehavior(Enum):
    """Whether a window that closes has a last pane even if nothing came since the last."""

    FIRE_IF_NON_EMPTY = "if something came"
    FIRE_ALWAYS = "always"


class OnTimeBehavior(Enum):
    """Whether the pane at the end of a window is fired even if nothing came since the last."""

    FIRE_ALWAYS = "always"
    FIRE_IF_NON_EMPTY = "if something came"


@dataclass(frozen=True, slots=True)
class Windowing:
    """How a collection is windowed, triggered and accumulated at its next grouping.

    >>> from headrace.sdk.windows import FixedWindows
    >>> Windowing.of(FixedWindows(60), allowed_lateness=5).closes_at(60_000_000)
    65000000
    """

    window_fn: WindowFn = field(default_factory=GlobalWindows)
    trigger: Trigger = field(default_factory=DefaultTrigger)
    accumulation_mode: AccumulationMode = AccumulationMode.DISCARDING
    timestamp_combiner: TimestampCombiner = TimestampCombiner.OUTPUT_AT_EOW
    allowed_lateness_us: int = 0
    """How long after its end a window stays open for late elements, microseconds of event time."""
    closing_behavior: ClosingBehavior = ClosingBehavior.FIRE_IF_NON_EMPTY
    on_time_behavior: OnTimeBehavior = OnTimeBehavior.FIRE_ALWAYS

    @classmethod
    def of(
        cls,
        window_fn: WindowFn,
        trigger: Trigger | None = None,
        accumulation_mode: AccumulationMode | None = None,
        timestamp_combiner: TimestampCombiner | None = None,
        allowed_lateness: DurationTypes = 0,
        closing_behavior: ClosingBehavior | None = None,
        on_time_behavior: OnTimeBehavior | None = None,
    ) -> Windowing:
        """A windowing from what `WindowInto` is given, with Beam's defaults; None for those.

        Raises `TopologyError` (a `ValueError`) for parts that do not fit together.
        """
        default = cls()
        trigger = trigger or default.trigger
        if accumulation_mode is None and trigger != default.trigger:
            raise TopologyError(
                f"trigger {trigger} is given without an accumulation_mode; say whether its panes are "
                "AccumulationMode.DISCARDING, ACCUMULATING or ACCUMULATING_AND_RETRACTING"
            )
        lateness = Duration.of(allowed_lateness).micros
        if lateness < 0:
            raise TopologyError(f"allowed_lateness is {lateness / 1e6:g} s; give 0 or more seconds")
        _require_determinism(window_fn)
        return cls(
            window_fn,
            trigger,
            accumulation_mode or default.accumulation_mode,
            timestamp_combiner or default.timestamp_combiner,
            lateness,
            closing_behavior or default.closing_behavior,
            on_time_behavior or default.on_time_behavior,
        )

    @property
    def allowed_lateness(self) -> Duration:
        """How long after its end a window stays open for late elements."""
        return Duration(micros=self.allowed_lateness_us)

    def closes_at(self, end_us: int) -> int:
        """The watermark at which a window closes that ends at `end_us`; at the end of time every window does."""
        return min(end_us + self.allowed_lateness_us, MAX_TIMESTAMP)

    def after_grouping(self) -> Windowing:
        """The windowing of a grouping's output: the same, with the trigger's continuation."""
        return replace(self, trigger=self.trigger.continuation())

    @property
    def puts_out_once(self) -> bool:
        """Whether a window has one pane at most: nothing comes before its end, nor after it."""
        return self.trigger.quiet_until_end and not self.allowed_lateness_us

    def may_lose_data(self) -> bool:
        """Whether the trigger may finish while elements still come for the window, which are then dropped."""
        return self.trigger.may_finish(self.allowed_lateness_us)


def contrast(one: Windowing, other: Windowing) -> tuple[str, str]:
    """What two windowings differ in, as a person reads it: of each what the other has not.

    >>> from headrace.sdk.windows import FixedWindows
    >>> contrast(Windowing.of(FixedWindows(60)), Windowing())
    ('FixedWindows(size=Duration(60), offset=Duration(0))', 'GlobalWindows()')
    """
    differing = [each.name for each in fields(Windowing) if getattr(one, each.name) != getattr(other, each.name)]
    return _told(one, differing), _told(other, differing)


def _told(windowing: Windowing, names: Sequence[str]) -> str:
    told = []
    for name in (name.removesuffix("_us") for name in names):
        value: object = getattr(windowing, name)
        shown = value.name if isinstance(value, Enum) else repr(value)
        told.append(shown if name in ("window_fn", "trigger") else f"{name} {shown}")
    return ", ".join(told)


def _require_determinism(window_fn: WindowFn) -> None:
    coder = window_fn.get_window_coder()
    deterministic = getattr(coder, "is_deterministic", None)
    if deterministic is not None and not deterministic():
        raise TopologyError(
            f"window function {window_fn} has the coder {coder}, which is not deterministic; "
            "give it a get_window_coder() that always makes the same bytes of a window"
        )
