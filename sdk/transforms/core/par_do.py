"""What: element-wise transforms, a function of the user's on each element (`apache_beam.transforms.core`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.panes import PaneInfo
from headrace.sdk.ptransform import PTransform, label_of
from headrace.sdk.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.shipping import shipped
from headrace.sdk.sides.arguments import never_ready, refuse_bare
from headrace.sdk.stateful.inputs import check_stateful_input
from headrace.sdk.stateful.signature import Signature, signature_of
from headrace.sdk.stateful.spec import StateSpec, StateT
from headrace.sdk.stateful.timer import UserTimer
from headrace.sdk.stateful.timerspec import TimerSpec
from headrace.sdk.transforms.parameters import Arguments, Given, StateArgument, TimerArgument, bind, side_inputs
from headrace.sdk.types.runtime import check_elements
from headrace.sdk.types.step import Gives, StepTyping, TypedStep
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import IntervalWindow

if TYPE_CHECKING:
    from headrace.sdk.transforms.exceptions import ExceptionHandling, TakesErrors
    from headrace.sdk.transforms.guard import OnFailure
    from headrace.sdk.windowing import Windowing
    from headrace.sdk.windows import WindowFn


_log = logging.getLogger(__name__)


class DoFn:
    """A function on elements with a life cycle. Subclass it and define `process`.

    `process` returns the outputs as an iterable (usually it is a generator), or None for none. An output is a value,
    at its input's timestamp and in its windows, or a `TimestampedValue`, `WindowedValue` or `TaggedOutput`. Parameters
    of `process` whose default is one of the names below get what the name says.

    >>> class Words(DoFn):
    ...     def process(self, line, window=DoFn.WindowParam):
    ...         for word in line.split():
    ...             yield word, window
    >>> ParDo(Words()).label
    'ParDo(Words)'
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
    WindowedValueParam = cast(WindowedValue, Given.WINDOWED_VALUE)
    """Element, timestamp, windows and pane as one."""
    DynamicTimerTagParam = cast(str, Given.DYNAMIC_TIMER_TAG)
    """In a method with `on_timer`: the tag that the timer was set with."""

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

    handles_retractions: bool = False
    """Whether a DoFn with state, or with a `finish_bundle`, looks at its pane parameter for retractions, and takes back
    what they stand for. One that does not is refused where there may be any."""

    strong_productions: bool = True
    """Whether outputs become visible with the commit of their epoch only. False chooses weak productions: a sink that
    they go to gets them at once, perhaps repeatedly. Our own addition; `headrace.lowlevel.weak` has the rules."""

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


class FunctionDoFn(DoFn):
    """A DoFn made of a plain function; the subclasses differ in what its result means."""

    spread = False
    """Whether an element is spread over the function's parameters."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def default_label(self) -> str:
        """The function's name."""
        return label_of(self.function)


class FlatMapFn(FunctionDoFn):
    """Puts out what the function's result holds."""

    gives = Gives.ITEMS

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return cast("Iterable[object] | None", self.function(*args, **kwargs))


class MapFn(FunctionDoFn):
    """Puts out the function's result."""

    gives = Gives.VALUE

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return [self.function(*args, **kwargs)]


