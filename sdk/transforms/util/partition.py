"""What: a collection divided by a function into several collections (`apache_beam.Partition`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import SupportsIndex

from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.model.special_outputs import TaggedOutput
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.typehints.consistency import is_whole
from headrace.sdk.typehints.io_type_hints import WithTypeHints


class PartitionFn(WithTypeHints):
    """Base of objects that choose the partition of an element; `Partition` takes a plain function, too.

    >>> import headrace as beam
    >>> class BySize(PartitionFn):
    ...     def partition_for(self, element, num_partitions):
    ...         return int(element > 9)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     small, large = pipeline | beam.Create([3, 30]) | beam.Partition(BySize(), 2)
    ...     _ = large | beam.Map(print)
    30
    """

    def default_label(self) -> str:
        """The name in the label of a `Partition`."""
        return type(self).__name__

    def partition_for(self, element: object, num_partitions: int, *args: object, **kwargs: object) -> int:
        """The number of the element's partition, from 0 to `num_partitions` - 1."""
        raise TypeError(f"{type(self).__name__} does not define partition_for(self, element, num_partitions)")


class CallableWrapperPartitionFn(PartitionFn):
    """A `PartitionFn` that calls a function."""

    def __init__(self, function: Callable[..., int]) -> None:
        if not callable(function):
            raise TypeError(f"Partition takes a PartitionFn or a function, got {function!r:.200}")
        self._function = function

    def partition_for(self, element: object, num_partitions: int, *args: object, **kwargs: object) -> int:
        """The result of the function."""
        return self._function(element, num_partitions, *args, **kwargs)


class Partition(PTransform[PCollection[object], DoOutputsTuple]):
    """Divides a collection into `n` collections, each element in one of them.

    Args:
        fn: A `PartitionFn`, or a function (element, n) that gives the number of the element's partition.
        n: Number of partitions.
        *args: Further positional arguments of the function.
        **kwargs: Further named arguments of the function.

    Raises:
        TypeError: `fn` is neither a `PartitionFn` nor a function.
        ValueError: `n` is not a whole number of at least 1.

    >>> Partition(lambda number, n: number % n, 2).label
    'Partition(CallableWrapperPartitionFn)'
    """

    def __init__(self, fn: PartitionFn | Callable[..., int], n: int, *args: object, **kwargs: object) -> None:
        super().__init__()
        if not is_whole(n) or n < 1:
            raise ValueError(f"Partition into {n!r:.80} parts; give a whole number of at least 1")
        self._fn = fn if isinstance(fn, PartitionFn) else CallableWrapperPartitionFn(fn)
        self._n, self._args, self._kwargs = int(n), args, kwargs

    def default_label(self) -> str:
        """The kind of step and the function's name."""
        return f"Partition({self._fn.default_label()})"

    def expand(self, inputs: PCollection[object]) -> DoOutputsTuple:
        """The collections, in the order of their numbers."""
        choose = ParDo(_Choose(self._fn, self._n), *self._args, **self._kwargs)
        return inputs | choose.with_outputs(*map(str, range(self._n)))


class _Choose(DoFn):
    def __init__(self, fn: PartitionFn, n: int) -> None:
        self._fn, self._n = fn, n

    def process(self, element: object, *args: object, **kwargs: object) -> Iterable[object]:
        part: object = self._fn.partition_for(element, self._n, *args, **kwargs)
        if isinstance(part, bool) or not isinstance(part, SupportsIndex):
            raise ValueError(f"a PartitionFn must give an integer, got {part!r:.80} of type {type(part).__name__}")
        number = index(part)
        if not 0 <= number < self._n:
            raise ValueError(f"a PartitionFn gave the out-of-bounds part {number}, which is not in [0, {self._n})")
        return [TaggedOutput(str(number), element)]
