"""Accepts the options of a pipeline, written as `--name=value`, beside a command's own options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from typer.core import TyperCommand


class PipelineCommand(TyperCommand):
    """A command that takes options of the pipeline in addition to its own."""

    # Newer releases of typer contain click; older ones use the package.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn options of the pipeline into `--option` arguments."""
        own = {name: not getattr(each, "is_flag", False) for each in self.params for name in each.opts}
        args = list(_with_usual_values(args, own))
        off = {name for each in self.params for name in getattr(each, "secondary_opts", ())}
        if "--option" in own:
            args = list(with_options(args, [name for name, takes in own.items() if takes], {*own, *off, "--help"}))
        return super().parse_args(ctx, args)


_USUAL = {"--ui": "8765"}
"""Options of commands that may stand without a value, and the value that they then have."""
_ADDRESS = re.compile(r"(\S+:)?\d+")


def _with_usual_values(args: Sequence[str], own: Collection[str]) -> Iterator[str]:
    """Yield the arguments of a command, with the usual value behind an option that stands without one.

    >>> list(_with_usual_values(["--ui", "run.py"], ["--ui"])), list(_with_usual_values(["--ui", "80"], ["--ui"]))
    (['--ui=8765', 'run.py'], ['--ui', '80'])
    """
    for arg, following in zip_longest(args, args[1:], fillvalue=""):
        is_alone = arg in _USUAL and arg in own and not _ADDRESS.fullmatch(following)
        yield f"{arg}={_USUAL[arg]}" if is_alone else arg


def with_options(args: Sequence[str], taking: Collection[str], own: Collection[str]) -> Iterator[str]:
    """Yield the arguments of a command, with flags of the pipeline turned into `--option` arguments.

    Args:
        args: The arguments as given on the command line.
        taking: The options of the command itself that take a value.
        own: All options of the command itself.

    >>> list(with_options(["run.py", "--latency_aim=5", "--intervals", "4", "-o", "record"], ["-o"], ["-o"]))
    ['run.py', '--option=latency_aim=5', '--option=intervals=4', '-o', 'record']
    """
    from headrace.options.pipeline_options import any_option

    pipeline = any_option()
    rest, has_target = list(args), False
    while rest:
        arg = rest.pop(0)
        name, equals, value = arg.partition("=")
        if name not in own and name.replace("_", "-") in own:
            name = name.replace("_", "-")
            arg = name + equals + value
        if name in own or not arg.startswith("--") or arg == "--":
            has_target = has_target or not arg.startswith("-")
            yield arg
            if name in taking and not value and rest:
                yield rest.pop(0)
            continue
        # Declared options say whether a value follows. After another option, a text is a value if the only argument of
        # the command, its target, was given before.
        follows = rest and not value and not rest[0].startswith("-")
        takes = pipeline.takes_value(name)
        if follows and (takes or (takes is None and has_target)):
            arg = f"{arg}={rest.pop(0)}"
        yield f"--option={arg[2:]}"