class FilterFn(FunctionDoFn):
    """Puts out the elements for which the function's result is true."""

    gives = Gives.KEPT

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element."""
        return [args[0]] if self.function(*args, **kwargs) else []


class MapTupleFn(MapFn):
    """`MapFn` of a function with a parameter for each item of the element."""

    spread = True


class FlatMapTupleFn(FlatMapFn):
    """`FlatMapFn` of a function with a parameter for each item of the element."""

    spread = True


class ParDo(TypedStep, PTransform[PCollection[object], PCollection[object]]):
    """Puts each element through a `DoFn`.

    Args:
        fn: The `DoFn`, or a function that returns an iterable of outputs.
        *args: Further positional arguments of `process`; an `AsList(collection)` or its like is a side input.
        **kwargs: Further named arguments of `process`, side inputs among them.

    Raises:
        TypeError: `fn` is neither, or `process` cannot be called with an element and these arguments.
    """

    def __init__(self, fn: DoFn | Callable[..., object], *args: object, **kwargs: object) -> None:
        super().__init__()
        if isinstance(fn, type) and issubclass(fn, DoFn):
            raise TypeError(f"ParDo takes an instance of a DoFn, got the class {fn.__name__}; write {fn.__name__}()")
        if not isinstance(fn, DoFn):
            fn = FlatMapFn(_callable("ParDo", fn))
        refuse_bare(fn.default_label(), (*args, *kwargs.values()))
        self.fn = fn
        self.signature: Signature | None = None
        """State and timers that it uses; None for none."""
        called = fn.function if isinstance(fn, FunctionDoFn) else fn.process
        try:
            bound = bind(called, args, kwargs, isinstance(fn, FunctionDoFn) and fn.spread)
        except TypeError as error:
            what = "the function" if isinstance(fn, FunctionDoFn) else "process"
            raise TypeError(
                f"{self.default_label()}: {what} cannot take an element and its arguments: {error}"
            ) from None
        self.arguments: Arguments
        self.arguments, self.side_inputs = side_inputs(bound)
        self.signature = signature_of(fn, self.default_label(), self.arguments)
        stating = fn.function if isinstance(fn, FunctionDoFn) else fn
        spread = isinstance(fn, FunctionDoFn) and fn.spread
        self.typing = StepTyping(called, stating, fn.gives, spread, self.arguments)
        """What is known of the types of its elements before it is applied."""

    def default_label(self) -> str:
        """The kind of step and the function's name."""
        kind = _KINDS.get(type(self.fn), type(self).__name__)
        return f"{kind}({self.fn.default_label()})"

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """See `PTransform`."""
        check_elements(self.fn, self.typing, self.input_hints, outputs)

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """One output collection; further ones come with `with_outputs`."""
        if not isinstance(inputs, PCollection):
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        for side in self.side_inputs:
            if side.pvalue.pipeline is not inputs.pipeline:
                raise ValueError(f"transform {self.label!r} was given {side!r}, which is of a different pipeline")
            if never_ready(side.pvalue):
                _log.warning(
                    "step %r: %r never ends, so the default trigger in the global window fires only when it does, and "
                    "all elements wait till then; give it windows or a trigger with WindowInto",
                    inputs.pipeline.current_label,
                    side,
                )
        label = inputs.pipeline.current_label
        if self.signature is not None:
            check_stateful_input(inputs, label)
        self.fn, self.arguments, self.signature = shipped((self.fn, self.arguments, self.signature), label)
        return PCollection.like(inputs)

    def with_outputs(self, *tags: str, main: str | None = None, allow_unknown_tags: bool | None = None) -> MultiParDo:
        """The same step with several outputs.

        Args:
            *tags: Tags of `TaggedOutput`s; if none are given, any tag may be looked up later.
            main: A name for the main output, which then comes first when the outputs are unpacked.
            allow_unknown_tags: Whether other tags than these may be looked up; by default only if none are given.
        """
        if main in tags:
            raise ValueError(f"main output tag {main!r} must differ from the other tags {tags}")
        return MultiParDo(self, tags, main, not tags if allow_unknown_tags is None else allow_unknown_tags)

    def with_exception_handling(
        self,
        main_tag: str = "good",
        dead_letter_tag: str = "bad",
        *,
        exc_class: type[Exception] | tuple[type[Exception], ...] = Exception,
        partial: bool = False,
        use_subprocess: bool = False,
        threshold: float = 1,
        threshold_windowing: WindowFn | Windowing | None = None,
        timeout: float | None = None,
        error_handler: TakesErrors | None = None,
        on_failure_callback: OnFailure | None = None,
        allow_unsafe_userstate_in_process: bool = False,
    ) -> ExceptionHandling:
        """The same step with an output for the elements that it fails for, instead of stopping the run.

        `good, bad = numbers | Map(f).with_exception_handling()`: the elements of `bad` are pairs (element, (class of
        the error, its repr, lines of its traceback)).

        Args:
            main_tag: Name of the main output.
            dead_letter_tag: Name of the output for bad elements.
            exc_class: What is caught: a class of exceptions or a tuple of them.
            partial: Whether what an element put out before it failed stays; otherwise it is all or nothing.
            use_subprocess: Refused if true: a worker process that dies is replaced and its work done again anyway.
            threshold: The greatest share of a window's elements that may be bad; with more the run stops.
            threshold_windowing: Windows to count in for that, instead of the input's.
            timeout: Seconds that one element may take; more is a `TimeoutError`.
            error_handler: Takes the bad elements; the step's output then is the main output alone.
            on_failure_callback: Called with error and element in the worker; what it raises is logged.
            allow_unsafe_userstate_in_process: Accepted for Beam's sake: state and timers can be used in any case. What
                an element wrote before it failed stays.
        """
        from headrace.sdk.transforms.exceptions import ExceptionHandling, check_guarded
        from headrace.sdk.transforms.guard import GuardRules

        check_guarded(self, use_subprocess, timeout)
        rules = GuardRules(dead_letter_tag, exc_class, partial, timeout, on_failure_callback)
        return ExceptionHandling(self, rules, main_tag, threshold, threshold_windowing, error_handler)

    def with_error_handler(self, error_handler: TakesErrors | None, **options: object) -> ParDo | ExceptionHandling:
        """`with_exception_handling` with an error handler; without one the step as it is."""
        if error_handler is None:
            return self
        handling = cast("Callable[..., ExceptionHandling]", self.with_exception_handling)
        return handling(error_handler=error_handler, **options)


