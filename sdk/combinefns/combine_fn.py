"""What: combiners, which turn many values into one (Beam's `CombineFn`), and their names in stored state."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from headrace.lowlevel.stored_names import instance_name, named
from headrace.sdk.model.labels import argument_label, label_of, place_of
from headrace.sdk.typehints.io_type_hints import WithTypeHints

ElementT = TypeVar("ElementT")
AccumulatorT = TypeVar("AccumulatorT")
ResultT = TypeVar("ResultT")
CombineFnT = TypeVar("CombineFnT", bound="SomeCombineFn")
_BUFFER = 10
_KNOWN_CALLABLES: list[tuple[object, Callable[[], object]]] = []
"""Pairs of a built-in function and a maker of its CombineFn; `computes` adds to the list."""


class AbsentValueError(ValueError):
    """A value is removed from an accumulator that does not have it."""


class CombineFn(WithTypeHints, Generic[ElementT, AccumulatorT, ResultT]):
    """An associative and commutative function of values, which are combined in any order and in parts.

    An accumulator holds the values of a part. Accumulators are kept as state, so they must be picklable. `add_input`
    and `merge_accumulators` may change the (first) accumulator that is passed, but no other argument.

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
        """Prepare for combining; called once in each process before any other method."""

    def create_accumulator(self) -> AccumulatorT:
        """The accumulator of no values."""
        raise TypeError(f"{type(self).__name__} does not define create_accumulator(self)")

    def add_input(self, accumulator: AccumulatorT, element: ElementT) -> AccumulatorT:
        """The accumulator with one more value."""
        raise TypeError(f"{type(self).__name__} does not define add_input(self, accumulator, element)")

    def add_inputs(self, accumulator: AccumulatorT, elements: Iterable[ElementT]) -> AccumulatorT:
        """The accumulator with more values."""
        for element in elements:
            accumulator = self.add_input(accumulator, element)
        return accumulator

    def remove_input(self, accumulator: AccumulatorT, element: ElementT) -> AccumulatorT:
        """The accumulator without a value: the inverse of `add_input`, for retracted values.

        The method is optional; `is_invertible` tells whether it is defined. The value was added to the accumulator, or
        to one that was merged into it.
        """
        raise TypeError(
            f"{type(self).__name__} has no inverse: it does not define remove_input(self, accumulator, element)"
        )

    def is_invertible(self) -> bool:
        """Whether `remove_input` can be called; a CombineFn that consists of others overrides this method.

        A subclass that defines `add_input` has an inverse only if it also defines `remove_input`.
        """
        remove, add = (_defines(type(self), name) for name in ("remove_input", "add_input"))
        return remove is not CombineFn and issubclass(remove, add)

    def is_signed(self) -> bool:
        """Whether `remove_input` may be called for a value before `add_input`, as for sums: then no order matters.

        For other combiners a retraction that comes before its value waits for it.
        """
        return False

    def merge_accumulators(self, accumulators: Iterable[AccumulatorT]) -> AccumulatorT:
        """One accumulator with the values of all accumulators."""
        raise TypeError(f"{type(self).__name__} does not define merge_accumulators(self, accumulators)")

    def compact(self, accumulator: AccumulatorT) -> AccumulatorT:
        """An equivalent accumulator in fewer bytes; called before an accumulator is stored or sent."""
        return accumulator

    def extract_output(self, accumulator: AccumulatorT) -> ResultT:
        """The result for the values of the accumulator."""
        raise TypeError(f"{type(self).__name__} does not define extract_output(self, accumulator)")

    def teardown(self) -> None:
        """Release resources; called when the run is over, once for each `setup`, except in a process that is killed."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""
        return type(self).teardown is not CombineFn.teardown

    def apply(self, elements: Iterable[ElementT]) -> ResultT:
        """The result for the given values."""
        return self.extract_output(self.add_inputs(self.create_accumulator(), elements))

    def default_label(self) -> str:
        """The name of the combiner in step labels."""
        return type(self).__name__

    def state_arguments(self) -> Mapping[str, object]:
        """The arguments on which the meaning of accumulators depends, by name; none by default.

        A restart with other arguments is refused, as stored accumulators were made with the old ones. Values are told
        apart by their `repr`, functions by their names or texts.

        >>> from headrace.sdk.combinefns.collecting import TopCombineFn
        >>> TopCombineFn(2, reverse=True).state_arguments()
        {'n': 2, 'key': None, 'reverse': True}
        """
        return {}

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> CombineFn[object, object, object]:
        """A CombineFn that calls the methods of this one with further arguments."""
        return CurriedCombineFn(cast("CombineFn[object, object, object]", self), args, kwargs)

    @staticmethod
    def from_callable(function: Callable[..., object]) -> CombineFn[object, list[object], object]:
        """A CombineFn that calls a function from an iterable of values (or of its own results) to a value."""
        return CallableCombineFn(function)

    @staticmethod
    def maybe_from_callable(
        function: CombineFn[ElementT, AccumulatorT, ResultT] | Callable[..., object],
    ) -> CombineFn[ElementT, AccumulatorT, ResultT]:
        """A CombineFn unchanged; for a function, its registered CombineFn, or one that calls the function.

        Raises:
            TypeError: The argument is neither a CombineFn nor callable.
        """
        if isinstance(function, CombineFn):
            return function
        if not callable(function):
            raise TypeError(f"expected a CombineFn or a function of an iterable, got {function!r:.200}")
        known = next((make for builtin, make in _KNOWN_CALLABLES if builtin is function), None)
        made: object = known() if known else CallableCombineFn(function)
        return cast("CombineFn[ElementT, AccumulatorT, ResultT]", made)


def computes(function: object) -> Callable[[type[CombineFnT]], type[CombineFnT]]:
    """Class decorator that registers a CombineFn for a built-in function, for `CombineFn.maybe_from_callable`."""

    def register(combine_fn_class: type[CombineFnT]) -> type[CombineFnT]:
        _KNOWN_CALLABLES.append((function, combine_fn_class))
        return combine_fn_class

    return register


def _defines(kind: type, name: str) -> type:
    """The class that defines a method of a class."""
    return next(base for base in kind.__mro__ if name in vars(base))


class SomeCombineFn(Protocol):
    """A `CombineFn` of any types, as an argument type that accepts every typed CombineFn."""

    def setup(self) -> None:
        """See `CombineFn`."""

    def teardown(self) -> None:
        """See `CombineFn`."""

    def has_teardown(self) -> bool:
        """See `CombineFn`."""

    def default_label(self) -> str:
        """See `CombineFn`."""


AnyCombineFn: TypeAlias = CombineFn[object, object, object]
"""A CombineFn of values of unknown types, as the engine calls it."""
Combining: TypeAlias = SomeCombineFn | Callable[..., object]
"""A CombineFn, or a function from an iterable of values (or of its own results) to a value."""
Fanout: TypeAlias = int | Callable[[object], int]
"""Number of shards of a key, or a function from a key to this number."""


@named("CallableCombineFn")
class CallableCombineFn(CombineFn[object, list[object], object]):
    """Combines by a function: buffers up to ten values, then replaces the values with the function's result.

    >>> CallableCombineFn(lambda values: "".join(sorted(values))).apply("hydrant")
    'adhnrty'
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def default_label(self) -> str:
        """The label of the function."""
        return label_of(self.function)

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> AnyCombineFn:
        """A CombineFn that calls the function with further arguments."""
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


