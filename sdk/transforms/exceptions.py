"""What: dead letters, the elements that a step fails for, as an output of it (`with_exception_handling`)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.transforms.combine import CombineGlobally
from headrace.sdk.transforms.combinefn import AnyCombineFn
from headrace.sdk.transforms.element import DoFn, FunctionDoFn, Map, ParDo
from headrace.sdk.transforms.flatten import Flatten
from headrace.sdk.transforms.guard import GuardedDoFn, GuardedFn, GuardRules
from headrace.sdk.transforms.parameters import Given
from headrace.sdk.transforms.tuples import TupleCombineFn
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.windows import BoundedWindow

if TYPE_CHECKING:
    from headrace.sdk.windowing import Windowing
    from headrace.sdk.windows import WindowFn

Collection = PCollection[object]
Outputs = DoOutputsTuple | Collection


class TakesErrors(Protocol):
    """What bad elements can be given to, such as an `ErrorHandler`."""

    def add_error_pcollection(self, errors: Collection) -> None:
        """Called with the bad elements of a step."""


class ExceptionHandling(PTransform[Collection, Outputs]):
    """A `ParDo` with an output for elements that it fails for: pairs (element, (class, repr, traceback lines)).

    Made by `ParDo.with_exception_handling`, where the arguments are explained.
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
        """The same with the tagged outputs that the step has itself; bad elements come after them."""
        clone = copy.copy(self)
        clone._tags, clone._main_tag = tags, main or self._main_tag
        return clone

    def expand(self, inputs: Collection) -> Outputs:
        """Main output, tagged outputs, bad elements; the main output alone if an error handler takes the bad ones."""
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
        """The step with its function guarded, which is given the element in front of the function's arguments."""
        guarded = copy.copy(self._par_do)
        fn = self._par_do.fn
        guarded.fn = GuardedFn(fn, self._rules) if isinstance(fn, FunctionDoFn) else GuardedDoFn(fn, self._rules)
        arguments = self._par_do.arguments
        guarded.arguments = replace(arguments, positional=(Given.ELEMENT, *arguments.positional))
        return guarded

    def _check(self, inputs: Collection, bad: Collection) -> None:
        """Stop the run where too many elements of a window are bad."""
        counted = (inputs | "All" >> Map(lambda _: (0, 1)), bad | "Bad" >> Map(lambda _: (1, 0))) | Flatten()
        if self._threshold_windowing is not None:
            counted |= "Window" >> WindowInto(self._threshold_windowing)
        sums = cast(AnyCombineFn, TupleCombineFn(sum, sum))
        totals = counted | "Count" >> CombineGlobally(sums).without_defaults()
        _ = totals | "Check" >> Map(_Threshold(self._threshold).check)


class _Threshold:
    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def check(self, counts: tuple[int, int], window: BoundedWindow = DoFn.WindowParam) -> None:
        bad, total = counts
        if bad > total * self._threshold:
            raise ValueError(
                f"{bad} of {total} elements in window {window} failed, more than the threshold of {self._threshold:g}; "
                "look at what is put out for them, or raise the threshold"
            )


def check_guarded(step: ParDo, use_subprocess: bool, timeout: float | None) -> None:
    """Refuse ways of handling exceptions that a step cannot have."""
    if use_subprocess:
        raise ValueError(
            f"{step.label}: use_subprocess is not supported; the engine replaces workers that die, and exceptions are "
            "caught without it"
        )
    if timeout is not None and step.signature is not None:
        raise ValueError(f"{step.label}: a step with state takes no timeout, as what takes too long could still write")
