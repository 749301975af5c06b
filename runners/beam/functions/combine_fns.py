"""What: Beam's CombineFns as Headrace's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import apache_beam
from apache_beam.transforms import combiners as beam
from apache_beam.transforms import core

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import library_arguments, wrapped_function
from headrace.sdk import combinefns
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CombineFn


@named("BeamCombineFn")
class BeamCombineFn(CombineFn[object, object, object]):
    """A CombineFn of Beam's SDK, which runs as it is."""

    def __init__(self, fn: apache_beam.CombineFn) -> None:
        self._fn = fn

    def adapted_name(self) -> str:
        """The name of the CombineFn's class, or of the function that it calls, in fingerprints."""
        function = wrapped_function(self._fn) if type(self._fn) in _WRAPPERS else type(self._fn)
        name = str(getattr(function, "__qualname__", type(function).__qualname__))
        return "a lambda" if "<lambda>" in name else name

    def state_arguments(self) -> Mapping[str, object]:
        """The arguments of a combiner that Beam has; those of other classes are not known."""
        return library_arguments(self._fn)

    def setup(self, *args: object, **kwargs: object) -> None:
        """See `CombineFn`."""
        self._fn.setup(*args, **kwargs)

    def create_accumulator(self, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        return self._fn.create_accumulator(*args, **kwargs)

    def add_input(self, accumulator: object, element: object, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        return self._fn.add_input(accumulator, element, *args, **kwargs)

    def add_inputs(self, accumulator: object, elements: Iterable[object]) -> object:
        """See `CombineFn`."""
        # Most functions have no way of their own for many elements.
        if type(self._fn).add_inputs is apache_beam.CombineFn.add_inputs:
            return super().add_inputs(accumulator, elements)
        return self._fn.add_inputs(accumulator, elements)

    def merge_accumulators(self, accumulators: object, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        return self._fn.merge_accumulators(accumulators, *args, **kwargs)

    def compact(self, accumulator: object, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        return self._fn.compact(accumulator, *args, **kwargs)

    def extract_output(self, accumulator: object, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        # Beam merges whatever has been encoded before it extracts, and some functions rely on it.
        merged = self._fn.merge_accumulators([accumulator], *args, **kwargs)
        return self._fn.extract_output(merged, *args, **kwargs)

    def teardown(self, *args: object, **kwargs: object) -> None:
        """See `CombineFn`."""
        self._fn.teardown(*args, **kwargs)


_WRAPPERS = (core.CallableWrapperCombineFn, core.NoSideInputsCallableWrapperCombineFn)
_BUILTINS = (sum, min, max, any, all)


def combine_fn_of(fn: apache_beam.CombineFn) -> AnyCombineFn:
    """Headrace's CombineFn for one of Beam's: its own where it has the same, else one that calls Beam's."""
    if type(fn) in _WRAPPERS and wrapped_function(fn) in _BUILTINS:
        return CombineFn.maybe_from_callable(wrapped_function(fn))
    make = _SAME.get(type(fn))
    return BeamCombineFn(fn) if make is None else cast(AnyCombineFn, make())


_SAME = {beam.CountCombineFn: combinefns.numeric.CountCombineFn, beam.MeanCombineFn: combinefns.numeric.MeanCombineFn}
