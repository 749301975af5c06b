"""What: how many values become one (`apache_beam.transforms.core.CombineFn`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from headrace.sdk.ptransform import label_of

ElementT = TypeVar("ElementT")
AccumulatorT = TypeVar("AccumulatorT")
ResultT = TypeVar("ResultT")
_BUFFER = 10


class CombineFn(Generic[ElementT, AccumulatorT, ResultT]):
    """An associative and commutative function on values, taken in any order and in parts.

    The parts are accumulators: they are kept as state, so they must be picklable; `add_input` and `merge_accumulators`
    may change the (first) accumulator that they are given, and no other argument.

    >>> class Product(CombineFn):
    ...     def create_accumulator(self):
    ...         return 1
    ...     def add_input(self, accumulator, element):
    ...         return accumulator * element
    ...     def merge_accumulators(self, accumulators):
    ...         product = 1
    ...         for accumulator in accumulators:
    ...             product *= accumulator
    ...         return product
    ...     def extract_output(self, accumulator):
    ...         return accumulator
    >>> Product().apply([2, 3, 7])
    42
    """

    def setup(self) -> None:
        """Called once in each process before anything is combined."""

    def create_accumulator(self) -> AccumulatorT:
        """The accumulator of no values."""
        raise TypeError(f"{type(self).__name__} does not define create_accumulator(self)")

    def add_input(self, accumulator: AccumulatorT, element: ElementT) -> AccumulatorT:
        """The accumulator with a value more."""
        raise TypeError(f"{type(self).__name__} does not define add_input(self, accumulator, element)")

    def add_inputs(self, accumulator: AccumulatorT, elements: Iterable[ElementT]) -> AccumulatorT:
        """The accumulator with many values more."""
        for element in elements:
            accumulator = self.add_input(accumulator, element)
        return accumulator

    def remove_input(self, accumulator: AccumulatorT, element: ElementT) -> AccumulatorT:
        """The accumulator with a value less: the inverse of `add_input`, for values that are taken back.

        It need not be defined; `has_inverse` says whether it is. The value is in the accumulator, whatever else was
        added or merged since.
        """
        raise TypeError(
            f"{type(self).__name__} has no inverse: it does not define remove_input(self, accumulator, element)"
        )

    def is_invertible(self) -> bool:
        """Whether `remove_input` can be called; a CombineFn that is made of others overrides it.

        A subclass with an `add_input` of its own has an inverse only if it defines that too.
        """
        remove, add = (_defines(type(self), name) for name in ("remove_input", "add_input"))
        return remove is not CombineFn and issubclass(remove, add)

    def merge_accumulators(self, accumulators: Iterable[AccumulatorT]) -> AccumulatorT:
        """One accumulator of the values of several."""
        raise TypeError(f"{type(self).__name__} does not define merge_accumulators(self, accumulators)")

    def compact(self, accumulator: AccumulatorT) -> AccumulatorT:
        """The same accumulator in fewer bytes; called before it is kept or sent."""
        return accumulator

    def extract_output(self, accumulator: AccumulatorT) -> ResultT:
        """The result."""
        raise TypeError(f"{type(self).__name__} does not define extract_output(self, accumulator)")

    def teardown(self) -> None:
        """Called when the run is over, once for each `setup`; not in a process that is killed."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""
        return type(self).teardown is not CombineFn.teardown

    def apply(self, elements: Iterable[ElementT]) -> ResultT:
        """The result for the values given."""
        return self.extract_output(self.add_inputs(self.create_accumulator(), elements))

    def default_label(self) -> str:
        """The name in labels."""
        return type(self).__name__

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> CombineFn[object, object, object]:
        """The CombineFn whose methods are these, called with further arguments."""
        return CurriedCombineFn(cast("CombineFn[object, object, object]", self), args, kwargs)

    @staticmethod
    def from_callable(function: Callable[..., object]) -> CombineFn[object, list[object], object]:
        """The CombineFn of a function from an iterable of values (or of its own results) to one."""
        return CallableCombineFn(function)

    @staticmethod
    def maybe_from_callable(
        function: CombineFn[ElementT, AccumulatorT, ResultT] | Callable[..., object],
    ) -> CombineFn[ElementT, AccumulatorT, ResultT]:
        """A CombineFn as it is; of a function the CombineFn that computes it, a quicker one where it is known."""
        if isinstance(function, CombineFn):
            return function
        if not callable(function):
            raise TypeError(f"expected a CombineFn or a function of an iterable, got {function!r:.200}")
        from headrace.sdk.transforms.numeric import KNOWN_CALLABLES

        known = next((make for builtin, make in KNOWN_CALLABLES if builtin is function), None)
        made: object = known() if known else CallableCombineFn(function)
        return cast("CombineFn[ElementT, AccumulatorT, ResultT]", made)


