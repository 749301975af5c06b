"""The types that a transform or function states for its input and output (`apache_beam.typehints.decorators`).

They come from its annotations, from decorators, or from calls of `with_input_types` and `with_output_types`.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from headrace.lowlevel.errors import HeadraceError
from headrace.sdk.typehints.hints import normal

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])
_RESULTS: dict[object, type] = {len: int, repr: str, ascii: str, hash: int, id: int, callable: bool, chr: str, ord: int}
"""Built-in function, which has no annotations -> type of its result."""

_NONE = "_headrace_no_annotations"
_disabled = False


def no_annotations(fn: FunctionT) -> FunctionT:
    """Decorator: the annotations of the function are not looked at.

    >>> @no_annotations
    ... def text(number: int) -> str: ...
    >>> annotations_of(text)
    ({}, typing.Any)
    """
    setattr(fn, _NONE, True)
    return fn


def disable_type_annotations() -> None:
    """Have no annotation of any function looked at, from now on in this process."""
    global _disabled
    _disabled = True


def annotations_of(function: object) -> tuple[dict[str, object], object]:
    """The parameter types of a callable by name, and its result type.

    Parameters without an annotation are left out; a result without an annotation is `Any`. A class is its own result.
    """
    if _disabled or getattr(function, _NONE, False):
        return {}, Any
    if isinstance(function, type):
        return {}, function
    if isinstance(function, functools.partial):
        types, result = annotations_of(function.func)
        return {name: kind for name, kind in types.items() if name not in function.keywords}, result
    if not inspect.isroutine(function):
        function = type(function).__call__ if callable(function) else function
    try:
        types = typing.get_type_hints(function)
    except Exception:
        # An annotation names something that only type checkers import; the annotations that are not strings are used.
        found = getattr(function, "__annotations__", {})
        types = {name: kind for name, kind in found.items() if not isinstance(kind, str)}
    result = types.pop("return", _RESULTS.get(function, Any) if inspect.isbuiltin(function) else Any)
    return dict(types), result


Hints = tuple[tuple[object, ...], Mapping[str, object]]
"""Types by position and by name, as `with_input_types` takes them."""
Stated = tuple[object, Mapping[str | None, object]]
"""Type of the main output, None if it is not stated, and of tagged ones by tag."""


class IOTypeHints(NamedTuple):
    """Types of input and output: what `get_type_hints` returns.

    >>> hints = IOTypeHints.empty().with_input_types(int).with_output_types(str, errors=bytes)
    >>> hints.input_types, hints.simple_output_type("hints"), hints.tagged_output_types()
    (((<class 'int'>,), {}), <class 'str'>, {'errors': <class 'bytes'>})
    """

    input_types: Hints | None
    """Types by position and by name; None if they are not stated."""
    output_types: Hints | None
    """Type of the main output, and of tagged ones by tag; None if they are not stated."""
    origin: list[str]
    """Without meaning here: always empty."""

    @classmethod
    def empty(cls) -> IOTypeHints:
        """No types."""
        return cls(None, None, [])

    @classmethod
    def of(cls, stated: Hints, output: Stated) -> IOTypeHints:
        """The types that transforms and functions keep."""
        hint, tagged = output
        outputs = ((() if hint is None else (hint,)), {str(tag): kind for tag, kind in tagged.items()})
        return cls(stated if any(stated) else None, outputs if any(outputs) else None, [])

    @classmethod
    def from_callable(cls, fn: Callable[..., object]) -> IOTypeHints | None:
        """The annotations of a function, `Any` where a parameter or the result has none; None if nothing has one."""
        types, result = annotations_of(fn)
        if not types and result is Any:
            return None
        positional: list[object] = []
        named: dict[str, object] = {}
        for parameter in inspect.signature(fn).parameters.values():
            kind = normal(types.get(parameter.name, Any))
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
                named[parameter.name] = kind
            else:
                positional.append(kind)
        return cls((tuple(positional), named), ((normal(result),), {}), [])

    def with_input_types(self, *args: object, **kwargs: object) -> IOTypeHints:
        """The same with these types of input."""
        return self._replace(input_types=(args, kwargs))

    def with_output_types(self, *args: object, **kwargs: object) -> IOTypeHints:
        """The same with these types of output."""
        return self._replace(output_types=(args, kwargs))

    def with_defaults(self, hints: IOTypeHints | None) -> IOTypeHints:
        """The same with other hints where there are none."""
        if hints is None:
            return self
        return IOTypeHints(self.input_types or hints.input_types, self.output_types or hints.output_types, [])

    def simple_output_type(self, context: object) -> object:
        """The type of the main output; None if it is not stated. The context is for messages of Beam."""
        return self.output_types[0][0] if self.output_types and self.output_types[0] else None

    def has_simple_output_type(self) -> bool:
        """Whether the type of the main output is stated."""
        return self.output_types is not None and len(self.output_types[0]) == 1

    def tagged_output_types(self) -> Mapping[str, object]:
        """The types of tagged outputs."""
        return {} if self.output_types is None else self.output_types[1]

    def stated_output(self) -> Stated:
        """The types of outputs as transforms and functions keep them."""
        return self.simple_output_type(None), dict(self.tagged_output_types().items())


class WithTypeHints:
    """What has types of input and output: a base of `DoFn`, `CombineFn` and `PTransform`.

    >>> class Sink(WithTypeHints):
    ...     pass
    >>> Sink().with_input_types(int).get_type_hints().input_types
    ((<class 'int'>,), {})
    """

    def with_input_types(self, *hints: object, **named_hints: object) -> Self:
        """State the types of the input."""
        self.input_hints: Hints = (hints, named_hints)
        return self

    def with_output_types(self, hint: object = None, **tagged_hints: object) -> Self:
        """State the type of the main output, and of tagged ones."""
        tagged: dict[str | None, object] = dict(tagged_hints.items())
        self.output_hints: Stated = (hint, tagged)
        return self

    def default_type_hints(self) -> IOTypeHints | None:
        """Types that count where none are stated on the instance; override it to compute them."""
        return None

    def get_type_hints(self) -> IOTypeHints:
        """The types that are stated on the instance, else by `default_type_hints`, else by decorators of the class."""
        own = IOTypeHints.of(vars(self).get("input_hints", ((), {})), vars(self).get("output_hints", (None, {})))
        return own.with_defaults(self.default_type_hints()).with_defaults(get_type_hints(type(self)))


def get_type_hints(fn: object) -> IOTypeHints:
    """The types that decorators state for a function or class.

    >>> from headrace.sdk.typehints.io_type_hints import with_output_types
    >>> @with_output_types(int)
    ... def length(word): ...
    >>> get_type_hints(length).output_types
    ((<class 'int'>,), {})
    """
    return IOTypeHints.of(getattr(fn, "input_hints", ((), {})), getattr(fn, "output_hints", (None, {})))


def stated_input(what: object) -> Hints:
    """The types of input that a function or `DoFn` states, beside its annotations."""
    hints = what.get_type_hints() if isinstance(what, WithTypeHints) else get_type_hints(what)
    return hints.input_types or ((), {})


def stated_output(what: object) -> Stated:
    """The types of output that a function or `DoFn` states, beside its annotations."""
    hints = what.get_type_hints() if isinstance(what, WithTypeHints) else get_type_hints(what)
    return hints.stated_output()


T = TypeVar("T")


def with_input_types(*hints: object, **named_hints: object) -> Callable[[T], T]:
    """Decorator that declares the element types that a transform, a `DoFn` or a function takes.

    >>> import headrace as beam
    >>> @with_input_types(str)
    ... class Words(beam.DoFn):
    ...     def process(self, line):
    ...         yield from line.split()
    >>> _ = beam.Pipeline("LocalRunner") | beam.Create([5]) | beam.ParDo(Words())
    Traceback (most recent call last):
      ...
    headrace.sdk.typehints.io_type_hints.TypeCheckError: ...
    """

    def decorate(what: T) -> T:
        setattr(what, "input_hints", (hints, named_hints))  # noqa: B010 - no attribute that T is known to have
        return what

    return decorate


def with_output_types(hint: object = None, **tagged_hints: object) -> Callable[[T], T]:
    """Decorator that declares the element types that a transform, a `DoFn` or a function emits.

    `tagged_hints` are the types of the tagged outputs, by tag.

    >>> @with_output_types(int)
    ... def length(word):
    ...     return len(word)
    >>> length.output_hints
    (<class 'int'>, {})
    """

    def decorate(what: T) -> T:
        setattr(what, "output_hints", (hint, tagged_hints))  # noqa: B010 - no attribute that T is known to have
        return what

    return decorate


class TypeCheckError(HeadraceError, TypeError):
    """Two type hints are not consistent; the message names both types and both steps.

    The error is raised while the pipeline is built, so nothing has run.

    >>> import headrace as beam
    >>> def length(line: str) -> int:
    ...     return len(line)
    >>> _ = beam.Pipeline("LocalRunner") | "Numbers" >> beam.Create([5]) | "Length" >> beam.Map(length)
    Traceback (most recent call last):
      ...
    headrace.sdk.typehints.io_type_hints.TypeCheckError: ...
    """
