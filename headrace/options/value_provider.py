"""Values of options that a transform reads while it runs (`apache_beam.options.value_provider`).

A program of Headrace knows its options when it is built, so a value that is read at run time is the same as then. The
classes are here for transforms that take their arguments as `ValueProvider`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ClassVar, Concatenate, ParamSpec, TypeVar

from headrace.lowlevel.errors import HeadraceError

__all__ = ["NestedValueProvider", "RuntimeValueProvider", "StaticValueProvider", "ValueProvider", "check_accessible"]

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
SelfT = TypeVar("SelfT")


class RuntimeValueProviderError(HeadraceError, RuntimeError):
    """A value that is known when the pipeline runs was asked for before.

    >>> RuntimeValueProvider.set_runtime_options(None)  # as before the first run of a process
    >>> RuntimeValueProvider("threshold", int, 10).get()
    Traceback (most recent call last):
      ...
    headrace.options.value_provider.RuntimeValueProviderError: ...
    """


class ValueProvider(ABC):
    """A value that may be known only when the pipeline runs.

    >>> import headrace as beam
    >>> class Above(beam.DoFn):
    ...     def __init__(self, least):
    ...         self.least = least
    ...     def process(self, number):
    ...         if number > self.least.get():
    ...             yield number
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([5, 15]) | beam.ParDo(Above(StaticValueProvider(int, "10"))) | beam.Map(print)
    15
    """

    @abstractmethod
    def is_accessible(self) -> bool:
        """Whether `get` returns the value now."""

    @abstractmethod
    def get(self) -> object:
        """The value. Raises `RuntimeValueProviderError` if it is not accessible."""


class StaticValueProvider(ValueProvider):
    """A value that is known.

    Args:
        value_type: Function that makes the value of what is given, such as a type.
        value: What is given, such as the text of an option.

    >>> StaticValueProvider(int, "7").get()
    7
    """

    def __init__(self, value_type: Callable[..., object], value: object) -> None:
        self.value_type = value_type
        self.value = value_type(value)

    def is_accessible(self) -> bool:
        """True."""
        return True

    def get(self) -> object:
        """The value."""
        return self.value

    def __str__(self) -> str:
        return str(self.value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StaticValueProvider):
            return (self.value_type, self.value) == (other.value_type, other.value)
        return bool(self.value == other)

    def __hash__(self) -> int:
        return hash((type(self), self.value_type, self.value))


class RuntimeValueProvider(ValueProvider):
    """The value of an option that was not given: its default, once a pipeline runs.

    >>> import headrace as beam
    >>> threshold = RuntimeValueProvider("threshold", int, 10)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([5, 15]) | beam.Filter(lambda number: number > threshold.get()) | beam.Map(print)
    15

    Args:
        option_name: Name of the option.
        value_type: Function that makes the value of an option's text.
        default_value: Value if the option is not among the runtime options.
    """

    runtime_options: ClassVar[Mapping[str, object] | None] = None
    """Option name -> text; None until a pipeline of this process runs."""

    _was_sent: bool = False
    """Whether the value was sent to a worker while a pipeline ran."""

    def __init__(self, option_name: str, value_type: Callable[..., object], default_value: object) -> None:
        self.option_name, self.value_type, self.default_value = option_name, value_type, default_value

    @classmethod
    def set_runtime_options(cls, pipeline_options: Mapping[str, object] | None) -> None:
        """Make the values accessible, or with None inaccessible."""
        RuntimeValueProvider.runtime_options = pipeline_options

    @classmethod
    def get_value(cls, option_name: str, value_type: Callable[..., object], default_value: object) -> object:
        """The value of an option among the runtime options, else the default."""
        given = (RuntimeValueProvider.runtime_options or {}).get(option_name)
        return value_type(given) if given else default_value

    def is_accessible(self) -> bool:
        """Whether a pipeline runs, or has run, in this process."""
        return RuntimeValueProvider.runtime_options is not None or self._was_sent

    def get(self) -> object:
        """The value. Raises `RuntimeValueProviderError` before a pipeline runs."""
        if not self.is_accessible():
            raise RuntimeValueProviderError(
                f"{self}.get() was called while the pipeline was built; call it in a function that the pipeline runs"
            )
        return self.get_value(self.option_name, self.value_type, self.default_value)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_was_sent": self.is_accessible()}

    def __str__(self) -> str:
        kind = getattr(self.value_type, "__name__", self.value_type)
        return f"{type(self).__name__}(option: {self.option_name}, type: {kind}, default_value: {self.default_value!r})"


class NestedValueProvider(ValueProvider):
    """A value that is computed from another one, once.

    Args:
        value: The other one.
        translator: Function of its value.

    >>> NestedValueProvider(StaticValueProvider(str, "a"), str.upper).get()
    'A'
    """

    def __init__(self, value: ValueProvider, translator: Callable[..., object]) -> None:
        self.value, self.translator = value, translator

    def is_accessible(self) -> bool:
        """Whether the other value is."""
        return self.value.is_accessible()

    def get(self) -> object:
        """The value."""
        if not hasattr(self, "cached_value"):
            self.cached_value = self.translator(self.value.get())
        return self.cached_value

    def __str__(self) -> str:
        name = getattr(self.translator, "__name__", self.translator)
        return f"{type(self).__name__}(value: {self.value}, translator: {name})"


Method = Callable[Concatenate[SelfT, P], ResultT]


def check_accessible(
    value_provider_list: Sequence[str],
) -> Callable[[Method[SelfT, P, ResultT]], Method[SelfT, P, ResultT]]:
    """A decorator of methods that raises `RuntimeValueProviderError` unless values of the object are accessible.

    >>> class Reader:
    ...     def __init__(self, path):
    ...         self.path = path
    ...     @check_accessible(["path"])
    ...     def read(self):
    ...         return self.path.get()
    >>> Reader(StaticValueProvider(str, "scores.csv")).read()
    'scores.csv'

    Args:
        value_provider_list: Names of the object's attributes that are value providers.
    """

    def decorate(method: Method[SelfT, P, ResultT]) -> Method[SelfT, P, ResultT]:
        @wraps(method)
        def checked(self: SelfT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
            for name in value_provider_list:
                if not getattr(self, name).is_accessible():
                    raise RuntimeValueProviderError(
                        f"{getattr(self, name)} is not accessible while the pipeline is built; call {method.__name__} "
                        "in a function that the pipeline runs"
                    )
            return method(self, *args, **kwargs)

        return checked

    return decorate
