"""Decorators that declare the input and output types of steps (`apache_beam.typehints`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
    headrace.sdk.typehints.errors.TypeCheckError: ...
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
