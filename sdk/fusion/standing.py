"""Which functions stand in a loop with what they return, instead of being called."""

from __future__ import annotations

from types import FunctionType
from typing import cast

from headrace.sdk.fusion.inlined import Held, Inlined, inlined
from headrace.sdk.fusion.plan import ElementStep
from headrace.sdk.transforms.element import FunctionDoFn


class Standing:
    """The functions that stand in one loop.

    Their global names mean in the loop what they mean in them, as it runs in the module that the first one is of; of
    other modules (each function that travels by value has one to itself) they are looked up.

    Args:
        allowed: Whether there may be any.
    """

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed
        self._module: dict[str, object] | None = None
        self._names: set[str] = set()
        self.modules: dict[str, object] = {}
        """Variables that the loop needs besides: other modules' global names."""

    def arguments(self, step: ElementStep, number: int, element: Held) -> tuple[Held, ...] | None:
        """What the function of a step would get; None if it must be called.

        Of an element that is spread, but was not yet taken apart, these are names that the loop must give its items.
        """
        body, fn = step.body, step.fn
        if body is None or not self._allowed or not isinstance(fn, FunctionDoFn) or not body.fits(fn.function):
            return None
        module, width = cast(FunctionType, fn.function).__globals__, len(body.parameters)
        if self._module is not None and any(name in self._module for name in body.names.difference(module)):
            # Of Python's own names the loop's module has made others.
            return None
        if not width or (not fn.spread and width > 1) or (fn.spread and len(element.items) not in (0, width)):
            return None
        self._module = module if self._module is None else self._module
        self._names |= body.names if self._module is module else body.names.difference(module)
        if not fn.spread:
            return (element,)
        return tuple(map(Held, element.items or [f"x{number}_{place}" for place in range(width)]))

    def returned(self, step: ElementStep, number: int, arguments: tuple[Held, ...]) -> Inlined:
        """What it returns."""
        assert step.body is not None, "arguments() has looked"
        assert isinstance(step.fn, FunctionDoFn), "arguments() has looked"
        module = cast(FunctionType, step.fn.function).__globals__
        if module is self._module or not (names := step.body.names.intersection(module)):
            return inlined(step.body, arguments)
        self.modules[variable := f"h{number}"] = module
        return inlined(step.body, arguments, {name: f"{variable}[{name!r}]" for name in names})

    def settled(self, loop: FunctionType) -> FunctionType | None:
        """The loop in the module that they are of; None if it has variables of names that they look up there."""
        if self._names.intersection(loop.__code__.co_varnames):
            return None
        if self._module is None:
            return loop
        return FunctionType(loop.__code__, self._module, loop.__name__, loop.__defaults__)
