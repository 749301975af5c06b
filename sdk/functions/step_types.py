"""Types of the elements and outputs of an element-wise step, by what its function states (`trivial_inference`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.sdk.functions.arguments import Arguments
from headrace.sdk.functions.type_signature import TypeSignature, type_signature_of
from headrace.sdk.typehints.consistency import conforms, is_consistent_with, match, substituted, type_of
from headrace.sdk.typehints.hints import element, item, pair, tagged_types, type_name
from headrace.sdk.typehints.io_type_hints import Hints, IOTypeHints, Stated, stated_input, stated_output


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

    def takes(self, hints: Hints, given: object) -> bool:
        """Whether the step takes elements of a type; any type that unpacks can be spread over parameters."""
        element_type = self.signature(hints).element
        if self.spread and pair(given) == (Any, Any):
            return True
        return is_consistent_with(given, element_type)

    def stated_output(self, hints: Stated) -> Stated:
        """The types of outputs, as stated by the transform, else by decorators of its function."""
        hint, tagged = stated_output(self.stating)
        if self.gives is Gives.ITEMS:
            hint = None if hint is None else item(hint)
            tagged = {tag: item(kind) or kind for tag, kind in tagged.items()}
        if self.gives is Gives.KEPT:
            hint = None
        annotated = tagged_types(self._result(self.signature(((), {}))))
        return (hint if hints[0] is None else hints[0]), {**annotated, **tagged, **hints[1]}

    def _result(self, signature: TypeSignature) -> object:
        """The type of outputs with or without tags, by annotations."""
        if self.gives is Gives.KEPT:
            return Any
        return signature.result if self.gives is Gives.VALUE else item(signature.result)

    def inferred_output(self, hints: Hints, input_type: object) -> object:
        """The type of the main output for an input of a type."""
        signature = self.signature(hints)
        if self.gives is Gives.KEPT:
            return signature.element if input_type is Any else input_type
        return element(substituted(self._result(signature), match(signature.element, input_type)))

    def problem(self, hints: Hints) -> str | None:
        """What is wrong with the type of the function's result or of its arguments; None if nothing is."""
        signature = self.signature(hints)
        if self.gives in (Gives.OUTPUTS, Gives.ITEMS) and item(signature.result) is None:
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


class TypedStep:
    """A transform whose types are those of its function."""

    typing: StepTyping
    input_hints: tuple[tuple[object, ...], dict[str, object]]
    output_hints: Stated

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.typing.signature(self.input_hints).element

    def takes(self, given: object) -> bool:
        """See `PTransform`."""
        return self.typing.takes(self.input_hints, given)

    def output_type(self) -> Stated:
        """See `PTransform`."""
        return self.typing.stated_output(self.output_hints)

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
        """See `PTransform`."""
        return self.typing.problem(self.input_hints)
