"""Where: merging of windows, such as sessions (Streaming 102, figure 16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.lowlevel.errors import HeadraceError
from headrace.sdk.windows import BoundedWindow, MergeContext, WindowFn
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces


class Merged(NamedTuple):
    """A window, and the windows that were merged into it."""

    namespace: WindowNamespace
    parts: list[WindowNamespace]
    """The merged windows; the window itself alone if nothing was merged."""


class MergeError(HeadraceError, ValueError):
    """A window function merged windows inconsistently. Nothing of this epoch is committed.

    >>> import headrace as beam
    >>> from headrace.transforms.window import IntervalWindow, Sessions, TimestampedValue
    >>> class Wrong(Sessions):
    ...     def merge(self, context):
    ...         context.merge([IntervalWindow(0, 1)], IntervalWindow(0, 1))
    >>> try:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         scores = pipeline | beam.Create([TimestampedValue(("red", 5), 10), TimestampedValue(("red", 7), 20)])
    ...         _ = scores | beam.WindowInto(Wrong(60)) | "Sum" >> beam.CombinePerKey(sum)
    ... except beam.error.BeamError as error:
    ...     print(type(error).__name__, type(error.__cause__).__name__)
    StepError MergeError
    """


def merge_windows(
    window_fn: WindowFn, namespaces: WindowNamespaces, windows: Sequence[WindowNamespace]
) -> list[Merged]:
    """Merge windows, all of them different and at least one; raises `MergeError` for an inconsistent window function.

    >>> from headrace.sdk.windows.windowing import Windowing
    >>> from headrace.sdk.windows import IntervalWindow, Sessions
    >>> namespaces = WindowNamespaces(Windowing(Sessions(5)))
    >>> windows = [namespaces.of_window(IntervalWindow(start, start + 5)) for start in (3, 20, 0)]
    >>> [merged.namespace.window for merged in merge_windows(Sessions(5), namespaces, windows)]
    [[0.0, 8.0), [20.0, 25.0)]
    """
    if len(windows) == 1:
        return [Merged(windows[0], list(windows))]
    recorder = _Recorder(window_fn, namespaces, windows)
    window_fn.merge(recorder)
    return recorder.merged()


class _Recorder(MergeContext):
    """Records the merges of a window function."""

    def __init__(self, window_fn: WindowFn, namespaces: WindowNamespaces, windows: Sequence[WindowNamespace]) -> None:
        super().__init__([namespace.window for namespace in windows])
        self._window_fn = window_fn
        self._namespaces = namespaces
        self._groups = {namespace.code: Merged(namespace, [namespace]) for namespace in windows}

    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        """Merge windows into `merge_result`, which may be one of them; raises `MergeError` if a window is missing."""
        parts: list[WindowNamespace] = []
        for window in to_be_merged:
            group = self._groups.pop(self._namespaces.of_window(window).code, None)
            if group is None:
                raise MergeError(
                    f"{self._window_fn} merged window {window} into {merge_result}, but there is no such window, or it "
                    "was merged before; merge each of context.windows at most once"
                )
            parts += group.parts
        result = self._namespaces.of_window(merge_result)
        if result.code in self._groups:
            raise MergeError(
                f"{self._window_fn} merged windows into {merge_result}, which stays a window of its own; "
                "put it among those to be merged"
            )
        self._groups[result.code] = Merged(result, parts)

    def merged(self) -> list[Merged]:
        """The windows after all merges, in the order of their ends."""
        return sorted(self._groups.values(), key=lambda merged: merged.namespace.end)
