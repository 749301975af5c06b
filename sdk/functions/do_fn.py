"""What: user functions on elements, with their life cycle: `DoFn`, and those made of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.arguments import (
    ContextArgument,
    EstimatorArgument,
    Given,
    RestrictionArgument,
    StateArgument,
    TimerArgument,
)
from headrace.sdk.functions.lifecycle import BundleFinalizer
from headrace.sdk.functions.step_types import Gives
from headrace.sdk.model.labels import label_of
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.splittable.restrictions import RestrictionProvider
from headrace.sdk.splittable.tracker_view import RestrictionTrackerView
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimator, WatermarkEstimatorProvider
from headrace.sdk.typehints.io_type_hints import WithTypeHints
from headrace.sdk.userstate.state_spec import StateSpec, StateT
from headrace.sdk.userstate.timers import TimerSpec, UserTimer
from headrace.sdk.windows import IntervalWindow

ProcessT = TypeVar("ProcessT", bound=Callable[..., object])


class DoFn(WithTypeHints):
    """A function on elements with a life cycle. Subclass it and define `process`.

    `process` returns the outputs as an iterable (usually it is a generator), or None for none. An output is a value,
    at its input's timestamp and in its windows, or a `TimestampedValue`, `WindowedValue` or `TaggedOutput`. Parameters
    of `process` whose default is one of the names below get what the name says.

    >>> class Words(DoFn):
    ...     def process(self, line, window=DoFn.WindowParam):
    ...         for word in line.split():
    ...             yield word, window
    >>> Words().default_label()
    'Words'
    """

    # The engine knows them by identity; their types are those of what a parameter gets.
    ElementParam: object = Given.ELEMENT
    KeyParam: object = Given.KEY
    """The first item of the element."""
    TimestampParam = cast(Timestamp, Given.TIMESTAMP)
    """The element's timestamp."""
    WindowParam = cast(IntervalWindow, Given.WINDOW)
    """The element's window, of whatever kind. An element in several windows is processed once for each."""
    PaneInfoParam = cast(PaneInfo, Given.PANE)
    """The pane that the element came with."""
    CausedByDrainParam = cast(bool, Given.CAUSED_BY_DRAIN)
    """Whether a drain has caused the element, or in a method with `on_timer` fired the timer, before its time."""
    WindowedValueParam = cast(WindowedValue, Given.WINDOWED_VALUE)
    """Element, timestamp, windows and pane as one."""
    DynamicTimerTagParam = cast(str, Given.DYNAMIC_TIMER_TAG)
    """In a method with `on_timer`: the tag that the timer was set with."""

    BundleFinalizerParam = cast(BundleFinalizer, Given.BUNDLE_FINALIZER)
    """Takes callbacks (`register(callback)`) that are called on the driver when the epoch of the bundle is committed.
    After a crash, those of the last epoch may be called again."""

    @staticmethod
    def BundleContextParam(
        context_manager_constructor: Callable[..., object],
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
    ) -> Any:
        """What a context manager gives that is entered for each bundle, as the default of a parameter.

        Args:
            context_manager_constructor: Makes the context manager, in the worker.
            args: Its positional arguments.
            kwargs: Its named arguments.
            name: Without effect.
        """
        return _context("BundleContextParam", context_manager_constructor, args, kwargs, True)

    @staticmethod
    def SetupContextParam(
        context_manager_constructor: Callable[..., object],
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
    ) -> Any:
        """What a context manager gives that is entered once in each process, as the default of a parameter.

        The arguments are those of `BundleContextParam`.

        >>> from tempfile import TemporaryDirectory
        >>> class Folders(DoFn):
        ...     def process(self, name, folder=DoFn.SetupContextParam(TemporaryDirectory)):
        ...         yield f"{folder}/{name}"
        """
        return _context("SetupContextParam", context_manager_constructor, args, kwargs, False)

    @staticmethod
    def StateParam(spec: StateSpec[StateT]) -> StateT:
        """A piece of state of the element's key and window, as the default of a parameter."""
        if not isinstance(spec, StateSpec):
            raise ValueError(
                f"DoFn.StateParam takes a StateSpec, got {spec!r:.200}; declare one, as BagStateSpec('name')"
            )
        return cast(StateT, StateArgument(spec))

    @staticmethod
    def TimerParam(spec: TimerSpec) -> UserTimer:
        """A timer of the element's key and window, as the default of a parameter."""
        if not isinstance(spec, TimerSpec):
            raise ValueError(
                f"DoFn.TimerParam takes a TimerSpec, got {spec!r:.200}; declare one: TimerSpec(name, domain)"
            )
        return cast(UserTimer, TimerArgument(spec))

    @staticmethod
    def RestrictionParam(provider: RestrictionProvider | None = None) -> RestrictionTrackerView:
        """The tracker of the element's restriction, as the default of a parameter; it makes the `DoFn` splittable.

        Args:
            provider: Makes and splits restrictions; if None, the `DoFn` itself is a `RestrictionProvider`.
        """
        if provider is not None and not isinstance(provider, RestrictionProvider):
            raise ValueError(
                f"DoFn.RestrictionParam takes a RestrictionProvider, got {provider!r:.200}; give an instance of one"
            )
        return cast(RestrictionTrackerView, RestrictionArgument(provider))

    @staticmethod
    def WatermarkEstimatorParam(provider: WatermarkEstimatorProvider | None = None) -> Any:
        """The watermark estimator of a splittable DoFn's element, as the default of a parameter.

        Args:
            provider: Makes estimators; if None, the `DoFn` itself is a `WatermarkEstimatorProvider`.
        """
        if provider is not None and not isinstance(provider, WatermarkEstimatorProvider):
            raise ValueError(
                f"DoFn.WatermarkEstimatorParam takes a WatermarkEstimatorProvider, got {provider!r:.200}; give an "
                "instance of one, such as ManualWatermarkEstimator.default_provider()"
            )
        return cast(WatermarkEstimator, EstimatorArgument(provider))

    @staticmethod
    def unbounded_per_element() -> Callable[[ProcessT], ProcessT]:
        """A decorator of `process` which says that an element may have outputs without end."""

        def mark(process: ProcessT) -> ProcessT:
            process.unbounded_per_element = True  # type: ignore[attr-defined]  # where Beam has the mark
            return process

        return mark

    handles_retractions: bool = False
    """Whether a DoFn with state, or with a `finish_bundle`, looks at its pane parameter for retractions, and takes back
    what they stand for. One that does not is refused where there may be any."""

    strong_productions: bool = True
    """Whether outputs become visible with the commit of their epoch only. If False, a sink that they go to gets them at
    once, perhaps repeatedly. Our own addition; the rules are those of `Computation.strong_productions`."""

    keeps_order: bool = False
    """Whether outputs with windows of their own leave in their order, that of a result before its retraction, whatever
    windows they have; they take longer then."""
    outputs_per_window: bool = True
    """Whether an output with a timestamp or windows of its own is put out once for each window of its input. False for
    a DoFn that has counted the windows itself."""

    gives = Gives.OUTPUTS

    def setup(self) -> None:
        """Called once in each process before the first bundle."""

    def start_bundle(self) -> None:
        """Called before the first element of a bundle."""

    def finish_bundle(self) -> Iterable[object] | None:
        """Called after the last element of a bundle; may return outputs as `WindowedValue`s."""

    def has_finish_bundle(self) -> bool:
        """Whether `finish_bundle` does anything."""
        return type(self).finish_bundle is not DoFn.finish_bundle

    def teardown(self) -> None:
        """Called when the run is over, once for each `setup`; not in a process that is killed."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""
        return type(self).teardown is not DoFn.teardown

    if TYPE_CHECKING:
        # To type checkers a method of any parameters will do.
        process: Callable[..., Iterable[object] | None]
    else:

        def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
            """Outputs of an element."""
            raise TypeError(f"{type(self).__name__} does not define process(self, element)")

    def default_label(self) -> str:
        """The name in the label of a `ParDo` of it."""
        return type(self).__name__

    @staticmethod
    def from_callable(function: Callable[..., object]) -> DoFn:
        """The DoFn of a function from an element to its outputs."""
        return FlatMapFn(function)


def _context(
    kind: str, make: object, args: Iterable[object], kwargs: Mapping[str, object] | None, of_bundle: bool
) -> ContextArgument:
    made_already = hasattr(make, "__enter__") and not isinstance(make, type)
    if not callable(make) or made_already:
        raise TypeError(
            f"DoFn.{kind} takes a function that makes a context manager, got {make!r:.200}; write "
            f"{kind}(tempfile.TemporaryDirectory, args=(...)), say, without calling it"
        )
    return ContextArgument(make, tuple(args), dict(kwargs or {}), of_bundle)


class FunctionDoFn(DoFn):
    """A DoFn made of a plain function; the subclasses differ in what its result means."""

    spread = False
    """Whether an element is spread over the function's parameters."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def default_label(self) -> str:
        """The function's name."""
        return label_of(self.function)

    def _result(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """What the function returns for an element and further arguments."""
        if self.spread:
            args = (*cast("Iterable[object]", args[0]), *args[1:])
        return self.function(*args, **kwargs)


class FlatMapFn(FunctionDoFn):
    """Puts out what the function's result holds."""

    gives = Gives.ITEMS

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return cast("Iterable[object] | None", self._result(args, kwargs))


class MapFn(FunctionDoFn):
    """Puts out the function's result."""

    gives = Gives.VALUE

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return [self._result(args, kwargs)]


class FilterFn(FunctionDoFn):
    """Puts out the elements for which the function's result is true."""

    gives = Gives.KEPT

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return [args[0]] if self._result(args, kwargs) else []


class MapTupleFn(MapFn):
    """`MapFn` of a function with a parameter for each item of the element."""

    spread = True


class FlatMapTupleFn(FlatMapFn):
    """`FlatMapFn` of a function with a parameter for each item of the element."""

    spread = True


class ColumnDoFn(DoFn):
    """A `DoFn` that is given columns where elements come so, all in the global window and without panes."""

    def take_columns(self, batch: ColumnBatch) -> Iterable[object] | None:
        """The outputs that `process` would give for all elements, at the timestamp of the first.

        None, and nothing has changed then, if `process` is to get the elements.
        """
        raise NotImplementedError
