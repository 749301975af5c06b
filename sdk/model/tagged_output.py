"""What: a value for a tagged output (`apache_beam.pvalue.TaggedOutput`)."""

from __future__ import annotations

from types import GenericAlias
from typing import Literal, get_args, get_origin

from headrace.lowlevel.stored_names import stored_as


@stored_as("TaggedOutput")
class TaggedOutput:
    """A value that a step emits to the output with a tag instead of the main output.

    Raises:
        TypeError: The tag is not a str.

    >>> TaggedOutput("odd", 3)
    TaggedOutput('odd', 3)
    """

    __slots__ = ("tag", "value")

    def __class_getitem__(cls, parameters: object) -> GenericAlias:
        """The type of values with a tag, for annotations: `TaggedOutput[Literal["odd"], int]`."""
        tag, *types = parameters if isinstance(parameters, tuple) else (parameters,)
        kind: object = get_origin(tag)
        names = get_args(tag)
        if len(types) != 1 or kind is not Literal or len(names) != 1 or not isinstance(names[0], str):
            raise TypeError(
                f"TaggedOutput takes the Literal of one tag and a type, got {parameters!r:.200}; write "
                'TaggedOutput[Literal["odd"], int], say'
            )
        return GenericAlias(cls, (tag, *types))

    def __init__(self, tag: str, value: object) -> None:
        if not isinstance(tag, str):
            raise TypeError(f"the tag of a TaggedOutput must be a str, got {tag!r}")
        self.tag = tag
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaggedOutput) and (self.tag, self.value) == (other.tag, other.value)

    def __hash__(self) -> int:
        return hash((self.tag, self.value))

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"
