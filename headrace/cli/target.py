"""What `MODULE:PIPELINE` names: a pipeline, a topology, or a function that makes one."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from traceback import StackSummary, TracebackException
from types import ModuleType
from typing import cast

import headrace
from headrace.cli.ending import MisuseError
from headrace.lowlevel.topology import Topology
from headrace.sdk.knownoptions import check_known
from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline import Pipeline

DEFAULT = "pipeline"
"""The name looked for where none is given."""

Program = Pipeline | Topology


def load(target: str, runner: str | None, flags: Sequence[str]) -> Program:
    """The pipeline or topology that `MODULE:NAME` names.

    `MODULE` is a module's name or a path to a file; it is looked for in the current folder first. `NAME` is a
    `Pipeline`, a `Topology`, a function of no parameters that returns one, or a function that is given a new `Pipeline`
    and applies its steps.

    Raises:
        MisuseError: There is no such thing.
    """
    where, _, name = target.rpartition(":") if _has_name(target) else (target, "", DEFAULT)
    # As where the file itself is run: a program that looks there finds the pipeline's options.
    sys.argv = [where, *flags]
    module = _module(where)
    found = getattr(module, name, None)
    if found is None:
        raise MisuseError(f"{where} has no {name!r}; {_offered(module, where)}")
    program = _made(found, target, runner, flags)
    try:
        check_known(program.options if isinstance(program, Pipeline) else PipelineOptions(list(flags)))
    except ValueError as error:
        raise MisuseError(str(error)) from error
    if isinstance(program, Pipeline):
        program.runner = runner or program.runner
        if not program.steps:
            raise MisuseError(f"{target} is a pipeline without steps; apply a transform to it first")
    return program


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """What the program raises while it is made, shown where it stands in the program."""
    try:
        yield
    except (MisuseError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise MisuseError(_failure(error, what)) from error


def _failure(error: Exception, what: str) -> str:
    told = TracebackException.from_exception(error)
    # Where it went from there on inside the packages tells nobody anything.
    told.stack = StackSummary.from_list([frame for frame in told.stack if not _is_library(frame.filename)])
    return f"{what} cannot be made into a pipeline; nothing has run\n{''.join(told.format(chain=False)).strip()}"


def _is_library(filename: str) -> bool:
    here = str(Path(headrace.__file__).resolve().parents[1])
    return filename.startswith(("<frozen", here, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")))


def _has_name(target: str) -> bool:
    return ":" in target.rpartition(os.sep)[2]


def _module(where: str) -> ModuleType:
    folder = str(Path.cwd())
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise MisuseError(f"there is no file {where}; name a module, or a path to its file")
        folder, where = str(path.resolve().parent), path.stem
    # As Python itself does for a script: what stands beside it can be imported, also by the workers.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with _telling(where):
            return import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            if Path(where).is_file():
                raise MisuseError(f"{where} is no Python file: its name does not end in .py") from error
            raise MisuseError(
                f"there is no module {where!r}, neither in {folder} nor among the installed packages; go to the folder "
                "that it is in, or give the path to its file"
            ) from error
        raise MisuseError(_failure(error, where)) from error


def _offered(module: ModuleType, where: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Pipeline | Topology)]
    names += [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not names:
        return f"define a function pipeline(pipeline) in it, or a Pipeline of that name, and give {where}:NAME"
    return f"it has {', '.join(names)}: give {where}:NAME"


def _made(found: object, target: str, runner: str | None, flags: Sequence[str]) -> Program:
    if isinstance(found, Pipeline):
        found.options.add_flags(flags)
        return found
    if isinstance(found, Topology):
        return found
    if not callable(found):
        raise MisuseError(
            f"{target} is of type {type(found).__name__}; name a Pipeline, a Topology, or a function that makes one"
        )
    return _called(cast("Callable[..., object]", found), target, runner, flags)


def _called(build: Callable[..., object], target: str, runner: str | None, flags: Sequence[str]) -> Program:
    wanted = [
        parameter
        for parameter in inspect.signature(build).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(wanted) > 1:
        names = ", ".join(parameter.name for parameter in wanted)
        raise MisuseError(f"{target} takes {len(wanted)} arguments ({names}); it should take a pipeline, or nothing")
    if wanted:
        pipeline = Pipeline(runner, PipelineOptions(list(flags)))
        with _telling(target):
            made = build(pipeline)
        return made if isinstance(made, Pipeline | Topology) else pipeline
    with _telling(target):
        made = build()
    if not isinstance(made, Pipeline | Topology):
        raise MisuseError(
            f"{target}() returned {type(made).__name__}; return a Pipeline or a Topology, or take the pipeline as a "
            "parameter and apply the steps to it"
        )
    return _made(made, target, runner, flags)
