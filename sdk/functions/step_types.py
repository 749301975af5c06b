"""Types of the elements and outputs of an element-wise step, by what its function states (`trivial_inference`).

With `--runtime_type_check` the elements are checked against these types while the pipeline runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeGuard

from headrace.sdk.functions.arguments import Arguments, Constant, Given
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue, WindowedValue
from headrace.sdk.typehints.consistency import conforms, is_consistent_with, match, substituted, type_of
from headrace.sdk.typehints.hints import element, item, normal, pair, tagged_types, tuple_of, type_name
from headrace.sdk.typehints.io_type_hints import (
    Hints,
    IOTypeHints,
    Stated,
    TypeCheckError,
    annotations_of,
    stated_input,
    stated_output,
)


@dataclass(frozen=True, slots=True)
class TypeSignature:
    """Types of a function's element, arguments and result; `Any` where the function states none."""

    element: object = Any
    constants: tuple[tuple[str, object, object], ...] = ()
    """Further arguments: parameter, its type, its value."""
    result: object = Any


def type_signature_of(
    function: Callable[..., object], arguments: Arguments, spread: bool, *stated: Hints
) -> TypeSignature:
    """The signature of a function that is called with these arguments.

    Args:
        function: Any callable.
        arguments: Where its arguments come from.
        spread: Whether the element is spread over its parameters.
        *stated: Types stated beside its annotations; later ones take precedence.

    >>> def scale(number: int, factor: float = 1) -> list[float]: ...
    >>> type_signature_of(scale, Arguments((Given.ELEMENT, Constant(2))), False)
    TypeSignature(element=<class 'int'>, constants=(('factor', <class 'float'>, 2),), result=list[float])
    """
    types, result = annotations_of(function)
    names, open_end = _positional_parameters(function, arguments)
    for hints, named in stated:
        types = types | dict(zip(names, hints, strict=False)) | dict(named)
    if spread:
        element = _spread(names, types, len(arguments.positional) - 1, open_end, [hints for hints, _ in stated])
        return TypeSignature(element, (), normal(result))
    element = Any
    constants = []
    sources = [*zip(names, arguments.positional, strict=False), *arguments.named]
    for name, source in sources:
        if source is Given.ELEMENT:
            element = normal(types.get(name, Any))
        elif isinstance(source, Constant) and name in types:
            constants.append((name, normal(types[name]), source.value))
    return TypeSignature(element, tuple(constants), normal(result))


def _positional_parameters(function: Callable[..., object], arguments: Arguments) -> tuple[list[str], bool]:
    """The parameters that take positional arguments, in order, and whether their number is open."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], True
    named = {name for name, _ in arguments.named}
    plain = [each for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD and each.name not in named]
    rest = [each.name for each in parameters if each.kind is each.VAR_POSITIONAL]
    open_end = bool(rest) or any(each.default is not each.empty for each in plain)
    return [*(each.name for each in plain), *rest * len(arguments.positional)], open_end


def _spread(
    names: list[str], types: dict[str, object], constants: int, open_end: bool, stated: list[tuple[object, ...]]
) -> object:
    """The type of a tuple that is spread over parameters; `Any` if its length is not fixed."""
    tuple_hints = [hints[0] for hints in stated if len(hints) == 1]
    if tuple_hints:
        return normal(tuple_hints[-1])
    if open_end or not names:
        return Any
    return tuple_of(normal(types.get(name, Any)) for name in names[: len(names) - constants])


class Gives(Enum):
    """The meaning of the result of a step's function."""

    OUTPUTS = "outputs"
    """An iterable of outputs; what a decorator states is the type of an output."""
    ITEMS = "items"
    """An iterable of outputs, also for decorators."""
    VALUE = "value"
    """The output."""
    KEPT = "kept"
    """Whether the element is an output."""


@dataclass(frozen=True, slots=True)
class StepTyping:
    """The types that the function of a step states."""

    function: Callable[..., object]
    """The function that is called for an element."""
    stating: object
    """The object that decorators put hints on: the function, or the `DoFn`."""
    gives: Gives
    spread: bool
    arguments: Arguments

    def signature(self, hints: Hints) -> TypeSignature:
        """Types of the function's parameters and result; `hints` of the transform take precedence."""
        return type_signature_of(self.function, self.arguments, self.spread, stated_input(self.stating), hints)

    def result(self, signature: TypeSignature) -> object:
        """The type of outputs with or without tags, by annotations."""
        if self.gives is Gives.KEPT:
            return Any
        return signature.result if self.gives is Gives.VALUE else item(signature.result)

    def inferred_output(self, hints: Hints, input_type: object) -> object:
        """The type of the main output for an input of a type."""
        signature = self.signature(hints)
        if self.gives is Gives.KEPT:
            return signature.element if input_type is Any else input_type
        return element(substituted(self.result(signature), match(signature.element, input_type)))


class TypedStep:
    """A transform whose types are those of its function."""

    typing: StepTyping
    input_hints: Hints
    output_hints: Stated

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.typing.signature(self.input_hints).element

    def takes(self, given: object) -> bool:
        """See `PTransform`; any type that unpacks can be spread over parameters."""
        return (self.typing.spread and pair(given) == (Any, Any)) or is_consistent_with(given, self.input_type())

    def output_type(self) -> Stated:
        """The types of outputs, as stated by the transform, else by decorators of its function."""
        typing, hints = self.typing, self.output_hints
        hint, tagged = stated_output(typing.stating)
        if typing.gives is Gives.ITEMS:
            hint = None if hint is None else item(hint)
            tagged = {tag: item(kind) or kind for tag, kind in tagged.items()}
        if typing.gives is Gives.KEPT:
            hint = None
        annotated = tagged_types(typing.result(typing.signature(((), {}))))
        return (hint if hints[0] is None else hints[0]), {**annotated, **tagged, **hints[1]}

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return self.typing.inferred_output(self.input_hints, input_type)

    def default_type_hints(self) -> IOTypeHints:
        """The types that the function states."""
        hints = IOTypeHints.of(stated_input(self.typing.stating), self.output_type())
        annotated = IOTypeHints.from_callable(self.typing.function) or IOTypeHints.empty()
        main = self.typing.inferred_output(((), {}), Any)
        inferred = IOTypeHints.of(annotated.input_types or ((), {}), (None if main is Any else main, {}))
        return hints.with_defaults(inferred)

    def argument_problem(self) -> str | None:
        """What is wrong with the type of the function's result or of its arguments; None if nothing is."""
        signature = self.typing.signature(self.input_hints)
        if self.typing.gives in (Gives.OUTPUTS, Gives.ITEMS) and item(signature.result) is None:
            return (
                f"its function gives {type_name(signature.result)}, which is no iterable of outputs; "
                "return a list of them, or use Map"
            )
        for name, kind, value in signature.constants:
            if not conforms(value, kind):
                given = type_name(type_of(value))
                return (
                    f"its parameter {name!r} takes {type_name(kind)}, but it is given {value!r:.80}, which is {given}"
                )
        return None


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
