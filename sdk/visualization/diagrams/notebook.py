"""The diagram of a pipeline in a notebook."""

from __future__ import annotations

from contextlib import suppress

from headrace.sdk.graph.pvalue import BasePipeline
from headrace.sdk.visualization.diagrams.mermaid import mermaid
from headrace.sdk.visualization.diagrams.pipeline_diagram import pipeline_diagram
from headrace.sdk.visualization.diagrams.svg import svg


def mime_bundle(pipeline: BasePipeline) -> dict[str, str]:
    """MIME type -> the diagram in it: Mermaid, which JupyterLab renders, and SVG if the extra `plot` is installed.

    >>> from headrace.sdk.graph.pipeline_graph import PipelineGraph
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> sorted(mime_bundle(PipelineGraph(PipelineOptions([]))))
    ['text/plain']
    """
    if not pipeline.steps:
        return {"text/plain": "a pipeline without steps"}
    diagram = pipeline_diagram(pipeline)
    bundle = {"text/plain": mermaid(diagram), "text/vnd.mermaid": mermaid(diagram)}
    with suppress(ImportError):
        bundle["image/svg+xml"] = svg(diagram)
    return bundle