def _defines(kind: type, name: str) -> type:
    """The class that a class has a method from."""
    return next(base for base in kind.__mro__ if name in vars(base))


def has_inverse(combine_fn: object) -> bool:
    """Whether values can be taken out of a CombineFn's accumulators with `remove_input`.

    >>> from headrace.sdk.transforms.numeric import MaxFn, SumFn
    >>> has_inverse(SumFn()), has_inverse(MaxFn())
    (True, False)
    """
    return isinstance(combine_fn, CombineFn) and combine_fn.is_invertible()


class SomeCombineFn(Protocol):
    """A `CombineFn` of whatever types: what all have in common. So a typed one fits where any will do."""

    def setup(self) -> None:
        """See `CombineFn`."""

    def teardown(self) -> None:
        """See `CombineFn`."""

    def has_teardown(self) -> bool:
        """See `CombineFn`."""

    def default_label(self) -> str:
        """See `CombineFn`."""


AnyCombineFn: TypeAlias = CombineFn[object, object, object]
"""A CombineFn as the engine sees it, which hands values on without a look."""
Combining: TypeAlias = SomeCombineFn | Callable[..., object]
"""What combines: a CombineFn, or a function from an iterable of values (or of its own results) to one."""


class CallableCombineFn(CombineFn[object, list[object], object]):
    """Keeps values until there are some, and replaces them with the function's result for them.

    >>> CallableCombineFn(lambda values: "".join(sorted(values))).apply("hydrant")
    'adhnrty'
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def default_label(self) -> str:
        """The function's name."""
        return label_of(self.function)

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> AnyCombineFn:
        """That of the function with further arguments: its other methods have none to give them to."""
        return cast(AnyCombineFn, CallableCombineFn(WithArguments(self.function, args, kwargs)))

    def create_accumulator(self) -> list[object]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[object], element: object) -> list[object]:
        """See `CombineFn`."""
        accumulator.append(element)
        return accumulator if len(accumulator) <= _BUFFER else [self.function(accumulator)]

    def add_inputs(self, accumulator: list[object], elements: Iterable[object]) -> list[object]:
        """See `CombineFn`."""
        accumulator.extend(elements)
        return accumulator if len(accumulator) <= _BUFFER else [self.function(accumulator)]

    def merge_accumulators(self, accumulators: Iterable[list[object]]) -> list[object]:
        """See `CombineFn`."""
        merged = [value for accumulator in accumulators for value in accumulator]
        return merged if len(merged) <= _BUFFER else [self.function(merged)]

    def compact(self, accumulator: list[object]) -> list[object]:
        """See `CombineFn`."""
        return accumulator if len(accumulator) <= 1 else [self.function(accumulator)]

    def extract_output(self, accumulator: list[object]) -> object:
        """See `CombineFn`."""
        return self.function(accumulator)