class MultiParDo(TypedStep, PTransform[PCollection[object], DoOutputsTuple]):
    """A `ParDo` whose tagged outputs are collections of their own."""

    def __init__(self, par_do: ParDo, tags: tuple[str, ...], main: str | None, open_tags: bool) -> None:
        super().__init__()
        self.par_do, self._tags, self._main, self._open_tags = par_do, tags, main, open_tags
        self.typing, self.input_hints, self.output_hints = par_do.typing, par_do.input_hints, par_do.output_hints

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """See `PTransform`."""
        self.par_do.check_elements(outputs)

    def default_label(self) -> str:
        """That of the `ParDo`."""
        return self.par_do.label

    def expand(self, inputs: PCollection[object]) -> DoOutputsTuple:
        """The `ParDo`'s outputs."""
        return DoOutputsTuple(self.par_do.expand(inputs), self._tags, self._main, self._open_tags)


def Map(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """`ParDo` that puts out the function's result for each element.

    >>> Map(len).label
    'Map(len)'
    """
    return ParDo(MapFn(_callable("Map", fn)), *args, **kwargs)


def FlatMap(fn: Callable[..., object] = iter, *args: object, **kwargs: object) -> ParDo:
    """`ParDo` that puts out the items of the function's result for each element; without a function, of the element."""
    return ParDo(FlatMapFn(_callable("FlatMap", fn)), *args, **kwargs)


def Filter(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """`ParDo` that puts out the elements for which the function's result is true."""
    return ParDo(FilterFn(_callable("Filter", fn)), *args, **kwargs)


def MapTuple(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """`Map` of a function with a parameter for each item of the element.

    >>> MapTuple(max).label
    'MapTuple(max)'
    """
    return ParDo(MapTupleFn(_callable("MapTuple", fn)), *args, **kwargs)


def FlatMapTuple(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """`FlatMap` of a function with a parameter for each item of the element."""
    return ParDo(FlatMapTupleFn(_callable("FlatMapTuple", fn)), *args, **kwargs)


_KINDS: dict[type[DoFn], str] = {
    MapFn: "Map",
    FlatMapFn: "FlatMap",
    FilterFn: "Filter",
    MapTupleFn: "MapTuple",
    FlatMapTupleFn: "FlatMapTuple",
}


def _callable(kind: str, fn: Callable[..., object]) -> Callable[..., object]:
    if not callable(fn):
        raise TypeError(f"{kind} takes a function, got {fn!r:.200} of type {type(fn).__name__}")
    return fn
