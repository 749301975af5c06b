"""Options that nobody reads are refused, so that a slip of the pen is not taken for "no checkpoint"."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from headrace.sdk.beamoptions import BEAM_OPTIONS
from headrace.sdk.options import PipelineOptions

_log = logging.getLogger(__name__)
VARIABLES: Mapping[str, str] = {
    "HEADRACE_CALL_FUNCTIONS": "`1`: every function is called, and none is computed by column",
    "HEADRACE_CHECKPOINT": "the place of the checkpoint, where `--checkpoint` is not given",
    "HEADRACE_CHECKPOINT_KEY": "the secret that checkpoints are signed with",
    "HEADRACE_COPIES": "the folder of a host's copies of state (Spark)",
    "HEADRACE_RUNNER": "`local` or `spark`, where no runner is given",
}
"""Environment variable -> its meaning."""
_PREFIX = "HEADRACE_"
_SLIP = 0.75
"""How alike (0 to 1) names are of which one may be meant for the other, where others than ours are to be expected."""


def check_known(options: PipelineOptions, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse options that no class declares. One that Beam has, and that means nothing here, is named in a warning.

    What was only found in `sys.argv`, and variables of the environment, may be somebody else's: they are refused where
    their name is nearly that of an option.

    Raises:
        ValueError: Names each of them, and the option that is nearest.

    >>> check_known(PipelineOptions(["--chekpoint=there"]))
    Traceback (most recent call last):
      ...
    ValueError: there is no option --chekpoint; did you mean --checkpoint? Nothing has run. `headrace options` lists ...
    """
    given, found = options.refusable()
    names = options.names()
    ignored: list[str] = []
    wrong = [*_wrong(given, names, ignored), *_slips(_names(found), names), *_variables(environment)]
    if wrong:
        raise ValueError(
            f"{'; '.join(wrong)} Nothing has run. `headrace options` lists what there is; a class of your own declares "
            "more in _add_argparse_args, and a program takes its own out before: known, rest = "
            "parser.parse_known_args(), PipelineOptions(rest)"
        )
    if ignored and not options.told_of(ignored):
        _log.warning("options of Beam that have no effect here: %s", ", ".join(sorted(set(ignored))))


def _wrong(flags: Sequence[str], names: Sequence[str], ignored: list[str]) -> Iterator[str]:
    """What is wrong with each flag that nobody declares; those of Beam go to the ignored."""
    behind = False
    for flag in flags:
        if not flag.startswith("-"):
            # The value of the flag before it, if that has none yet.
            if not behind:
                yield f"{flag!r} belongs to no option; write --name=value."
            behind = False
            continue
        name = next(_names([flag]))
        behind = "=" not in flag
        if name in BEAM_OPTIONS:
            ignored.append(f"--{name}")
            continue
        near = get_close_matches(name, names, 1)
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


def _names(flags: Iterable[str]) -> Iterator[str]:
    """Names of flags, values left out."""
    for flag in flags:
        if flag.startswith("-"):
            yield flag.partition("=")[0].lstrip("-").replace("-", "_")
