"""What: element-wise transforms, which apply a user function to each element, with handling of its exceptions.

The source is `apache_beam.transforms.core`: `ParDo`, `Map` and the like, `with_exception_handling`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, cast

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.uncalled_hooks import warn_of_uncalled_hooks
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import TupleCombineFn
from headrace.sdk.expressions.batch_view import Second, UnderNone
from headrace.sdk.functions.arguments import Arguments, Given, bind
from headrace.sdk.functions.bundle_values import WithBundleValues, with_bundle_values
from headrace.sdk.functions.declarations import DeclaredState, Splitting, declared_state_of, splitting_of
from headrace.sdk.functions.do_fn import (
    DoFn,
    FilterFn,
    FlatMapFn,
    FlatMapTupleFn,
    FunctionDoFn,
    MapFn,
    MapTupleFn,
)
from headrace.sdk.functions.exception_guard import GuardedDoFn, GuardedFn, GuardRules, OnFailure, Threshold
from headrace.sdk.functions.lifecycle import TAG, finalize
from headrace.sdk.functions.step_types import StepTyping, TypedStep, check_elements
from headrace.sdk.graph.build_checks import check_stateful_input
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection, DoOutputsTuple, PCollection
from headrace.sdk.graph.side_inputs import never_ready, refuse_bare, without_side_inputs
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import CombineByKey
from headrace.sdk.transforms.core.low_level import Write
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.windows import WindowFn
from headrace.sdk.windows.windowing import Windowing

Outputs = DoOutputsTuple | Collection
_log = logging.getLogger(__name__)


class TakesErrors(Protocol):
    """A consumer of bad elements, such as an `ErrorHandler`."""

    def add_error_pcollection(self, errors: Collection) -> None:
        """Take the collection of the bad elements of a step."""


class ParDo(TypedStep, PTransform[PCollection[object], PCollection[object]]):
    """Applies a `DoFn` to each element.

    Args:
        fn: The `DoFn`, or a function that returns an iterable of outputs.
        *args: Further positional arguments of `process`; they may be side inputs, such as `AsList(collection)`.
        **kwargs: Further named arguments of `process`, side inputs among them.

    Raises:
        TypeError: `fn` is neither, or `process` cannot be called with an element and these arguments.

    >>> import headrace as beam
    >>> class Words(beam.DoFn):
    ...     def process(self, line):
    ...         yield from line.split()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["to be"]) | beam.ParDo(Words()) | beam.Map(print)
    to
    be
    """

    def __init__(self, fn: DoFn | Callable[..., object], *args: object, **kwargs: object) -> None:
        super().__init__()
        if isinstance(fn, type) and issubclass(fn, DoFn):
            raise TypeError(f"ParDo takes an instance of a DoFn, got the class {fn.__name__}; write {fn.__name__}()")
        if not isinstance(fn, DoFn):
            fn = FlatMapFn(_callable("ParDo", fn))
        refuse_bare(fn.default_label(), (*args, *kwargs.values()))
        self.fn, self._kind = fn, _KINDS.get(type(fn), type(self).__name__)
        self.declared_state: DeclaredState | None = None
        """The state and timers that the `DoFn` declares; None if it declares none."""
        called = fn.function if isinstance(fn, FunctionDoFn) else fn.process
        try:
            bound = bind(called, args, kwargs, isinstance(fn, FunctionDoFn) and fn.spread)
        except TypeError as error:
            kind = "the function" if isinstance(fn, FunctionDoFn) else "process"
            raise TypeError(
                f"{self.default_label()}: {kind} cannot take an element and its arguments: {error}"
            ) from None
        self.arguments: Arguments
        self.arguments, self.side_inputs = without_side_inputs(bound)
        self.declared_state = declared_state_of(fn, self.default_label(), self.arguments)
        is_stateful = self.declared_state is not None
        self.splitting: Splitting | None = splitting_of(fn, self.default_label(), self.arguments, is_stateful)
        """How elements are split; None if the `DoFn` is not splittable."""
        self.is_unbounded = hasattr(called, "unbounded_per_element")
        stating = fn.function if isinstance(fn, FunctionDoFn) else fn
        spread = isinstance(fn, FunctionDoFn) and fn.spread
        self.typing = StepTyping(called, stating, fn.gives, spread, self.arguments)
        """The types that the function declares."""

    def default_label(self) -> str:
        """The kind of step and the function's name."""
        return f"{self._kind}({self.fn.default_label()})"

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """See `PTransform`."""
        check_elements(self.fn, self.typing, self.input_hints, outputs)

    def drops_late(self) -> bool:
        """See `PTransform`; with side inputs, an element is late if its side windows may be gone."""
        return self.declared_state is not None or (bool(self.side_inputs) and self.splitting is None)

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """One output collection; `with_outputs` adds further outputs."""
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
        if self.declared_state is not None:
            check_stateful_input(inputs, label)
        warn_of_uncalled_hooks(f"the DoFn of step {label!r}", self.fn)
        parts = (*with_bundle_values(self.fn, self.arguments, self.declared_state), self.splitting)
        self.fn, self.arguments, self.declared_state, self.splitting = shipped(parts, label)
        output: Collection = PCollection(inputs.pipeline, inputs.windowing, inputs.is_bounded and not self.is_unbounded)
        if isinstance(self.fn, WithBundleValues) and self.fn.finalizes:
            _finalize(output)
        return output

    def with_outputs(self, *tags: str, main: str | None = None, allow_unknown_tags: bool | None = None) -> MultiParDo:
        """The same step with several outputs.

        Args:
            *tags: Tags of `TaggedOutput`s; without tags, any tag may be looked up in the outputs.
            main: Name of the main output, which then comes first when the outputs are unpacked.
            allow_unknown_tags: Whether tags other than `tags` may be looked up; by default only if there are no `tags`.

        Raises:
            ValueError: `main` is one of the tags.
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
        """The same step with an output for the elements for which its function raises, instead of a failing run.

        In `good, bad = numbers | Map(f).with_exception_handling()` the elements of `bad` are pairs (element, (class of
        the error, repr of the error, lines of the traceback)).

        Args:
            main_tag: Name of the main output.
            dead_letter_tag: Name of the output for bad elements.
            exc_class: Class of the exceptions to catch, or a tuple of classes.
            partial: Whether the outputs of an element before its error are kept; by default they are discarded.
            use_subprocess: Refused if true, as a dead worker process is replaced and its work is done again anyway.
            threshold: Greatest share of a window's elements that may be bad; the run stops if more are bad.
            threshold_windowing: Windows in which `threshold` counts, instead of the windows of the input.
            timeout: Greatest time for one element, in seconds; an element that takes longer raises `TimeoutError`.
            error_handler: Consumer of the bad elements; the step's output is then the main output alone.
            on_failure_callback: Function that the worker calls with (error, element); its own exceptions are logged.
            allow_unsafe_userstate_in_process: Without effect: steps may use state, and keep what was written.

        Raises:
            ValueError: `use_subprocess` is true, `threshold` is negative, or a step with state has a timeout.
        """
        _check_guarded(self, use_subprocess, timeout)
        rules = GuardRules(dead_letter_tag, exc_class, partial, timeout, on_failure_callback)
        return ExceptionHandling(self, rules, main_tag, threshold, threshold_windowing, error_handler)

    def with_error_handler(self, error_handler: TakesErrors | None, **options: object) -> ParDo | ExceptionHandling:
        """`with_exception_handling` with an error handler; the step itself if there is no error handler."""
        if error_handler is None:
            return self
        handling = cast("Callable[..., ExceptionHandling]", self.with_exception_handling)
        return handling(error_handler=error_handler, **options)


class ExceptionHandling(PTransform[Collection, Outputs]):
    """A `ParDo` with an output for bad elements, as pairs (element, (class, repr, traceback lines)).

    `ParDo.with_exception_handling` makes it and explains the arguments.
    """

    def __init__(
        self,
        par_do: ParDo,
        rules: GuardRules,
        main_tag: str,
        threshold: float,
        threshold_windowing: WindowFn | Windowing | None,
        error_handler: TakesErrors | None,
    ) -> None:
        super().__init__(par_do.label)
        if threshold < 0:
            raise ValueError(f"threshold is {threshold}; give a share of the elements, from 0 to 1")
        if error_handler is not None and not hasattr(error_handler, "add_error_pcollection"):
            raise TypeError(f"{par_do.label}: error_handler is {error_handler!r:.200}; give an ErrorHandler(transform)")
        self._par_do, self._rules, self._main_tag, self._error_handler = par_do, rules, main_tag, error_handler
        self._threshold, self._threshold_windowing = threshold, threshold_windowing
        self._tags: tuple[str, ...] | None = None

    def with_outputs(self, *tags: str, main: str | None = None) -> ExceptionHandling:
        """The same step with tagged outputs, followed by the output for bad elements."""
        clone = copy.copy(self)
        clone._tags, clone._main_tag = tags, main or self._main_tag
        return clone

    def expand(self, inputs: Collection) -> Outputs:
        """The main output, the tagged outputs and the bad elements.

        If an error handler takes the bad elements and there are no tags, it is the main output alone.
        """
        tags = dict.fromkeys([*(self._tags or ()), self._rules.tag])
        step = self._guarded().with_outputs(*tags, main=self._main_tag, allow_unknown_tags=True)
        outputs = inputs | "Try" >> step
        bad = outputs[self._rules.tag]
        if self._threshold < 1:
            self._check(inputs, bad)
        if self._error_handler is None:
            return outputs
        self._error_handler.add_error_pcollection(bad)
        return outputs[self._main_tag] if self._tags is None else outputs

    def _guarded(self) -> ParDo:
        """The step with a guarded function, which takes the element before the function's own arguments."""
        guarded = copy.copy(self._par_do)
        fn = self._par_do.fn
        guarded.fn = GuardedFn(fn, self._rules) if isinstance(fn, FunctionDoFn) else GuardedDoFn(fn, self._rules)
        arguments = self._par_do.arguments
        guarded.arguments = replace(arguments, positional=(Given.ELEMENT, *arguments.positional))
        return guarded

    def _check(self, inputs: Collection, bad: Collection) -> None:
        """Add a check that stops the run if too many elements of a window are bad."""
        counted = (inputs | "All" >> Map(lambda _: (0, 1)), bad | "Bad" >> Map(lambda _: (1, 0))) | Flatten()
        if self._threshold_windowing is not None:
            counted |= "Window" >> WindowInto(self._threshold_windowing)
        sums = CombineByKey(cast(AnyCombineFn, TupleCombineFn(sum, sum)))
        # The labels are those of a CombineGlobally, as they name the state.
        totals = counted | "Count/Key" >> Map(UnderNone()) | "Count/Combine" >> sums | "Count/Unkey" >> Map(Second())
        _ = totals | "Check" >> Map(Threshold(self._threshold).check)


