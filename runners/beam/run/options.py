"""Options of Headrace beside those of Beam, as a class of Beam's `PipelineOptions`."""

from __future__ import annotations

import argparse
from difflib import get_close_matches

from apache_beam.options import pipeline_options as beam
from apache_beam.options.value_provider import StaticValueProvider, ValueProvider

from headrace.options.option import declared
from headrace.options.pipeline_options import EngineOptions, PipelineOptions
from headrace.runners.beam.beam_private import flags_of

_NAMES = [option.name for option in declared(EngineOptions)]
_SLIP = 0.75
"""Least similarity (0 to 1) to an option of Headrace at which an undeclared option counts as its misspelling."""


class HeadraceOptions(beam.PipelineOptions):  # type: ignore[misc]  # Beam's types are not read
    """The options of Headrace's engine, and the choice of the runner below Beam's: `--headrace_runner`.

    They are written beside Beam's own, as in `--runner=headrace.runners.beam.HeadraceRunner --checkpoint=PLACE`;
    `headrace options` explains all of them.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--headrace_runner",
            default=None,
            metavar="NAME",
            help="LocalRunner (in memory) or SparkRunner; else HEADRACE_RUNNER decides, else it is Spark",
        )
        EngineOptions._add_argparse_args(parser)  # noqa: SLF001  # the hook of all option classes, also Beam's


def engine_options(options: beam.PipelineOptions) -> PipelineOptions:
    """The options of Headrace's own pipeline. Beam has checked types and triggers when the pipeline was built."""
    view = options.view_as(HeadraceOptions)
    values = {name: getattr(view, name) for name in _NAMES}
    given = {name: value for name, value in values.items() if value is not None}
    return PipelineOptions([], pipeline_type_check=False, allow_unsafe_triggers=True, **given)


def refuse_misspelt(options: beam.PipelineOptions) -> None:
    """Raise ValueError for an option that nobody declares and that looks like one of Headrace's.

    Other undeclared options are left to Beam, which warns of them.
    """
    declared: set[str] = set()
    foreign: list[str] = []

    def look(parser: argparse.ArgumentParser) -> None:
        declared.update(action.dest for action in parser._actions)  # noqa: SLF001  # argparse has no public list
        foreign.extend(flag.partition("=")[0] for flag in parser.parse_known_args(flags_of(options))[1])

    named = options.get_all_options(add_extra_args_fn=look, retain_unknown_options=True)
    own = {*_NAMES, "headrace_runner"}
    for flag in [*foreign, *(f"--{name}" for name in sorted(named.keys() - declared))]:
        near = get_close_matches(flag.lstrip("-").replace("-", "_"), sorted(declared), 1, _SLIP)
        if flag.startswith("--") and near and near[0] in own:
            raise ValueError(
                f"there is no option {flag}; did you mean --{near[0]}? Nothing has run. `headrace options` lists the "
                "options of Headrace; a class of your own declares more in _add_argparse_args"
            )


def runtime_values(options: beam.PipelineOptions) -> dict[str, object]:
    """Option name -> value, for the options that were given and that are plain values, as Beam sends them to workers.

    `RuntimeValueProvider` looks values up here.
    """
    given = options.get_all_options(drop_default=True, retain_unknown_options=True)
    values = {name: _provided(value) for name, value in given.items()}
    return {name: value for name, value in values.items() if value is not None and _is_plain(value)}


def _provided(value: object) -> object:
    if isinstance(value, ValueProvider):
        return value.get() if isinstance(value, StaticValueProvider) else None
    return value


def _is_plain(value: object) -> bool:
    """Whether JSON could hold a value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
