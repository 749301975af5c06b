"""What: restrictions of a splittable DoFn's elements: their trackers, and what makes and splits them.

The sources are `apache_beam.io.iobase.RestrictionTracker`, `RestrictionProgress` and
`apache_beam.transforms.core.RestrictionProvider`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from headrace.lowlevel.coders.coder import Coder
from headrace.sdk.coders.registry import registry


class RestrictionProgress:
    """How much of a restriction is done, as two or one of three numbers.

    Args:
        fraction: Share of the work that is done, from 0 to 1.
        completed: Work that is done, in a unit of the tracker's own.
        remaining: Work that is left, in the same unit.

    >>> RestrictionProgress(completed=1, remaining=3).fraction_completed
    0.25
    >>> RestrictionProgress(fraction=0.25).fraction_remaining
    0.75
    """

    def __init__(
        self, *, fraction: float | None = None, completed: float | None = None, remaining: float | None = None
    ) -> None:
        if fraction is None and (completed is None or remaining is None):
            raise ValueError(
                f"RestrictionProgress got completed={completed} and remaining={remaining}; give fraction, or both"
            )
        self._fraction, self._completed, self._remaining = fraction, completed, remaining

    def __repr__(self) -> str:
        return (
            f"RestrictionProgress(fraction={self._fraction}, completed={self._completed}, remaining={self._remaining})"
        )

    @property
    def fraction_completed(self) -> float:
        """Share of the work that is done, from 0 to 1."""
        if self._fraction is not None:
            return self._fraction
        return self.completed_work / self.total_work if self.total_work else 1.0

    @property
    def fraction_remaining(self) -> float:
        """Share of the work that is left, from 0 to 1."""
        return 1 - self.fraction_completed

    @property
    def completed_work(self) -> float:
        """Work that is done; a share of 1 if only the fraction is known."""
        if self._completed is not None:
            return self._completed
        fraction = self.fraction_completed
        if self._remaining is not None and fraction < 1:
            return self._remaining * fraction / (1 - fraction)
        return fraction

    @property
    def remaining_work(self) -> float:
        """Work that is left; a share of 1 if only the fraction is known."""
        if self._remaining is not None:
            return self._remaining
        if self._completed is not None and self._fraction:
            return self._completed * (1 - self._fraction) / self._fraction
        return self.fraction_remaining

    @property
    def total_work(self) -> float:
        """Work that is done and work that is left."""
        return self.completed_work + self.remaining_work

    def with_completed(self, completed: float) -> RestrictionProgress:
        """The same progress with another number for the work that is done."""
        return RestrictionProgress(fraction=self._fraction, completed=completed, remaining=self._remaining)


class RestrictionTracker(ABC):
    """Access to a restriction while it is processed. Subclass it for a kind of restriction.

    `process` claims each part of the work before it does that part. The engine may split off the part that is not
    claimed at any time between two claims; the next claim is then refused.

    >>> class Once(RestrictionTracker):
    ...     def __init__(self, restriction):
    ...         self.restriction, self.claimed = restriction, False
    ...     def current_restriction(self):
    ...         return self.restriction
    ...     def try_claim(self, position):
    ...         self.claimed = True
    ...         return True
    ...     def try_split(self, fraction_of_remainder):
    ...         return None
    ...     def check_done(self):
    ...         assert self.claimed
    ...     def current_progress(self):
    ...         return RestrictionProgress(fraction=float(self.claimed))
    ...     def is_bounded(self):
    ...         return True
    >>> tracker = Once("file")
    >>> tracker.try_claim("file"), tracker.check_done(), tracker.current_progress().fraction_completed
    (True, None, 1.0)
    """

    @abstractmethod
    def current_restriction(self) -> object:
        """The whole work of the current call of `process`, what is done included; a split makes it smaller."""

    def current_progress(self) -> RestrictionProgress:
        """How much of the restriction is done. Raises NotImplementedError if the tracker does not know."""
        raise NotImplementedError(f"{type(self).__name__} does not define current_progress(self); define it")

    @abstractmethod
    def try_claim(self, position: object) -> bool:
        """Claim the work at a position; False if it is not part of the restriction, and `process` must return."""

    def try_split(self, fraction_of_remainder: float) -> tuple[object, object] | None:
        """Split off a part of the work that is not claimed.

        Args:
            fraction_of_remainder: Share of the unclaimed work that stays, from 0 to 1; with 0 nothing but what is
                claimed stays: a checkpoint.

        Returns:
            The restriction that stays, which is the current one from now on, and the rest; None if there is no rest.

        Raises:
            NotImplementedError: The tracker cannot split; the restriction is then processed in one go.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not define try_split(self, fraction_of_remainder); define it to defer work"
        )

    @abstractmethod
    def check_done(self) -> bool | None:
        """Raise ValueError if a part of the restriction was not claimed; called when `process` has returned."""

    def is_bounded(self) -> bool:
        """Whether the restriction is a finite amount of work."""
        raise NotImplementedError(f"{type(self).__name__} does not define is_bounded(self); define it")


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
