"""What: a splittable `DoFn` as a keyed computation (Beam's splittable `ParDo`, https://s.apache.org/splittable-do-fn).

The key is that of a work item: an element with a restriction. If its call of `process` ends with a checkpoint, the rest
of the restriction is the key's state, a wall-time timer resumes it, and the timer's hold is its estimated watermark.
Work items are therefore part of each commit, and move with the interval of their key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.coders.coder import coder_name
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.functions.arguments import Arguments
from headrace.sdk.functions.declarations import Splitting
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.lifecycle import call_hook, start_bundle
from headrace.sdk.operators.splittable.process_invoker import Allowance, ProcessInvoker, Residual
from headrace.sdk.operators.splittable.work_item import (
    Element,
    Encoded,
    RestrictionCoder,
    Sided,
    Windowed,
    forget_if_done,
    store,
    store_restriction,
    take,
)
from headrace.sdk.operators.stateful.do_fn_computation import DoFnComputation, Outputs
from headrace.sdk.splittable.tracker_view import DeferredTime
from headrace.sdk.windows.windowing import Windowing, window_kind


@dataclass(frozen=True, slots=True)
class SplittablePlan:
    """Configuration of a splittable step; it is pickled and sent to the workers."""

    label: str
    fn: DoFn
    arguments: Arguments
    """Sources of the arguments of `process`."""
    splitting: Splitting
    windowing: Windowing
    is_sided: bool
    """Whether work items come through a gate, with side values."""
    outputs: Mapping[str | None, str]
    """Tag -> stream, in the form FIRED."""
    drains: bool = False
    """Whether restrictions that were left for later are truncated, so that the run ends."""


@named("SplittableParDo")
class SplittableParDo(DoFnComputation[SplittablePlan, "_LiveFn"]):
    """Processes and resumes the work items of a splittable `DoFn`."""

    def make_live(self, plan: SplittablePlan) -> _LiveFn:
        """See `DoFnComputation`."""
        return _LiveFn(plan)

    def state_signature(self) -> Mapping[str, str]:
        """Windows, and the coder of restrictions."""
        coder = self.plan.splitting.provider.restriction_coder()
        return {
            "windows": window_kind(self.plan.windowing.window_fn),
            "restriction coder": coder_name(coder),
            "side inputs": str(self.plan.is_sided),
        }

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Process work items that are new."""
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
            if self.plan.is_sided:
                (_, (element, *encoded)), window, pane, sides = cast(Sided, value)
                self.live.begin(context, Element(element, timestamp, (window,), pane, sides), cast(Encoded, encoded))
            else:
                (_, (element, *encoded)), windows, pane = cast(Windowed, value)
                self.live.begin(context, Element(element, timestamp, windows, pane, ()), cast(Encoded, encoded))

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Resume the work item of the key."""
        self.live.resume(context, timer.tag)

    def finish_key(self, context: Context) -> None:
        """Send outputs."""
        self.live.outputs.send(context.produce_batch)


class _LiveFn:
    """A splittable function in one process."""

    def __init__(self, plan: SplittablePlan) -> None:
        self._fn, self._label = plan.fn, plan.label
        self._provider, self._drains = plan.splitting.provider, plan.drains
        self._coder = RestrictionCoder(plan.splitting)
        self._allowance = Allowance()
        self.outputs = Outputs(plan.outputs, plan.windowing)
        self._invoker = ProcessInvoker(
            plan.label, plan.fn, plan.arguments, plan.splitting, self.outputs, self._allowance
        )

    def start_bundle(self) -> None:
        """Start a bundle; the previous bundle may have failed."""
        self.outputs.clear()
        self._allowance.start_bundle()
        start_bundle(self._label, self._fn)

    def begin(self, context: Context, element: Element, encoded: Encoded) -> None:
        """Process a work item that is new."""
        residuals = self._invoker.process(element, *self._coder.decode(encoded))
        if residuals:
            store(context, element)
            self._defer(context, element, residuals)

    def resume(self, context: Context, name: str) -> None:
        """Process the work item that is the key's state; `name` is that of the restriction."""
        element, encoded, is_truncated = take(context, name)
        restriction, state = self._coder.decode(encoded)
        if self._drains and not is_truncated:
            restriction = self._truncated(element, restriction)
        if restriction is not None:
            self._defer(context, element, self._invoker.process(element, restriction, state))
        forget_if_done(context)

    def _truncated(self, element: Element, restriction: object) -> object | None:
        """What is left to do of a restriction before the run ends; None for nothing."""
        try:
            return self._provider.truncate(element.value, restriction)
        except Exception as error:
            raise failed_step(error, self._label, restriction, element.value) from error

    def _defer(self, context: Context, element: Element, residuals: Sequence[Residual]) -> None:
        """Store restrictions, each with a timer that resumes it."""
        for residual in residuals:
            encoded = self._coder.encode(residual.restriction, residual.estimator_state)
            name = store_restriction(context, encoded, self._drains)
            hold = element.timestamp if residual.watermark is None else residual.watermark.micros
            context.set_timer(name, _resumed_at(context.wall_time, residual.deferred_time), TimeDomain.WALL_TIME, hold)

    def finish_bundle(self, emit: Emit) -> None:
        """End the bundle: call `finish_bundle` of the function, and send its outputs."""
        outputs = call_hook(self._label, self._fn.finish_bundle)
        if outputs is not None:
            call_hook(self._label, lambda: self.outputs.take_last(outputs))
            self.outputs.send(emit)


def _resumed_at(wall_time: int, deferred: DeferredTime) -> int:
    """When to resume, microseconds UTC: in a later epoch, as a timer that is due already fires in this one."""
    at = wall_time
    if deferred is not None:
        at = deferred.micros if isinstance(deferred, Timestamp) else wall_time + deferred.micros
    return max(at, wall_time + 1)
