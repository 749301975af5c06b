"""Loads the program that `MODULE:PIPELINE` names: a pipeline, a topology, or a function that makes one."""

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
from headrace.cli.ending import MisuseError, as_misuse
from headrace.lowlevel.class_lookup import MainProgram, declare_main_program, loading_program
from headrace.lowlevel.storage.credentials import checked
from headrace.lowlevel.topology.topology import Topology
from headrace.options.known_options import check_known
from headrace.options.pipeline_options import EngineOptions, PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline

DEFAULT = "pipeline"
"""The name of the pipeline if the target has none."""

Program = Pipeline | Topology


def load(target: str, runner: str | None, flags: Sequence[str]) -> Program:
    """Load the pipeline or topology that `MODULE:NAME` names.

    `MODULE` is the name of a module, which is searched in the current folder first, or the path of a file. `NAME` is a
    `Pipeline`, a `Topology`, a function without parameters that returns one, or a function that takes a new `Pipeline`
    and applies steps to it. A `with` block of a pipeline, in the module or in the function, does not run it, and needs
    no name if it is the only one.

    Raises:
        MisuseError: There is no such module or object, the object is not a program, it has run itself, there are
            `with` blocks of other pipelines, or an option is unknown.
    """
    with loading_program() as waiting:
        program = _program_at(target, runner, flags, waiting)
    if others := [pipeline for pipeline in waiting if pipeline is not program]:
        raise MisuseError(
            f"{target} has several pipelines in `with` blocks ({len(others) + 1}), which only Python runs, one after "
            "another; start the program with python, or move all but one into functions"
        )
    if isinstance(program, Pipeline):
        if program.result is not None:
            raise MisuseError(
                f"the pipeline of {target} has been run by the program, with its own options; leave out its run(), or "
                "start the program with python"
            )
        if not program.steps:
            raise MisuseError(f"{target} is a pipeline without steps; apply a transform to it first")
    return program


def _program_at(target: str, runner: str | None, flags: Sequence[str], waiting: Sequence[object]) -> Program:
    """The program; `waiting` gets the pipelines of `with` blocks."""
    where, _, name = target.rpartition(":") if _has_name(target) else (target, "", DEFAULT)
    # sys.argv is as if the file itself were run: a program that reads sys.argv finds the options of the pipeline.
    sys.argv = [where, *flags]
    module = _module(where)
    value = getattr(module, name, None)
    if value is None and waiting and not _has_name(target):
        value = waiting[-1]
    if value is None:
        raise MisuseError(f"{where} has no {name!r}; {_offer(module, where)}")
    program = _program_of(value, target, runner, flags, waiting)
    with as_misuse(ValueError):
        options = program.options if isinstance(program, Pipeline) else PipelineOptions(list(flags))
        check_known(options)
        if (hook := options.view_as(EngineOptions).credentials) is not None:
            checked(hook)
    if isinstance(program, Pipeline):
        program.runner = runner or program.runner
    return program


@contextmanager
def _naming_errors(what: str) -> Iterator[None]:
    """Turn an error that the program raises while it makes the pipeline into `MisuseError`, with its traceback."""
    try:
        yield
    except (MisuseError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise MisuseError(_failure(error, what)) from error


def _failure(error: Exception, what: str) -> str:
    traceback = TracebackException.from_exception(error)
    # Frames inside packages say nothing about the program.
    traceback.stack = StackSummary.from_list([frame for frame in traceback.stack if not _is_library(frame.filename)])
    return f"{what} cannot be made into a pipeline; nothing has run\n{''.join(traceback.format(chain=False)).strip()}"


def _is_library(filename: str) -> bool:
    here = str(Path(headrace.__file__).resolve().parents[1])
    return filename.startswith(("<frozen", here, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")))


def _has_name(target: str) -> bool:
    # On Windows both slashes part folders, and the letter of a drive has a colon behind it.
    return ":" in target.replace(os.altsep or os.sep, os.sep).rpartition(os.sep)[2]


def _module(where: str) -> ModuleType:
    folder = str(Path.cwd())
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise MisuseError(f"there is no file {where}; name a module, or a path to its file")
        folder, where = str(path.resolve().parent), path.stem
    if where.startswith("."):
        raise MisuseError(_not_found(where, folder))
    # Python does the same for a script: modules in its folder can be imported, also by the workers.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with _naming_errors(where):
            module = import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise MisuseError(_not_found(where, folder)) from error
        raise MisuseError(_failure(error, where)) from error
    if getattr(module, "__file__", None) is None and Path(where).is_dir():
        # Python imports any folder, as a namespace without contents.
        raise MisuseError(_not_found(where, folder))
    declare_main_program(MainProgram(where, "__main__"))
    return module


def _not_found(where: str, folder: str) -> str:
    """Why something that is no path of a Python file is no module either, and what to give instead."""
    path = Path(where)
    if path.is_file():
        return f"{where} is no Python file: its name does not end in .py"
    if path.is_dir():
        programs = sorted(str(file) for file in path.glob("*.py") if not file.name.startswith(("_", "test_")))
        return f"{where} is a folder; give a file in it{f', such as {programs[0]}' if programs else ''}"
    return (
        f"there is no module {where!r}, neither in {folder} nor among the installed packages; go to the folder that it "
        "is in, or give the path to its file"
    )


def _offer(module: ModuleType, where: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Pipeline | Topology)]
    names += [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not names:
        return f"define a function pipeline(pipeline) in it, or a Pipeline of that name, and give {where}:NAME"
    return f"it has {', '.join(names)}: give {where}:{names[0] if len(names) == 1 else 'NAME'}"


def _program_of(
    value: object, target: str, runner: str | None, flags: Sequence[str], waiting: Sequence[object]
) -> Program:
    if isinstance(value, Pipeline):
        value.options.add_flags(flags)
        return value
    if isinstance(value, Topology):
        return value
    if not callable(value):
        raise MisuseError(
            f"{target} is of type {type(value).__name__}; name a Pipeline, a Topology, or a function that makes one"
        )
    return _result_of(cast("Callable[..., object]", value), target, runner, flags, waiting)


def _result_of(
    build: Callable[..., object], target: str, runner: str | None, flags: Sequence[str], waiting: Sequence[object]
) -> Program:
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
        with _naming_errors(target):
            result = build(pipeline)
        return result if isinstance(result, Pipeline | Topology) else pipeline
    with _naming_errors(target):
        result = build()
    if not isinstance(result, Pipeline | Topology) and waiting:
        result = waiting[-1]
    if not isinstance(result, Pipeline | Topology):
        raise MisuseError(
            f"{target}() returned {type(result).__name__}; return a Pipeline or a Topology, or take the pipeline as a "
            "parameter and apply the steps to it"
        )
    return _program_of(result, target, runner, flags, waiting)
