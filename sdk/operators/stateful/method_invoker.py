"""What: calls of a stateful `DoFn`'s methods; arguments that are the same within a key and window are prepared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.arguments import (
    Arguments,
    Constant,
    Converted,
    Given,
    Side,
    Source,
    StateArgument,
    TimerArgument,
    given_of,
)
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.operators.stateful.key_window import KeyWindow
from headrace.sdk.userstate.state_spec import State, StateSpec
from headrace.sdk.windows import BoundedWindow

_BY_ELEMENT = (
    Given.ELEMENT,
    Given.TIMESTAMP,
    Given.PANE,
    Given.CAUSED_BY_DRAIN,
    Given.WINDOWED_VALUE,
    Given.DYNAMIC_TIMER_TAG,
)


class Call:
    """A method with the sources of its arguments.

    Args:
        method: The method.
        arguments: Sources of the arguments.
    """

    def __init__(self, method: Callable[..., object], arguments: Arguments) -> None:
        self.method = method
        self.convert, arguments = _without_conversion(_in_order(method, arguments))
        """What makes the method's elements of the engine's; None if they are the same."""
        self._positions = [(i, s) for i, s in enumerate(arguments.positional) if _is_by_element(s)]
        self._names = [(name, source) for name, source in arguments.named if _is_by_element(source)]
        self._only_element = not self._names and self._positions == [(0, Given.ELEMENT)]
        self.is_plain = self._only_element and not arguments.named
        """Whether the element is the first argument and the other arguments are the same within a key and window."""
        # Arguments that are the same for all keys and windows are filled in once.
        self._same: list[object] = [_same(source) for source in arguments.positional]
        self._same_names: dict[str, object] = {name: _same(source) for name, source in arguments.named}
        self._own = [(i, make) for i, s in enumerate(arguments.positional) if (make := _maker(s)) is not None]
        self._own_names = [(name, make) for name, s in arguments.named if (make := _maker(s)) is not None]

    def rest(self, window: KeyWindow) -> list[object]:
        """The arguments of a plain method after the element."""
        return self.filled(window)[0][1:]

    def filled(self, window: KeyWindow) -> tuple[list[object], dict[str, object]]:
        """The arguments for a key and window, with placeholders for those that differ between elements."""
        positional = self._same.copy()
        for index, make in self._own:
            positional[index] = make(window)
        return positional, self._filled_names(window)

    def _filled_names(self, window: KeyWindow) -> dict[str, object]:
        named = self._same_names.copy()
        for name, make in self._own_names:
            named[name] = make(window)
        return named

    def on_element(self, window: KeyWindow, element: object, timestamp: int, pane: PaneInfo | None) -> object:
        """Call the method for an element; `timestamp` is microseconds UTC."""
        if window.arguments is None:
            window.arguments = self.filled(window)
        positional, named = window.arguments
        if self._only_element:
            positional[0] = element
        else:
            given = element, timestamp, (window.namespace.window,), pane, window.sides
            for index, source in self._positions:
                positional[index] = argument_of(source, *given)
            for name, source in self._names:
                named[name] = argument_of(source, *given)
        return self.method(*positional, **named) if named else self.method(*positional)

    def on_timer(self, window: KeyWindow, fires_at: int, dynamic_tag: str, caused_by_drain: bool = False) -> object:
        """Call the method for a timer; `fires_at` is microseconds UTC."""
        positional = self._same.copy()
        for index, make in self._own:
            positional[index] = make(window)
        for index, source in self._positions:
            positional[index] = _of_timer(source, fires_at, dynamic_tag, caused_by_drain)
        if not self._same_names:
            return self.method(*positional)
        named = self._filled_names(window)
        for name, source in self._names:
            named[name] = _of_timer(source, fires_at, dynamic_tag, caused_by_drain)
        return self.method(*positional, **named)


def _in_order(method: Callable[..., object], arguments: Arguments) -> Arguments:
    """The same arguments, with leading named arguments turned into positional ones.

    Python reorders named arguments in every call, which takes as long as the rest of the call.
    """
    named = dict(arguments.named)
    try:
        parameters = list(inspect.signature(method, follow_wrapped=False).parameters.values())[
            len(arguments.positional) :
        ]
    except (TypeError, ValueError):
        # Some built-in functions have no signature.
        return arguments
    positional = list(arguments.positional)
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name not in named:
            break
        positional.append(named.pop(parameter.name))
    return Arguments(tuple(positional), tuple(named.items()))


def _without_conversion(arguments: Arguments) -> tuple[Callable[..., object] | None, Arguments]:
    """The conversion of a first argument that is the element, and the arguments for elements that are converted."""
    match arguments.positional:
        case (Converted(Given.ELEMENT, convert), *others):
            return convert, Arguments((Given.ELEMENT, *others), arguments.named)
    return None, arguments


def _same(source: Source) -> object:
    """An argument that is the same for all keys and windows; None as a placeholder."""
    return source.value if isinstance(source, Constant) else None


def _maker(source: Source) -> Callable[[KeyWindow], object] | None:
    """A function that gives an argument that is the same within a key and window; None for other arguments."""
    if isinstance(source, Converted):
        make, convert = _maker(source.source), source.convert
        return None if make is None else lambda window: convert(make(window))
    if isinstance(source, StateArgument):
        return _state_of(source.spec)
    if isinstance(source, TimerArgument):
        timer = source.spec
        return lambda window: window.timer(timer)
    if source is Given.KEY:
        return attrgetter("context.key")
    return attrgetter("namespace.window") if source is Given.WINDOW else None


def _state_of(spec: StateSpec[State]) -> Callable[[KeyWindow], State]:
    """A function that gives a state, which it opens at the first access in a window."""
    name, opened = spec.name, spec.open

    def state(window: KeyWindow) -> State:
        states = window.states
        if name in states:
            return states[name]
        found = states[name] = opened(window)
        return found

    return state


def _is_by_element(source: Source) -> bool:
    return isinstance(source, Side) or given_of(source) in _BY_ELEMENT


def argument_of(
    source: Source,
    element: object,
    timestamp: int,
    windows: tuple[BoundedWindow, ...],
    pane: PaneInfo | None,
    sides: Sequence[object],
) -> object:
    """The value of an argument for an element in windows; `sides` are the values of its side inputs."""
    if isinstance(source, Constant):
        return source.value
    if isinstance(source, Side):
        return sides[source.index]
    if isinstance(source, Converted):
        return source.convert(argument_of(source.source, element, timestamp, windows, pane, sides))
    if source is Given.ELEMENT:
        return element
    if source is Given.KEY:
        return cast("tuple[object, object]", element)[0]
    if source is Given.WINDOW:
        return windows[0]
    if source is Given.TIMESTAMP:
        return Timestamp.of_micros(timestamp)
    pane = PANE_INFO_UNKNOWN if pane is None else pane
    if source is Given.CAUSED_BY_DRAIN:
        return pane.caused_by_drain
    return pane if source is Given.PANE else WindowedValue(element, Timestamp.of_micros(timestamp), windows, pane)


def _of_timer(source: Source, fires_at: int, dynamic_tag: str, caused_by_drain: bool) -> object:
    if isinstance(source, Converted):
        return source.convert(_of_timer(source.source, fires_at, dynamic_tag, caused_by_drain))
    if source is Given.CAUSED_BY_DRAIN:
        return caused_by_drain
    return dynamic_tag if source is Given.DYNAMIC_TIMER_TAG else Timestamp.of_micros(fires_at)
