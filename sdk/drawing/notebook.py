"""A pipeline as a notebook shows it: its picture."""

from __future__ import annotations

from headrace.sdk.drawing.mermaid import mermaid
from headrace.sdk.drawing.svg import svg
from headrace.sdk.drawing.written import written
from headrace.sdk.pipeline import Pipeline


def bundle(pipeline: Pipeline) -> dict[str, str]:
    """MIME type -> the picture in it: Mermaid, which JupyterLab draws itself, and SVG where the extra "plot" is.

    >>> sorted(bundle(Pipeline("LocalRunner")))
    ['text/plain']
    """
    if not pipeline.steps:
        return {"text/plain": "a pipeline without steps"}
    drawing = written(pipeline)
    shown = {"text/plain": mermaid(drawing), "text/vnd.mermaid": mermaid(drawing)}
    try:
        shown["image/svg+xml"] = svg(drawing)
    except ImportError:
        return shown
    return shown
