"""Checks of option names, so that a misspelt option is an error."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from headrace.options.beam_options import BEAM_OPTIONS
from headrace.options.option import names_of
from headrace.options.pipeline_options import PipelineOptions

_log = logging.getLogger(__name__)
VARIABLES: Mapping[str, str] = {
    "HEADRACE_CALL_FUNCTIONS": "`1`: call every function, and translate none to columns; `0`: translate functions also "
    "under a debugger or a coverage tool; by default they are called there",
    "HEADRACE_CHECKPOINT": "the location of the checkpoint, if `--checkpoint` is not given",
    "HEADRACE_CHECKPOINT_KEY": "the secret that checkpoints are signed with",
    "HEADRACE_CREDENTIALS": "the function that gives credentials of object stores, if `--credentials` is not given, "
    "also for commands that read a checkpoint",
    "HEADRACE_FULL_TRACEBACKS": "`1`: keep the engine's frames in tracebacks of errors",
    "HEADRACE_STATE_STORES": "the folder of a host's state stores (Spark)",
    "HEADRACE_RUNNER": "`local` or `spark`, if no runner is given",
}
"""Environment variable -> its meaning."""
_PREFIX = "HEADRACE_"
_SLIP = 0.75
"""Least similarity (0 to 1) to an option at which a name from the program's arguments counts as a misspelling."""


def check_known(options: PipelineOptions, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse options that no class declares; options of Beam that have no effect here only cause a warning.

    Arguments from `sys.argv` and environment variables may belong to other programs, so they are refused only if the
    name is close to the name of an option or variable.

    Raises:
        ValueError: The message names each refused option or variable, and the nearest known one.

    >>> check_known(PipelineOptions(["--chekpoint=there"]))
    Traceback (most recent call last):
      ...
    ValueError: there is no option --chekpoint; did you mean --checkpoint? Nothing has run. `headrace options` lists ...
    """
    given, found = options.refusable()
    names = options.names()
    ignored: list[str] = []
    wrong = [*_wrong(given, names, ignored), *_slips(names_of(found), names), *_variables(environment)]
    if wrong:
        raise ValueError(
            f"{'; '.join(wrong)} Nothing has run. `headrace options` lists what there is; a class of your own declares "
            "more in _add_argparse_args, and a program takes its own out before: known, rest = "
            "parser.parse_known_args(), PipelineOptions(rest)"
        )
    if ignored and not options.told_of(ignored):
        _log.warning("options of Beam that have no effect here: %s", ", ".join(sorted(set(ignored))))


def _wrong(flags: Sequence[str], names: Sequence[str], ignored: list[str]) -> Iterator[str]:
    """The problem with each undeclared flag; options of Beam are added to `ignored` instead."""
    behind = False
    for flag in flags:
        if not flag.startswith("-"):
            # This is the value of the flag before it, unless that flag already has a value.
            if not behind:
                yield f"{flag!r} belongs to no option; write --name=value."
            behind = False
            continue
        name = next(names_of([flag]))
        behind = "=" not in flag
        if name in BEAM_OPTIONS:
            ignored.append(f"--{name}")
            continue
        near = get_close_matches(name, names, 1)
        if name.startswith("no_") and (switched := name.removeprefix("no_")) in names:
            yield f"{name} is no keyword; --{name} as a keyword of PipelineOptions is {switched}=False."
            continue
        yield f"there is no option {flag.partition('=')[0]}{f'; did you mean --{near[0]}?' if near else '.'}"


def _slips(found: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    for name in found:
        if name not in BEAM_OPTIONS and (near := get_close_matches(name, names, 1, _SLIP)):
            yield f"there is no option --{name} (in the program's arguments, {sys.argv[0]}); did you mean --{near[0]}?"


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    known = [name.removeprefix(_PREFIX) for name in VARIABLES]
    for name in environment:
        if name.startswith(_PREFIX) and name not in VARIABLES:
            near = get_close_matches(name.removeprefix(_PREFIX), known, 1, _SLIP)
            if near:
                yield f"there is no environment variable {name}; did you mean {_PREFIX}{near[0]}?"