class CurriedCombineFn(CombineFn[object, object, object]):
    """A CombineFn whose methods take further arguments, with these arguments."""

    def __init__(
        self, combine_fn: CombineFn[object, object, object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self.inner, self._args, self._kwargs = combine_fn, args, kwargs

    def _call(self, method: Callable[..., object], *given: object) -> object:
        return method(*given, *self._args, **self._kwargs)

    def _call_defined(self, name: str, *given: object) -> object:
        """Call a method that need not be defined: what `CombineFn` does instead takes no further arguments."""
        method = getattr(self.inner, name)
        if getattr(type(self.inner), name) is getattr(CombineFn, name):
            return method(*given)
        return self._call(method, *given)

    def default_label(self) -> str:
        """That of the function."""
        return self.inner.default_label()

    def setup(self) -> None:
        """See `CombineFn`."""
        self._call_defined("setup")

    def create_accumulator(self) -> object:
        """See `CombineFn`."""
        return self._call(self.inner.create_accumulator)

    def add_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return self._call(self.inner.add_input, accumulator, element)

    def remove_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return self._call_defined("remove_input", accumulator, element)

    def is_invertible(self) -> bool:
        """See `CombineFn`."""
        return self.inner.is_invertible()

    def merge_accumulators(self, accumulators: Iterable[object]) -> object:
        """See `CombineFn`."""
        return self._call(self.inner.merge_accumulators, accumulators)

    def compact(self, accumulator: object) -> object:
        """See `CombineFn`."""
        return self._call_defined("compact", accumulator)

    def extract_output(self, accumulator: object) -> object:
        """See `CombineFn`."""
        return self._call(self.inner.extract_output, accumulator)

    def teardown(self) -> None:
        """See `CombineFn`."""
        self._call_defined("teardown")

    def has_teardown(self) -> bool:
        """Whether the function's does anything."""
        return self.inner.has_teardown()


def curried(
    function: Combining, args: tuple[object, ...] = (), kwargs: Mapping[str, object] = MappingProxyType({})
) -> AnyCombineFn:
    """The CombineFn of a function or CombineFn with further arguments.

    >>> curried(lambda values, factor: factor * sum(values), (1,), {}).apply([2, 3])
    5
    """
    if isinstance(function, type) and issubclass(function, CombineFn):
        name = function.__name__
        raise TypeError(f"expected an instance of a CombineFn, got the class {name}; write {name}()")
    if not args and not kwargs:
        return CombineFn.maybe_from_callable(cast("AnyCombineFn | Callable[..., object]", function))
    if isinstance(function, CombineFn):
        return function.with_arguments(args, dict(kwargs))
    if not callable(function):
        raise TypeError(f"expected a CombineFn or a function of an iterable, got {function!r:.200}")
    return CallableCombineFn(function).with_arguments(args, dict(kwargs))


def require_combiner(
    function: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Refuse a function that cannot be called with an iterable of values, and the further arguments behind it.

    >>> require_combiner(lambda a, b: a + b)
    Traceback (most recent call last):
      ...
    TypeError: <lambda at ...> takes (a, b), but a function that combines is given one iterable of all values...
    """
    if isinstance(function, CallableCombineFn):
        function = function.function
    if isinstance(function, (CombineFn, type)) or not callable(function):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Not every function that is written in C can be asked.
        return
    try:
        signature.bind((), *args, **kwargs)
    except TypeError as error:
        further = f" and further arguments ({error})" if args or kwargs else ""
        raise TypeError(
            f"{label_of(function)} takes {signature}, but a function that combines is given one iterable of all values"
            f"{further}; write one such as `lambda values: sum(values)`, or a CombineFn, whose add_input(accumulator, "
            "value) takes two"
        ) from None


class WithArguments:
    """A function of an iterable with its further arguments; its label is the function's."""

    def __init__(self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.function, self._args, self._kwargs = function, args, kwargs

    def __call__(self, values: Iterable[object]) -> object:
        """The function's result."""
        return self.function(values, *self._args, **self._kwargs)

    def default_label(self) -> str:
        """That of the function."""
        return label_of(self.function)