@named("CurriedCombineFn")
class CurriedCombineFn(CombineFn[object, object, object]):
    """A CombineFn that passes further arguments to the methods of another one."""

    def __init__(
        self, combine_fn: CombineFn[object, object, object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self.inner, self._args, self._kwargs = combine_fn, args, kwargs

    def _call(self, method: Callable[..., object], *given: object) -> object:
        return method(*given, *self._args, **self._kwargs)

    def _call_defined(self, name: str, *given: object) -> object:
        """Call an optional method; the default in `CombineFn` takes no further arguments."""
        method = getattr(self.inner, name)
        if getattr(type(self.inner), name) is getattr(CombineFn, name):
            return method(*given)
        return self._call(method, *given)

    def default_label(self) -> str:
        """The label of the inner combiner."""
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

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return self.inner.is_signed()

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
        """Whether the `teardown` of the inner combiner does anything."""
        return self.inner.has_teardown()


def curried(
    function: Combining, args: tuple[object, ...] = (), kwargs: Mapping[str, object] = MappingProxyType({})
) -> AnyCombineFn:
    """A CombineFn for a function or CombineFn with further arguments.

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
    """Raise TypeError for a function that cannot be called with an iterable of values and further arguments.

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
        # Some functions written in C have no signature.
        return
    try:
        signature.bind((), *args, **kwargs)
    except TypeError as error:
        further = f" and further arguments ({error})" if args or kwargs else ""
        raise TypeError(
            f"{place_of(function)} takes {signature}, but a function that combines is given one iterable of all values"
            f"{further}; write one such as `lambda values: sum(values)`, or a CombineFn, whose add_input(accumulator, "
            "value) takes two"
        ) from None


class WithArguments:
    """A function of an iterable, bound to further arguments; the label is the function's."""

    def __init__(self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.function, self._args, self._kwargs = function, args, kwargs

    def __call__(self, values: Iterable[object]) -> object:
        """The function's result for values and the further arguments."""
        return self.function(values, *self._args, **self._kwargs)

    def default_label(self) -> str:
        """The label of the function."""
        return label_of(self.function)


_UNCHANGING = frozenset([int, float, bool, str, bytes, type(None)])


class RunsCombiner:
    """Mixin of computations that run a CombineFn, if they have one: they set it up, and tear it down."""

    _combine: AnyCombineFn | None

    def setup(self) -> None:
        """Set the CombineFn up."""
        if self._combine is not None:
            self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        if self._combine is not None:
            self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether `teardown` of the CombineFn does anything."""
        return self._combine is not None and self._combine.has_teardown()


def private_copy(value: object) -> object:
    """A copy of a value that no other object refers to; the value itself if its type is immutable."""
    if type(value) in _UNCHANGING:
        return value
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def combiner_kind(combine: object) -> str:
    """The name of the kind of a combiner, which identifies the form of its accumulators.

    >>> combiner_kind(CallableCombineFn(sum)), combiner_kind(CallableCombineFn(lambda values: 0))
    ('sum', 'a lambda')
    """
    if combine is None:
        return "none"
    if isinstance(combine, CurriedCombineFn):
        return combiner_kind(combine.inner)
    if isinstance(combine, CallableCombineFn):
        name = str(getattr(combine.function, "__qualname__", type(combine.function).__qualname__))
        return "a lambda" if "<lambda>" in name else name
    inner = [combiner_kind(part) for part in _inner_combiners(combine)]
    return instance_name(combine) + (f"({', '.join(inner)})" if inner else "")


def combiner_signature(combine: object) -> dict[str, str]:
    """The aspects of a state signature that describe a combiner: its kind, and its arguments if there are any.

    0.1.0 stored the kind only; arguments are compared if the checkpoint has them.

    >>> from headrace.sdk.combinefns.collecting import TopCombineFn
    >>> combiner_signature(TopCombineFn(2, key=len))
    {'combiner': 'TopCombineFn', "the combiner's arguments": 'n=2, key=len, reverse=False'}
    """
    arguments = ", ".join(combiner_arguments(combine))
    return {"combiner": combiner_kind(combine)} | ({"the combiner's arguments": arguments} if arguments else {})


def combiner_arguments(combine: object) -> Iterable[str]:
    """The texts of the arguments of a combiner and of the combiners in it on which accumulators depend."""
    if not isinstance(combine, CombineFn):
        return
    for name, value in combine.state_arguments().items():
        yield f"{name}={argument_label(value)}"
    for part in _inner_combiners(combine):
        yield from combiner_arguments(part)


def _inner_combiners(combine: object) -> Iterable[object]:
    for value in getattr(combine, "__dict__", {}).values():
        found = value if isinstance(value, (list, tuple)) else [value]
        yield from (part for part in found if isinstance(part, CombineFn))
