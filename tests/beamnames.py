"""Compares the names of Apache Beam with those of Headrace, module by module.

    python -m tests.beamnames      writes the table of docs/guide/from-beam.md and the lists of names anew; `--check`
                                   only tells whether they are up to date

A name is the same if each argument that Beam takes is taken at the same place, under the same name and with the same
default, and if a class has what Beam's has. Arguments and methods that only Headrace has do not count.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import apache_beam

from headrace import ptransform_fn
from headrace.absent_names.absent_modules import RENAMED, AbsentModule
from headrace.absent_names.absent_name import alternative_to

ROOT = Path(__file__).parents[1]
BEAM = Path(apache_beam.__path__[0])
PAGE = ROOT / "docs/guide/from-beam.md"
LIST = ROOT / "headrace/absent_names/names_of_beam.json"
BEGIN, END = "<!-- made by python -m tests.beamnames -->", "<!-- end of the table -->"
_SINGLE = ("error", "pipeline", "pvalue")
_PACKAGES = ("coders", "io", "metrics", "options", "testing", "transforms", "typehints", "utils")
_WHOLE = ("dataframe", "internal", "ml", "portability", "runners", "tools", "yaml")
"""Packages of Beam that have one row in the table."""
_NO_MODULE = re.compile(r"_test$|_perf|_pb2|microbenchmark|^benchmarks$|^load_tests$|^test_data$")
_USED_BY_BEAM = """
ApplyPartitionFnFn DoFnProcessParams PipelineContext ReifyWindows WindowIntoFn as_read combine_op commit decode_nested
encode_nested finalize from_encoded_byte from_payload from_proto get_accumulator_coder get_continuation_trigger
get_function_arguments get_impl get_local_namespace get_output_type get_restriction_coder infer_batch_converters
is_compat_version_prior_to is_kv_coder is_late key_coder make_fn may_lose_data merge_compatible_environments
on_element outer_namespace prefetch register_pickle_urn register_structured_urn register_urn replace_all
replace_named_inputs replace_named_outputs requires_keyed_input reset runner_implemented_transforms service
side_inputs to_proto type_check_inputs type_check_inputs_or_outputs type_check_outputs value_coder version_tag
"""
_OF_BEAM_ALONE = frozenset(_USED_BY_BEAM.split())
"""Methods of Beam's classes that its own machinery calls."""
_OF_THE_MACHINERY = re.compile(r"^_|runner_api|^[A-Z]+_TAG$|^URN|^Delegating")
"""Members of Beam's classes that its own machinery uses."""
_BASES = frozenset({"Coder", "CombineFn", "DoFn", "PTransform", "PipelineOptions", "TriggerFn", "WindowFn"})
"""Classes whose members are compared once, and not for each subclass."""
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Row(NamedTuple):
    """A row of the table."""

    module: str
    names: tuple[str, ...]
    here: str


# --- What Beam has


@cache
def beam_modules() -> tuple[str, ...]:
    """Paths of Beam's modules, without its tests and the modules that are generated for protocols."""
    paths = sorted(path.relative_to(BEAM).with_suffix("") for path in BEAM.rglob("*.py"))
    modules = [path.parent.parts if path.name == "__init__" else path.parts for path in paths]
    wanted = {*_SINGLE, *_PACKAGES, *_WHOLE}
    return tuple(
        ".".join(parts) for parts in modules if parts and parts[0] in wanted and not any(map(_NO_MODULE.search, parts))
    )


def is_here(module: str) -> bool:
    """Whether Headrace has a module of this path."""
    found = ROOT.joinpath("headrace", *module.split("."))
    return found.with_suffix(".py").is_file() or (found / "__init__.py").is_file()


