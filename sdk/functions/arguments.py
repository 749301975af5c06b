"""What: the arguments of a user's function, fixed when the pipeline is built (`DoFn.WindowParam` and its like)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headrace.sdk.splittable.restrictions import RestrictionProvider
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimatorProvider
from headrace.sdk.userstate.state_spec import State, StateSpec
from headrace.sdk.userstate.timers import TimerSpec


class Given(Enum):
    """Where an argument comes from when an element is processed."""

    ELEMENT = "ElementParam"
    KEY = "KeyParam"
    TIMESTAMP = "TimestampParam"
    WINDOW = "WindowParam"
    PANE = "PaneInfoParam"
    CAUSED_BY_DRAIN = "CausedByDrainParam"
    WINDOWED_VALUE = "WindowedValueParam"
    DYNAMIC_TIMER_TAG = "DynamicTimerTagParam"
    BUNDLE_FINALIZER = "BundleFinalizerParam"

    def __repr__(self) -> str:
        return f"DoFn.{self.value}"


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is the same for every element."""

    value: object


@dataclass(frozen=True, slots=True)
class StateArgument:
    """State of the current key and window."""

    spec: StateSpec[State]

    def __repr__(self) -> str:
        return f"DoFn.StateParam({self.spec!r})"


@dataclass(frozen=True, slots=True)
class TimerArgument:
    """A timer of the current key and window."""

    spec: TimerSpec

    def __repr__(self) -> str:
        return f"DoFn.TimerParam({self.spec!r})"


@dataclass(frozen=True, slots=True)
class Converted:
    """What the engine gives, as an object of another SDK's class."""

    source: Given | StateArgument | TimerArgument
    convert: Callable[..., object]


@dataclass(frozen=True, slots=True)
class RestrictionArgument:
    """The tracker of the current element's restriction."""

    provider: RestrictionProvider | None
    """None if the `DoFn` itself is the provider."""

    def __repr__(self) -> str:
        return f"DoFn.RestrictionParam({'' if self.provider is None else self.provider!r})"


@dataclass(frozen=True, slots=True)
class EstimatorArgument:
    """The watermark estimator of the current element."""

    provider: WatermarkEstimatorProvider | None
    """None if the `DoFn` itself is the provider."""

    def __repr__(self) -> str:
        return f"DoFn.WatermarkEstimatorParam({'' if self.provider is None else self.provider!r})"


@dataclass(frozen=True, slots=True, eq=False)
class ContextArgument:
    """What a context manager gives that is entered for each bundle, or once in each process."""

    make: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    of_bundle: bool

    def __repr__(self) -> str:
        return f"DoFn.{'Bundle' if self.of_bundle else 'Setup'}ContextParam({self.make!r})"


@dataclass(frozen=True, slots=True)
class Side:
    """A side value as an argument: the contents of another collection in the side window of the element."""

    index: int
    """Index among the side values of the element."""


Source = (
    Given
    | Converted
    | StateArgument
    | TimerArgument
    | RestrictionArgument
    | EstimatorArgument
    | ContextArgument
    | Constant
    | Side
)
Make: TypeAlias = Callable[[list[object]], object]
"""From the values of a side window to the argument."""
_FROM_ENGINE = (Given, StateArgument, TimerArgument, RestrictionArgument, EstimatorArgument, ContextArgument)
_FOREIGN: dict[type, Callable[[object], Source]] = {}


def given_of(source: Source) -> Source:
    """The source of an argument without its conversion."""
    return source.source if isinstance(source, Converted) else source


def register_parameter(kind: type, source: Callable[[object], Source]) -> None:
    """Let instances of another SDK's class, as defaults of parameters, mean what `source` makes of them."""
    _FOREIGN[kind] = source


