"""Elements checked against types while a pipeline runs (`--runtime_type_check`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from headrace.sdk.functions.arguments import Arguments, Given
from headrace.sdk.functions.step_types import Gives, StepTyping
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue, WindowedValue
from headrace.sdk.typehints.consistency import conforms, type_of
from headrace.sdk.typehints.hints import type_name
from headrace.sdk.typehints.io_type_hints import Hints, TypeCheckError


@dataclass(frozen=True, slots=True)
class CheckedFunction:
    """The function of a step, and the types of its elements and outputs."""

    function: Callable[..., object]
    leading: tuple[object, ...]
    """Arguments before the others: the instance, if the function is a method."""
    arguments: Arguments
    gives: Gives
    spread: bool
    takes: object
    outputs: Mapping[str | None, object]
    """Type of the outputs of each tag."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """The result of the function. Raises `TypeCheckError` for an element or an output of another type."""
        _require(self._element(args, kwargs), self.takes, "takes", "came")
        result = self.function(*self.leading, *args, **kwargs)
        if self.gives is Gives.KEPT:
            return result
        if self.gives is Gives.VALUE:
            self._check(result)
            return result
        # The step itself refuses a result that is no iterable of outputs.
        return self._each(result) if _holds_outputs(result) else result

    def _element(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if self.spread:
            return args[: len(args) - (len(self.arguments.positional) - 1)]
        if Given.ELEMENT in self.arguments.positional:
            return args[self.arguments.positional.index(Given.ELEMENT)]
        return next(kwargs[name] for name, source in self.arguments.named if source is Given.ELEMENT)

    def _each(self, outputs: Iterable[object]) -> Iterator[object]:
        for output in outputs:
            self._check(output)
            yield output

    def _check(self, output: object) -> None:
        tag: str | None = None
        if isinstance(output, TaggedOutput):
            tag, output = output.tag, output.value
        if isinstance(output, (TimestampedValue, WindowedValue)):
            output = output.value
        if tag in self.outputs:
            _require(output, self.outputs[tag], "puts out", "it put out")


def check_elements(fn: object, typing: StepTyping, hints: Hints, outputs: Mapping[str | None, object]) -> None:
    """Wrap the function of a `DoFn` with checks; a function that is guarded already is not wrapped."""
    if getattr(fn, "gives", None) is not typing.gives:
        return
    name, leading = ("function", ()) if hasattr(fn, "function") else ("process", (fn,))
    function = getattr(fn if name == "function" else type(fn), name)
    takes = typing.signature(hints).element
    checked = CheckedFunction(function, leading, typing.arguments, typing.gives, typing.spread, takes, outputs)
    setattr(fn, name, checked)


def _holds_outputs(result: object) -> TypeGuard[Iterable[object]]:
    return isinstance(result, Iterable) and not isinstance(result, (str, bytes, dict))


def _require(value: object, kind: object, does: str, was: str) -> None:
    if not conforms(value, kind):
        actual = type_name(type_of(value))
        raise TypeCheckError(f"the step {does} {type_name(kind)}, but {was} {value!r:.200}, which is {actual}")
