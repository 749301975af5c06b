"""What: the restrictions of a splittable DoFn's elements (`apache_beam.transforms.core.RestrictionProvider`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from headrace.lowlevel.coders.coder import Coder
from headrace.sdk.coders.registry import registry
from headrace.sdk.splittable.restriction_tracker import RestrictionTracker


class RestrictionProvider(ABC):
    """Makes and splits the restrictions of elements. Subclass it, and give an instance to `DoFn.RestrictionParam`.

    Elements and restrictions are of the program's own types, so the methods may narrow their parameters.

    >>> import headrace as beam
    >>> from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    >>> class Positions(RestrictionProvider):
    ...     def initial_restriction(self, word):
    ...         return OffsetRange(0, len(word))
    ...     def create_tracker(self, restriction):
    ...         return OffsetRestrictionTracker(restriction)
    ...     def restriction_size(self, word, restriction):
    ...         return restriction.size()
    >>> class Letters(beam.DoFn):
    ...     def process(self, word, tracker=beam.DoFn.RestrictionParam(Positions())):
    ...         position = tracker.current_restriction().start
    ...         while tracker.try_claim(position):
    ...             yield word[position]
    ...             position += 1
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["ab"]) | beam.ParDo(Letters()) | beam.Map(print)
    a
    b
    """

    @abstractmethod
    def create_tracker(self, restriction: Any) -> RestrictionTracker:
        """A new tracker of a restriction."""

    @abstractmethod
    def initial_restriction(self, element: Any) -> object:
        """The restriction that stands for the whole work of an element."""

    @abstractmethod
    def restriction_size(self, element: Any, restriction: Any) -> float:
        """The size of a restriction, in any unit, at least 0."""

    def split(self, element: Any, restriction: Any) -> Iterable[object]:
        """Restrictions that together are the work of the one given; by default that one itself.

        They are processed independently of each other, on different workers.
        """
        return [restriction]

    def split_and_size(self, element: Any, restriction: Any) -> Iterable[tuple[object, float]]:
        """As `split`, each restriction with its size."""
        return ((part, self.restriction_size(element, part)) for part in self.split(element, restriction))

    def restriction_coder(self) -> Coder:
        """The coder of restrictions; by default, pickle."""
        return registry.get_coder(object)

    def truncate(self, element: Any, restriction: Any) -> object | None:
        """The part of a restriction to process while the pipeline is drained; None for nothing.

        By default, all of a bounded restriction and nothing of an unbounded one.
        """
        return restriction if self.create_tracker(restriction).is_bounded() else None
