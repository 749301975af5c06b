"""`headrace explain`: what keeps watermarks back, and which way each step goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from headrace.cli.ending import MisuseError, endings
from headrace.cli.inspect import view_of
from headrace.cli.run import Options, Target, flags_of
from headrace.cli.target import Program, load
from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.fingerprint import COMPUTATION, INJECTOR, Fingerprint, aspects_changed
from headrace.lowlevel.credentials import hidden
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.explain import Explanation, Standing
from headrace.lowlevel.explain import explain as why
from headrace.lowlevel.topology import Topology
from headrace.sdk.compile import ways_of
from headrace.sdk.pipeline import Pipeline
from headrace.sdk.way import Way


def explain(
    target: Target,
    checkpoint: Annotated[str | None, typer.Option(help="Say what keeps the watermarks of this run back.")] = None,
    step: Annotated[str | None, typer.Option(help="Only of this step.")] = None,
    option: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Say which way each step goes, and, of a run, what keeps its watermarks back.

    A step goes the quick way (columns, all keys at once) or the general one (element by element, key by key); the
    reason says what would have to change. With --checkpoint: which source, state or record each watermark waits for.
    Nothing is run or written.

    Example: headrace explain scores.py:pipeline --checkpoint=state/scores
    """
    with endings():
        program = load(target, None, flags_of(option or []))
        ways = [] if isinstance(program, Topology) else _ways(program, step)
        held = [] if checkpoint is None else _held(program, checkpoint, step)
    if as_json:
        typer.echo(
            json.dumps({"ways": [_way(way) for way in ways], "watermarks": [_why(each) for each in held]}, indent=1)
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    for way in ways:
        quick = way.against is None
        console.print(Text.assemble(("quick    " if quick else "general  ", "green" if quick else "yellow"), str(way)))
    for each in held:
        console.print(str(each), markup=False)
    if isinstance(program, Topology) and checkpoint is None:
        console.print("a topology has one way only; give --checkpoint to see what keeps its watermarks back")


def _ways(pipeline: Pipeline, step: str | None) -> list[Way]:
    ways = ways_of(pipeline)
    if step is None:
        return ways
    if not (found := [way for way in ways if way.step == step]):
        known = ", ".join(dict.fromkeys(way.step for way in ways)) or "none"
        raise MisuseError(f"the pipeline has no step {step!r} (steps: {known}); correct --step")
    return found


def _held(program: Program, checkpoint: str, step: str | None) -> list[Explanation]:
    topology = program.topology() if isinstance(program, Pipeline) else program
    if (manifest := view_of(checkpoint).manifest) is None:
        raise MisuseError(f"nothing is committed yet in {hidden(checkpoint)}")
    _require_same(hidden(checkpoint), manifest, topology)
    standing = Standing.of(manifest)
    # Of a pipeline's steps not all have a watermark; those that there are not have been refused before.
    steps = list(topology.keyed) if step is None else [step]
    if isinstance(program, Pipeline):
        steps = [name for name in steps if name in topology.keyed]
    try:
        return [why(topology, standing, name) for name in steps]
    except TopologyError as error:
        raise MisuseError(str(error)) from error


def _require_same(place: str, manifest: Manifest, topology: Topology) -> None:
    """Refuse a checkpoint of another program, or of an earlier form of it: it says nothing of this one's watermarks."""
    kinds = (COMPUTATION, INJECTOR)
    had = {(its.kind, its.name): its for its in manifest.topology.members if its.kind in kinds}
    has = {(its.kind, its.name): its for its in Fingerprint.of(topology).members if its.kind in kinds}
    told = [f"{had[name]} is only in the checkpoint" for name in had if name not in has]
    told += [f"{has[name]} is only in the program" for name in has if name not in had]
    told += [change for name in has if name in had for change in aspects_changed(had[name], has[name])]
    if told:
        raise MisuseError(
            f"{place} is of another program, or of an earlier form of this one: {'; '.join(told)}; give the program "
            "that it was made by, or run the changed one first"
        )


def _way(way: Way) -> Mapping[str, object]:
    return {"step": way.step, "quick": way.against is None, "way": str(way), "against": way.against}


def _why(each: Explanation) -> Mapping[str, object]:
    return {"step": each.step, "watermark": each.watermark, "because": str(each)}
