"""What: arguments that last for a bundle or a process: context managers, and callbacks for after the commit.

The source is `apache_beam.transforms.core`: `DoFn.BundleContextParam`, `SetupContextParam`, `BundleFinalizerParam`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from headrace.sdk.functions.arguments import Arguments, Constant, ContextArgument, Given, Source
from headrace.sdk.functions.declarations import DeclaredState
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.lifecycle import TAG, BundleFinalizer, Finalizers
from headrace.sdk.model.special_outputs import NO_OUTPUTS, TaggedOutput


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of an argument whose value changes from bundle to bundle."""

    number: int


class WithBundleValues(DoFn):
    """A DoFn with arguments that last for a bundle or a process; they stand as slots among the arguments.

    Args:
        fn: The DoFn.
        sources: Where the values of the slots come from.
    """

    def __init__(self, fn: DoFn, sources: Sequence[ContextArgument | Given]) -> None:
        self._fn, self._sources = fn, tuple(sources)
        self._values: list[object] = [None] * len(self._sources)
        self._finalizer, self._finalizers = BundleFinalizer(), Finalizers(fn.default_label())
        self.handles_retractions, self.keeps_order = fn.handles_retractions, fn.keeps_order
        self.strong_productions = fn.strong_productions
        self.outputs_per_window = fn.outputs_per_window

    @property
    def finalizes(self) -> bool:
        """Whether it has an output of callbacks."""
        return Given.BUNDLE_FINALIZER in self._sources

    def default_label(self) -> str:
        """That of the `DoFn`."""
        return self._fn.default_label()

    def __getattr__(self, name: str) -> object:
        """The methods that its timers call."""
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._call, getattr(self._fn, name))

    def setup(self) -> None:
        """Enter the contexts that last for the process, and set the `DoFn` up."""
        self._of_process, self._of_bundle = ExitStack(), ExitStack()
        try:
            self._enter(self._of_process, of_bundle=False)
            self._fn.setup()
        except BaseException:
            self._of_process.close()
            raise

    def start_bundle(self) -> None:
        """Enter the contexts that last for the bundle, and start it."""
        # A bundle that failed was not finished.
        self._of_bundle.close()
        self._finalizer.callbacks.clear()
        self._enter(self._of_bundle, of_bundle=True)
        # The result goes to the engine, which refuses one.
        return self._fn.start_bundle()

    def _enter(self, stack: ExitStack, of_bundle: bool) -> None:
        for number, source in enumerate(self._sources):
            if not isinstance(source, ContextArgument):
                self._values[number] = self._finalizer
            elif source.of_bundle is of_bundle:
                entered = cast("AbstractContextManager[object]", source.make(*source.args, **source.kwargs))
                self._values[number] = stack.enter_context(entered)

    def process(self, *args: object, **kwargs: object) -> Iterable[object] | None:
        """Outputs of an element, and the callbacks that were registered for it."""
        return self._call(self._fn.process, *args, **kwargs)

    def _call(
        self, method: Callable[..., Iterable[object] | None], *args: object, **kwargs: object
    ) -> Iterable[object] | None:
        outputs = method(*map(self._filled, args), **{name: self._filled(value) for name, value in kwargs.items()})
        if not self.finalizes or type(outputs) in NO_OUTPUTS:
            return outputs
        return self._with_callbacks(outputs)

    def _filled(self, argument: object) -> object:
        return self._values[argument.number] if isinstance(argument, _Slot) else argument

    def _with_callbacks(self, outputs: Iterable[object] | None) -> Iterator[object]:
        if outputs is not None:
            yield from outputs
        registered, self._finalizer.callbacks = self._finalizer.callbacks, []
        for callback in registered:
            yield TaggedOutput(TAG, self._finalizers.row(callback))

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        return self._fn.has_finish_bundle() or any(
            isinstance(source, ContextArgument) and source.of_bundle for source in self._sources
        )

    def finish_bundle(self) -> Iterable[object] | None:
        """Finish the bundle, and leave its contexts."""
        outputs = self._fn.finish_bundle()
        taken = outputs if outputs is None or type(outputs) in NO_OUTPUTS else list(outputs)
        self._of_bundle.close()
        return taken

    def teardown(self) -> None:
        """Tear the `DoFn` down, and leave all contexts."""
        with self._of_process, self._of_bundle:
            self._fn.teardown()


def with_bundle_values(
    fn: DoFn, arguments: Arguments, state: DeclaredState | None
) -> tuple[DoFn, Arguments, DeclaredState | None]:
    """A DoFn with slots for arguments that last for a bundle or a process; unchanged where it has none."""
    slots: dict[int, tuple[_Slot, ContextArgument | Given]] = {}

    def slotted(source: Source) -> Source:
        if isinstance(source, ContextArgument) or source is Given.BUNDLE_FINALIZER:
            slot, _ = slots.setdefault(id(source), (_Slot(len(slots)), source))
            return Constant(slot)
        return source

    new = arguments.mapped(slotted)
    if state is not None:
        callbacks = {
            name: replace(callback, arguments=callback.arguments.mapped(slotted))
            for name, callback in state.callbacks.items()
        }
        state = replace(state, callbacks=callbacks)
    if not slots:
        return fn, arguments, state
    return WithBundleValues(fn, [source for _, source in slots.values()]), new, state
