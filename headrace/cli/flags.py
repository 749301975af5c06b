"""Options of a pipeline on the command line, written as anywhere else: `--name=value`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from typer.core import TyperCommand


class PipelineCommand(TyperCommand):
    """A command that takes its own options, and those of the pipeline beside them."""

    # Typer's click is a part of itself in newer releases and a package of its own for older ones.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Hand the pipeline's options on as `--option`s."""
        own = {name: not getattr(each, "is_flag", False) for each in self.params for name in each.opts}
        off = {name for each in self.params for name in getattr(each, "secondary_opts", ())}
        if "--option" in own:
            args = list(with_options(args, [name for name, takes in own.items() if takes], {*own, *off, "--help"}))
        return super().parse_args(ctx, args)


def with_options(args: Sequence[str], taking: Collection[str], own: Collection[str]) -> Iterator[str]:
    """Arguments of a command, with the flags that are not its own as `--option`s.

    Args:
        args: As they were given.
        taking: The command's own options that take a value.
        own: All of its own options.

    >>> list(with_options(["run.py", "--latency_aim=5", "--intervals", "4", "-o", "record"], ["-o"], ["-o"]))
    ['run.py', '--option=latency_aim=5', '--option=intervals=4', '-o', 'record']
    """
    from headrace.sdk.options import any_option

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
        # Whether it has a value behind it is known of declared options; of others, as a command has one argument only.
        follows = rest and not value and not rest[0].startswith("-")
        takes = pipeline.takes_value(name)
        if follows and (takes or (takes is None and has_target)):
            arg = f"{arg}={rest.pop(0)}"
        yield f"--option={arg[2:]}"
