"""What: the frame of keyed computations that run a `DoFn`, with the copy of the function in a process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.records.record import Emit
from headrace.lowlevel.topology.computation import BundleComputation
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.lifecycle import set_up


class DoFnPlan(Protocol):
    """Configuration of a step; it is pickled and sent to the workers."""

    @property
    def label(self) -> str:
        """The label of the step."""

    @property
    def fn(self) -> DoFn:
        """The function of the step."""


class LiveDoFn(Protocol):
    """The function of a step in one process."""

    def start_bundle(self) -> None:
        """Start a bundle."""

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle of the function, and send its outputs."""


PlanT = TypeVar("PlanT", bound=DoFnPlan)
LiveT = TypeVar("LiveT", bound=LiveDoFn)


class DoFnComputation(BundleComputation, Generic[PlanT, LiveT]):
    """A keyed computation that runs a `DoFn`; subclasses say how it processes elements."""

    def __init__(self, plan: PlanT) -> None:
        self.plan = plan
        self.strong_productions = plan.fn.strong_productions
        self._live: LiveT | None = None
        self._ending: ExitStack | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_live": None, "_ending": None}

    @abstractmethod
    def make_live(self, plan: PlanT) -> LiveT:
        """The function of a copy of the plan."""

    def combiners(self, plan: PlanT) -> Sequence[AnyCombineFn]:
        """Combiners of the step, which have their own setup and teardown."""
        return ()

    @property
    def live(self) -> LiveT:
        """The copy of the function in this process."""
        assert self._live is not None, "setup() comes first"
        return self._live

    def setup(self) -> None:
        """Set up a copy of the function, so that the plan stays as it is."""
        plan = shipped(self.plan, self.plan.label)
        self._live = self.make_live(plan)
        parts: list[DoFn | AnyCombineFn] = [plan.fn, *self.combiners(plan)]
        self._ending = set_up((plan.label, part) for part in parts)

    def teardown(self) -> None:
        """Tear down the function and its combiners, and drop the copy."""
        self._live, ending, self._ending = None, self._ending, None
        if ending is not None:
            ending.close()

    def has_teardown(self) -> bool:
        """Whether the function or one of its combiners defines a teardown."""
        own = type(self.plan.fn).teardown is not DoFn.teardown
        return own or any(combiner.has_teardown() for combiner in self.combiners(self.plan))

    def start_bundle(self) -> None:
        """Start a bundle."""
        self.live.start_bundle()

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle of the function, and send its outputs."""
        self.live.finish_bundle(emit)
