"""What: a value for a tagged output (`apache_beam.pvalue.TaggedOutput`)."""

from __future__ import annotations

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