class MultiParDo(TypedStep, PTransform[PCollection[object], DoOutputsTuple]):
    """A `ParDo` with several outputs: the main output and one collection for each tag."""

    def __init__(self, par_do: ParDo, tags: tuple[str, ...], main: str | None, open_tags: bool) -> None:
        super().__init__()
        self.par_do, self._tags, self._main, self._open_tags = par_do, tags, main, open_tags
        self.typing, self.input_hints, self.output_hints = par_do.typing, par_do.input_hints, par_do.output_hints

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """See `PTransform`."""
        self.par_do.check_elements(outputs)

    def default_label(self) -> str:
        """The label of the `ParDo`."""
        return self.par_do.label

    def drops_late(self) -> bool:
        """See `PTransform`."""
        return self.par_do.drops_late()

    def expand(self, inputs: PCollection[object]) -> DoOutputsTuple:
        """The outputs of the `ParDo`."""
        return DoOutputsTuple(self.par_do.expand(inputs), self._tags, self._main, self._open_tags)


def Map(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """A `ParDo` that emits the function's result for each element.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["to", "be"]) | beam.Map(str.upper) | "Print" >> beam.Map(print)
    TO
    BE
    """
    return ParDo(MapFn(_callable("Map", fn)), *args, **kwargs)


def FlatMap(fn: Callable[..., object] = iter, *args: object, **kwargs: object) -> ParDo:
    """A `ParDo` that emits each item of the function's result for an element; by default, each item of the element.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["to be"]) | beam.FlatMap(str.split) | beam.Map(print)
    to
    be
    """
    return ParDo(FlatMapFn(_callable("FlatMap", fn)), *args, **kwargs)


def Filter(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """A `ParDo` that emits the elements for which the function's result is true.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1, 2, 3]) | beam.Filter(lambda number: number > 1) | beam.Map(print)
    2
    3
    """
    return ParDo(FilterFn(_callable("Filter", fn)), *args, **kwargs)


def MapTuple(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """A `Map` of a function with a parameter for each item of the element.

    >>> MapTuple(max).label
    'MapTuple(max)'
    """
    return ParDo(MapTupleFn(_callable("MapTuple", fn)), *args, **kwargs)


def FlatMapTuple(fn: Callable[..., object], *args: object, **kwargs: object) -> ParDo:
    """A `FlatMap` of a function with a parameter for each item of the element.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     orders = pipeline | beam.Create([("tea", 2)])
    ...     _ = orders | beam.FlatMapTuple(lambda name, count: [name] * count) | beam.Map(print)
    tea
    tea
    """
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


def _finalize(output: Collection) -> None:
    """Add an output of callbacks to the step that is being applied, and what calls them."""
    pipeline = output.pipeline
    [step] = [step for step in pipeline.steps if step.full_label == pipeline.current_label]
    callbacks: Collection = PCollection.like(output, TAG)
    step.add_output(callbacks)
    _ = callbacks | "Finalize" >> Write(CallSink(finalize))


def _check_guarded(step: ParDo, use_subprocess: bool, timeout: float | None) -> None:
    """Raise ValueError for settings of exception handling that the step cannot have."""
    if use_subprocess:
        raise ValueError(
            f"{step.label}: use_subprocess is not supported; the engine replaces workers that die, and exceptions are "
            "caught without it"
        )
    if timeout is not None and step.declared_state is not None:
        raise ValueError(f"{step.label}: a step with state takes no timeout, as what takes too long could still write")