def stated_names(module: str) -> list[str]:
    """The public names of a module of Beam: its `__all__`, else the functions and classes that its source defines."""
    defined = [node.name for node in _body(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return _stated_all(module) or sorted({name for name in defined if not name.startswith("_")})


def _stated_all(module: str) -> list[str]:
    """`__all__` of a module of Beam, read from its source, as some modules need packages that are not installed."""
    for node in _body(module):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted({str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)})
    return []


def _body(module: str) -> list[ast.stmt]:
    file = BEAM.joinpath(*module.split("."))
    source = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return ast.parse(source.read_text(encoding="utf-8")).body if source.is_file() else []


def all_names(module: ModuleType) -> list[str]:
    """Every name that a program may import from a module of Beam: also what the module itself imports from Beam."""
    named = getattr(module, "__all__", ())
    return sorted(name for name, value in vars(module).items() if name in named or _is_beams(name, value))


def _is_beams(name: str, value: object) -> bool:
    if name.startswith("_") or name == "apache_beam":
        return False
    path = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or type(value).__module__
    return str(path).startswith("apache_beam.") and "_pb2" not in name


# --- How it differs here


def difference(beams: object, ours: object) -> str:
    """How a class, function or constant of Headrace differs from Beam's; empty where it does not."""
    found: list[str] = []
    if callable(beams) and callable(ours) and not _is_enumeration(beams):
        found += _differences(_parameters(beams), _parameters(ours))
    if inspect.isclass(beams) and (missing := sorted(_missing_members(beams, ours))):
        found.append(f"no {_code(missing)}")
    return "; ".join(found)


def _is_enumeration(kind: object) -> bool:
    return inspect.isclass(kind) and not isinstance(inspect.getattr_static(kind, "__init__", None), type(_parameters))


def _parameters(function: object) -> list[inspect.Parameter]:
    try:
        parameters = [*inspect.signature(function).parameters.values()]  # type: ignore[arg-type] - it may not be callable
    except (TypeError, ValueError):
        return []
    # A function that `ptransform_fn` made a transform of is applied to its first argument, and takes the others.
    return parameters[1:] if inspect.isfunction(function) and _is_of_ptransform_fn(function) else parameters


def _is_of_ptransform_fn(function: Callable[..., object]) -> bool:
    decorators = (ptransform_fn, apache_beam.ptransform_fn)
    return any(function.__code__ is decorator(_differences).__code__ for decorator in decorators)


def _differences(beams: Sequence[inspect.Parameter], ours: Sequence[inspect.Parameter]) -> Iterator[str]:
    given = {each.name: (place, each) for place, each in enumerate(ours) if each.kind in _NAMED}
    wanted = [(place, each) for place, each in enumerate(beams) if each.kind in _NAMED]
    if not wanted or not beams:
        return
    if absent := [each.name for _, each in wanted if each.name not in given]:
        yield f"no argument {_code(absent)}"
    common = [(place, each, *given[each.name]) for place, each in wanted if each.name in given]
    by_place = [each.name for place, each, there, our in common if _is_positional(each) and not _is_positional(our)]
    if by_place:
        yield f"{_code(by_place)} only by name"
    both = [(place, each, there) for place, each, there, our in common if _is_positional(each) and _is_positional(our)]
    if moved := [each.name for place, each, there in both if place != there]:
        yield f"{_code(moved)} at another place"
    if defaults := [each.name for _, each, _, our in common if not _same_default(each.default, our.default)]:
        yield f"another default of {_code(defaults)}"


def _is_positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind is not inspect.Parameter.KEYWORD_ONLY


def _same_default(beams: object, ours: object) -> bool:
    """Whether defaults are equal, or stand for the same: functions, and objects of classes of the same name."""
    if beams is inspect.Parameter.empty or ours is inspect.Parameter.empty:
        return beams is ours
    same_kind = type(beams).__name__ == type(ours).__name__ and type(beams).__module__ != "builtins"
    return beams == ours or (callable(beams) and callable(ours)) or same_kind


def _missing_members(beams: type, ours: object) -> Iterator[str]:
    """What programs use of a class of Beam and our class has not, without what the base class has not either."""
    bases = [base for base in beams.__mro__ if base.__module__.startswith("apache_beam.")]
    members = {name for base in bases for name in vars(base)}
    inherited = {name for base in bases[1:] if base.__name__ in _BASES for name in dir(base)}
    for name in members - inherited - _OF_BEAM_ALONE:
        if not _OF_THE_MACHINERY.search(name) and not hasattr(ours, name):
            yield name


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- What is written


def rows() -> Iterator[Row]:
    """The rows of the table, by module."""
    for module in beam_modules():
        if is_here(module) and (names := stated_names(module)):
            yield from _rows_of(module, names)
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in beam_modules():
        package = module.partition(".")[0]
        if is_here(module) or package in _WHOLE or module.count(".") > 1:
            continue
        here = f"absent: {alternative_to(module)}"
        if (names := _stated_all(module)) and not alternative_to(module).startswith("it is a part"):
            yield Row(module, tuple(names), here)
        else:
            grouped[package, here].append(module)
    for (_, here), modules in grouped.items():
        yield Row("`, `".join(modules), (), here)
    for module in _WHOLE:
        if module != "runners":
            yield Row(module, (), f"absent: {alternative_to(module)}")


def _rows_of(module: str, names: Iterable[str]) -> Iterator[Row]:
    beams, ours = _both(module)
    groups: dict[str, list[str]] = defaultdict(list, {"same": []})
    for name in names:
        if name not in vars(ours):
            here = f"absent: {alternative_to(f'{module}.{name}')}"
        else:
            how = difference(getattr(beams, name), getattr(ours, name))
            here = f"different: {how}" if how else "same"
        groups[here].append(name)
    for here, group in groups.items():
        if group:
            yield Row(module, tuple(group), here)


def table() -> str:
    """The table as Markdown."""
    lines = [f"| `{row.module}` | {_code(row.names) or 'all'} | {row.here} |" for row in rows()]
    return "\n".join([BEGIN, "", "| module | names | here |", "|---|---|---|", *lines, "", END])


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    return f"{text[: text.index(BEGIN)]}{table()}{text[text.index(END) + len(END) :]}"


def absent_modules() -> dict[str, list[str]]:
    """Path of a package of Beam -> its modules that are absent here."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in beam_modules():
        if not is_here(module):
            parent, _, name = module.rpartition(".")
            found[parent].append(name)
    return dict(found)


def absent_names() -> dict[str, list[str]]:
    """Path of a module, empty for the package itself -> the names that Beam's has and ours has not."""
    found: dict[str, list[str]] = {}
    imported = imported_names()
    for module in ("", *filter(is_here, beam_modules())):
        beams, ours = _both(module)
        renamed = (path for path in RENAMED if path.rpartition(".")[0] == module)
        elsewhere = {path.rpartition(".")[2] for path in (*imported.get(module, ()), *renamed)}
        there = {*vars(ours), *_own_names(ours), *elsewhere}
        missing = [name for name in all_names(beams) if name not in there]
        if missing := [name for name in missing if not inspect.ismodule(vars(beams)[name])]:
            found[module] = missing
    return found


def imported_names() -> dict[str, list[str]]:
    """Path of a module -> paths of names that Beam's module imports from elsewhere, and that are here elsewhere."""
    here = ["", *filter(is_here, beam_modules())]
    modules = {module: _both(module) for module in here}
    places: dict[int, str] = {}
    for module, (beams, ours) in modules.items():
        places[id(beams)] = module
        for name in vars(beams).keys() & _own_names(ours):
            value = vars(beams)[name]
            if _is_beams(name, value) and getattr(value, "__module__", None) == beams.__name__:
                places[id(value)] = f"{module}.{name}"
    found: dict[str, list[str]] = {}
    for module, (beams, ours) in modules.items():
        there = {*vars(ours), *_own_names(ours)}
        wanted = {name: places.get(id(value)) for name, value in vars(beams).items() if name not in there}
        targets = [place for name, place in wanted.items() if place and place.rpartition(".")[2] == name]
        if targets := sorted(place for place in targets if place.rpartition(".")[0] != module):
            found[module] = targets
    return found


def _both(module: str) -> tuple[ModuleType, ModuleType]:
    """The module of a path of Beam's, and ours."""
    path = f".{module}".rstrip(".")
    return importlib.import_module(f"apache_beam{path}"), importlib.import_module(f"headrace{path}")


def _own_names(module: ModuleType) -> set[str]:
    return {*getattr(module, "__all__", ())}


def lists() -> str:
    """The lists of names, as JSON."""
    found = {"absent_modules": absent_modules(), "absent_names": absent_names(), "imported_names": imported_names()}
    joined = {kind: {path: " ".join(names) for path, names in sorted(its.items())} for kind, its in found.items()}
    return json.dumps(joined, indent=1) + "\n"


def written() -> dict[Path, str]:
    """The files, and what belongs into them."""
    for name, module in [*sys.modules.items()]:
        # It is in the list, and has a module of its own by now.
        if isinstance(module, AbsentModule) and is_here(name.removeprefix("headrace.")):
            del sys.modules[name]
    return {LIST: lists(), PAGE: page()}


def main(check: bool) -> str | None:
    """Write the files anew, or only tell which of them would change."""
    changed = {path: text for path, text in written().items() if path.read_text(encoding="utf-8") != text}
    if check:
        names = ", ".join(str(path.relative_to(ROOT)) for path in changed)
        return f"out of date: {names}; python -m tests.beamnames writes them, read what changes" if changed else None
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
