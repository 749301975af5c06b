"""The command `headrace explain`: whether each step is vectorized, and what holds watermarks back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from headrace.cli.column_share import figures_of, taken_by
from headrace.cli.ending import MisuseError, as_misuse, endings
from headrace.cli.inspect import view_of
from headrace.cli.run import Options, Target, flags_of
from headrace.cli.target import Program, load
from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, INJECTOR, Fingerprint, aspects_changed
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.metric import decode_metrics
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.explain import Explanation
from headrace.lowlevel.watermarks.explain import explain as why
from headrace.runners.engine.driver.checkpoint_journal import state_of
from headrace.runners.reporting.figures import StepFigures
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.sdk.compiler.execution_strategy import ExecutionStrategy, ProgramStep, steps_of_program
from headrace.sdk.pipeline.pipeline import Pipeline


def explain(
    target: Target,
    checkpoint: Annotated[
        str | None, typer.Option(help="Also explain what keeps back the watermarks of this run.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="Explain this step only.")] = None,
    option: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say whether each step is vectorized, and, of a run, what keeps its watermarks back.

    A vectorized step processes whole columns, or all keys at once; any other step processes elements or keys one by
    one, and the reason says what would have to change. Results are the same. With --checkpoint: how many elements of
    the run vectorized steps took one by one, and which source, state or record each watermark waits for. Nothing is run
    or written.

    Example: headrace explain scores.py:pipeline --checkpoint=state/scores
    """
    with endings():
        program = load(target, None, flags_of(option or []))
        steps = [] if isinstance(program, Topology) else _strategies(program, step)
        held = [] if checkpoint is None else _explanations(program, checkpoint, step)
        taken = {} if checkpoint is None else _taken(checkpoint)
    if as_json:
        told = {
            "steps": [_step_fields(each, taken) for each in steps],
            "watermarks": list(map(_watermark_fields, held)),
        }
        typer.echo(json.dumps(told, indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    for each in steps:
        is_vectorized = each.strategy.obstacle is None
        heading = ("vectorized      ", "green") if is_vectorized else ("not vectorized  ", "yellow")
        counted = taken_by(each, taken)
        is_news = is_vectorized and counted is not None and counted.one_by_one
        console.print(Text.assemble(heading, str(each.strategy), f"; {counted}" if is_news else ""))
    for explanation in held:
        console.print(str(explanation), markup=False)
    if isinstance(program, Topology) and checkpoint is None:
        console.print("a topology has no steps to vectorize; give --checkpoint to see what keeps its watermarks back")


def _strategies(pipeline: Pipeline, step: str | None) -> list[ProgramStep]:
    """The steps of the program, or the one asked for, which may also be a part of one."""
    steps = steps_of_program(pipeline.steps, execution_strategies(pipeline))
    if step is None:
        return steps
    parts = [ProgramStep(part, (part,)) for each in steps for part in each.parts]
    if not (found := [each for some in (steps, parts) for each in some if each.strategy.step == step][:1]):
        known = ", ".join(each.strategy.step for each in steps) or "none"
        raise MisuseError(f"the pipeline has no step {step!r} (steps: {known}); correct --step")
    return found


def _explanations(program: Program, checkpoint: str, step: str | None) -> list[Explanation]:
    topology = program.topology() if isinstance(program, Pipeline) else program
    if (manifest := view_of(checkpoint).manifest) is None:
        raise MisuseError(f"nothing is committed yet in {hidden(checkpoint)}")
    _require_same(hidden(checkpoint), manifest, topology)
    watermark_state = state_of(manifest).watermark_state()
    # Some steps of a pipeline have no watermark; `_strategies` has refused names of unknown steps.
    steps = list(topology.keyed) if step is None else [step]
    if isinstance(program, Pipeline):
        steps = [name for name in topology.keyed if step is None or f"{name}/".startswith(f"{step}/")]
    with as_misuse(TopologyError):
        return [why(topology, watermark_state, name) for name in steps]


def _taken(checkpoint: str) -> dict[str, StepFigures]:
    """Step -> figures of the run."""
    manifest = view_of(checkpoint).manifest
    return {} if manifest is None else figures_of(decode_metrics(manifest.metrics))


def _require_same(location: str, manifest: Manifest, topology: Topology) -> None:
    """Refuse a checkpoint of another program, or of another version of this program.

    The watermarks in such a checkpoint belong to other steps. Raises `MisuseError`.
    """
    kinds = (COMPUTATION, INJECTOR)
    stored = {(node.kind, node.name): node for node in manifest.topology.members if node.kind in kinds}
    given = {(node.kind, node.name): node for node in Fingerprint.of(topology).members if node.kind in kinds}
    differences = [f"{stored[name]} is only in the checkpoint" for name in stored if name not in given]
    differences += [f"{given[name]} is only in the program" for name in given if name not in stored]
    differences += [change for name in given if name in stored for change in aspects_changed(stored[name], given[name])]
    if differences:
        raise MisuseError(
            f"{location} is of another program, or of an earlier form of this one: {'; '.join(differences)}; "
            "give the program that it was made by, or run the changed one first"
        )


def _step_fields(step: ProgramStep, figures: Mapping[str, StepFigures]) -> Mapping[str, object]:
    taken = taken_by(step, figures)
    counts = {} if taken is None else taken._asdict()
    return {**_strategy_fields(step.strategy), **counts, "parts": list(map(_strategy_fields, step.parts))}


def _strategy_fields(strategy: ExecutionStrategy) -> Mapping[str, object]:
    vectorized = strategy.obstacle is None
    return {"step": strategy.step, "vectorized": vectorized, "obstacle": strategy.obstacle, "text": str(strategy)}


def _watermark_fields(explanation: Explanation) -> Mapping[str, object]:
    return {"step": explanation.step, "watermark": explanation.watermark, "because": str(explanation)}