def engine_source(default: object) -> Source | None:
    """What the engine gives to a parameter with this default; None if it gives nothing."""
    if isinstance(default, _FROM_ENGINE):
        return default
    foreign = _FOREIGN.get(type(default))
    return None if foreign is None else foreign(default)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Where each argument of a function comes from when it is called for an element."""

    positional: tuple[Source, ...]
    named: tuple[tuple[str, Source], ...] = ()

    def sources(self) -> list[Source]:
        """The sources of all arguments."""
        return [*self.positional, *(source for _, source in self.named)]

    def mapped(self, function: Callable[[Source], Source]) -> Arguments:
        """The arguments from other sources."""
        return Arguments(
            tuple(map(function, self.positional)), tuple((name, function(source)) for name, source in self.named)
        )

    def __contains__(self, given: Given) -> bool:
        return given in map(given_of, self.sources())


def bind(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], spread: bool = False
) -> Arguments:
    """Match a function's parameters with the element, what the engine gives, and the user's further arguments.

    The element goes to the first parameter, or to one whose default is `DoFn.ElementParam`; parameters whose default
    is another `DoFn` parameter get that; further positional arguments fill what is left, in order.

    Args:
        function: Called with one element at a time.
        args: Further positional arguments.
        kwargs: Further named arguments.
        spread: The element is a tuple that is spread over the function's parameters (`MapTuple`): how many of them
            is not known before an element is seen, so only names can be checked.

    Raises:
        TypeError: The function cannot be called so; the message says what does not fit.

    >>> def scale(number, factor, pane=Given.PANE):
    ...     return number * factor
    >>> bind(scale, (3,), {}).positional
    (DoFn.ElementParam, Constant(value=3), DoFn.PaneInfoParam)
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
        if _is_bound_dispatch(function):
            # Python's signature of the bound method has the instance, too.
            del parameters[0]
    except (TypeError, ValueError):
        # Some built-in functions have no signature.
        anything = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        parameters = [anything, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    if spread:
        return _spread(parameters, args, kwargs)
    if any(engine_source(parameter.default) is not None for parameter in parameters):
        return _Binding(parameters, args, kwargs).arguments()
    inspect.Signature(parameters).bind(None, *args, **kwargs)
    return Arguments((Given.ELEMENT, *map(Constant, args)), tuple((n, Constant(v)) for n, v in kwargs.items()))


def _is_bound_dispatch(function: object) -> bool:
    """Whether a function is what `functools.singledispatchmethod` gives for an instance."""
    code = getattr(function, "__code__", None)
    is_of_functools = code is not None and code.co_filename == functools.__file__
    return is_of_functools and hasattr(function, "register") and not hasattr(function, "dispatch")


def _spread(parameters: list[inspect.Parameter], args: tuple[object, ...], kwargs: dict[str, object]) -> Arguments:
    """Arguments behind the items of a tuple: in the order of the parameters, but those that the engine gives.

    >>> def scale(key, number, pane=Given.PANE, factor=1): ...
    >>> _spread(list(inspect.signature(scale).parameters.values()), (3,), {}).named
    (('pane', DoFn.PaneInfoParam), ('factor', Constant(value=3)))
    """
    named: dict[str, Source] = {
        parameter.name: source for parameter in parameters if (source := engine_source(parameter.default)) is not None
    }
    between = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if any(parameter.name in named for parameter in between):
        # Parameters after one of the engine's can only be given by name.
        open_ = [
            parameter.name
            for parameter in between
            if parameter.default is not parameter.empty and parameter.name not in {**named, **kwargs}
        ]
        first = max(0, len(args) - len(open_))
        named |= {name: Constant(value) for name, value in zip(open_, args[first:], strict=False)}
        args = args[:first]
    named |= {name: Constant(value) for name, value in kwargs.items()}
    return Arguments((Given.ELEMENT, *map(Constant, args)), tuple(named.items()))


class _Binding:
    """Matches parameters with sources, one after the other."""

    def __init__(
        self, parameters: list[inspect.Parameter], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._parameters = parameters
        self._args = list(args)
        self._kwargs = dict(kwargs)
        self._element_left = not any(parameter.default is Given.ELEMENT for parameter in parameters)
        self._positional: list[Source] = []
        self._named: list[tuple[str, Source]] = []
        self._by_name_only = False

    def arguments(self) -> Arguments:
        """Match all parameters. Raises `TypeError` if an argument is left over."""
        for parameter in self._parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._positional += map(Constant, self._args)
                self._args = []
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._named += [(name, Constant(value)) for name, value in self._kwargs.items()]
                self._kwargs = {}
            else:
                self._match(parameter)
        if self._args or self._kwargs:
            left = [*map(repr, self._args), *(f"{name}={value!r}" for name, value in self._kwargs.items())]
            raise TypeError(f"too many arguments: nothing takes {', '.join(left)}")
        return Arguments(tuple(self._positional), tuple(self._named))

    def _match(self, parameter: inspect.Parameter) -> None:
        source = self._source(parameter)
        if source is None:
            # Later arguments must be given by name, as this parameter keeps its default.
            self._by_name_only = True
        elif parameter.kind is parameter.KEYWORD_ONLY or self._by_name_only:
            self._named.append((parameter.name, source))
        else:
            self._positional.append(source)

    def _source(self, parameter: inspect.Parameter) -> Source | None:
        """The source of a parameter's argument; None if the parameter keeps its default."""
        if parameter.name in self._kwargs:
            return Constant(self._kwargs.pop(parameter.name))
        if (given := engine_source(parameter.default)) is not None:
            return given
        if parameter.kind is not parameter.KEYWORD_ONLY:
            if self._element_left:
                self._element_left = False
                return Given.ELEMENT
            if self._args:
                return Constant(self._args.pop(0))
        if parameter.default is parameter.empty:
            raise TypeError(f"missing a required argument: {parameter.name!r}")
        return None
