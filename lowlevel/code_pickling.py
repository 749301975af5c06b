"""Pickles user code for the workers; code that cannot be pickled is refused when the pipeline is built."""

from __future__ import annotations

import functools
import importlib
import io
import itertools
import os
import sys
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NewType, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import cloudpickle

from headrace.lowlevel.class_lookup import MAIN
from headrace.lowlevel.errors import HeadraceError

T = TypeVar("T")
_PROCESS = os.urandom(16)
"""Tells this process from others, which unpickle what it has pickled."""
_DEEPEST = 4
"""Greatest number of parts that an error names, from the code to what cannot be pickled."""


class ShippingError(HeadraceError, RuntimeError):
    """User code cannot be sent to the workers; raised while the pipeline is built.

    >>> import headrace as beam
    >>> numbers = (number for number in range(9))
    >>> _ = beam.Pipeline("LocalRunner") | beam.Create([1]) | "Next" >> beam.Map(lambda number: (number, numbers))
    Traceback (most recent call last):
      ...
    headrace.lowlevel.code_pickling.ShippingError: step 'Next' cannot be sent to the workers: ...
    """


def _new_lock(make: Callable[[], object], lock: object) -> tuple[object, ...]:
    return make, ()


class CodePickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # the package states no types
    """A pickler of user code, as Beam's: it pickles what is in the main program by value, and makes locks anew.

    Cached functions (`functools.lru_cache`, `cache`) and `typing.NewType` are pickled as functions are: with their
    contents, where no other process finds them by name. Descriptors of Protocol Buffers and absl's `FLAGS` stand for
    those of the process that unpickles them, see `registered`.

    Args:
        file: Where the bytes are written.
    """

    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap(
        {type(make()): functools.partial(_new_lock, make) for make in (threading.Lock, threading.RLock)},
        cloudpickle.CloudPickler.dispatch_table,
    )

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.main_names: set[str] = set()
        """Global names of the main program that functions may look up in the module `__main__`."""

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler`."""
        if isinstance(obj, types.FunctionType):
            self._look_for_main(obj.__code__)
        elif isinstance(obj, types.CodeType):
            make, parts = self.dispatch_table[types.CodeType](obj)
            # From 3.1.3 on, cloudpickle leaves the file out, by which tracebacks and expressions find the source.
            return (make, parts) if obj.co_filename in parts else (_code_of_file, (obj.co_filename, make, parts))
        elif isinstance(obj, functools._lru_cache_wrapper) and not _is_found_by_name(obj):
            parameters = obj.cache_parameters()
            return _cached, (_PROCESS, _number(obj), obj.__wrapped__, parameters["maxsize"], parameters["typed"])
        elif isinstance(obj, NewType) and not _is_found_by_name(obj):
            return _new_type, (_PROCESS, _number(obj), obj.__name__, obj.__module__, obj.__supertype__)
        elif (reduced := registered(obj)) is not None:
            return reduced
        return super().reducer_override(obj)

    def _look_for_main(self, code: types.CodeType) -> None:
        if MAIN in code.co_names or MAIN in code.co_consts:
            self.main_names.update(name for name in _global_names(code) if name in vars(sys.modules[MAIN]))


def _code_of_file(file: str, make: Callable[..., types.CodeType], parts: tuple[object, ...]) -> types.CodeType:
    return make(*parts).replace(co_filename=file)


def dumps(code: object) -> bytes:
    """Pickle user code, see `CodePickler`."""
    file = io.BytesIO()
    CodePickler(file).dump(code)
    return file.getvalue()


def _is_found_by_name(obj: Any) -> bool:
    """Whether another process finds an object by its module and qualified name."""
    module = sys.modules.get(obj.__module__)
    if module is None or module.__name__ in (MAIN, *cloudpickle.list_registry_pickle_by_value()):
        return False
    found: object = module
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is obj


_numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
"""Cached function or type of this process that was pickled -> its number."""
_numbered: WeakValueDictionary[int, object] = WeakValueDictionary()
_next_number = itertools.count()


def _number(obj: object) -> int:
    number = _numbers.setdefault(obj, next(_next_number))
    _numbered[number] = obj
    return number


def _cached(process: bytes, number: int, function: Callable[..., object], maxsize: int | None, typed: bool) -> object:
    known = _numbered.get(number) if process == _PROCESS else None
    return known or functools.lru_cache(maxsize, typed)(function)


def _new_type(process: bytes, number: int, name: str, module: str, supertype: object) -> object:
    if process == _PROCESS and (known := _numbered.get(number)) is not None:
        return known
    make: Callable[[str, object], NewType] = NewType
    made = make(name, supertype)
    made.__module__ = module
    return made


def shipped(code: T, step: str) -> T:
    """A copy of user code as the workers receive it; later changes to captured variables do not affect the copy.

    Raises:
        ShippingError: The code cannot be pickled; the message names the step and the variable.

    >>> numbers = (number for number in range(9))
    >>> shipped(lambda x: (x, numbers), "Pair")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.code_pickling.ShippingError: step 'Pair' cannot be sent to the workers: the global variable ...
    """
    try:
        return cast(T, cloudpickle.loads(dumps(code)))
    except Exception as error:
        raise ShippingError(_message(code, step, error)) from error


class Portable:
    """A function that any pickler can pickle, lambdas and inner functions included, as it is pickled by value.

    Args:
        function: The function.
        name: Name for the `ShippingError` if it cannot be pickled.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(Portable(lambda number: number + 1, "next")))(1)
    2
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._function = shipped(function, name)
        self._data = dumps(self._function)
        self._name = name

    def __call__(self, *args: object) -> object:
        """Call the function."""
        return self._function(*args)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpack, (self._data, self._name)


def _unpack(data: bytes, name: str) -> Portable:
    portable = Portable.__new__(Portable)
    portable._function, portable._data, portable._name = cloudpickle.loads(data), data, name
    return portable


def _message(code: object, step: str, error: Exception) -> str:
    path = _culprit(code)
    where = " of ".join(reversed(path)) or f"{code!r:.200}"
    reason = str(error).strip().splitlines()
    return (
        f"step {step!r} cannot be sent to the workers: {where} cannot be pickled "
        f"({type(error).__name__}: {reason[0] if reason else ''}); make it in DoFn.setup(), or pass what it is made of"
    )


def _culprit(code: object) -> list[str]:
    """Descriptions of the parts that lead to the innermost part that cannot be pickled, outermost first."""
    path: list[str] = []
    seen: set[int] = set()
    part = code
    while len(path) < _DEEPEST:
        seen.add(id(part))
        found = next(
            ((name, inner) for name, inner in _parts(part) if id(inner) not in seen and not _ships(inner)), None
        )
        if found is None:
            return path
        name, part = found
        if name:
            path.append(name)
    return path


def _ships(part: object) -> bool:
    try:
        dumps(part)
    except Exception:
        return False
    return True


def _parts(code: object) -> Iterator[tuple[str, object]]:
    """Description and value of each part of an object that is pickled with it; wrappers have empty descriptions."""
    if isinstance(code, types.MethodType):
        yield "", code.__self__
        yield "", code.__func__
    elif isinstance(code, types.FunctionType):
        yield from _function_parts(code)
    elif isinstance(code, dict):
        yield from _first([(f"the item {key!r:.80}", value) for key, value in code.items()])
    elif isinstance(code, list):
        yield from _first([(f"the item {index}", value) for index, value in enumerate(code)])
    elif isinstance(code, (tuple, set, frozenset)):
        # Items have no description, as many tuples are the engine's own.
        yield from _first([("", value) for value in code])
    else:
        yield from ((f"the attribute {name!r}", value) for name, value in _attributes(code))


def _first(parts: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """A part that cannot be pickled, found by bisection, as there may be a million parts; empty for no parts."""
    while len(parts) > 1:
        half = parts[: len(parts) // 2]
        parts = parts[len(half) :] if _ships([part for _, part in half]) else half
    return parts


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    name = function.__qualname__
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"the variable {variable!r} of {name}", cell.cell_contents
        except ValueError:
            continue
    for variable in _global_names(function.__code__):
        if variable in function.__globals__:
            yield f"the global variable {variable!r} of {name}", function.__globals__[variable]
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield f"a default argument of {name}", value


def _global_names(code: types.CodeType) -> list[str]:
    """Global names that a function and its inner functions may use."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [*code.co_names, *(name for nested in inner for name in _global_names(nested))]


def _attributes(code: object) -> Iterator[tuple[str, object]]:
    if isinstance(code, type):
        yield from vars(code).items()
        return
    yield from getattr(code, "__dict__", {}).items()
    for kind in type(code).__mro__:
        for slot in getattr(kind, "__slots__", ()):
            if hasattr(code, slot):
                yield slot, getattr(code, slot)
    yield f"class {type(code).__name__}", type(code)


Reduced = tuple[Callable[..., object], tuple[object, ...]]
"""What another process calls, and with what, to get its object."""

_FINDERS = {
    "Descriptor": "FindMessageTypeByName",
    "EnumDescriptor": "FindEnumTypeByName",
    "FieldDescriptor": "FindFieldByName",
    "FileDescriptor": "FindFileByName",
    "MethodDescriptor": "FindMethodByName",
    "OneofDescriptor": "FindOneofByName",
    "ServiceDescriptor": "FindServiceByName",
}
"""Type of a descriptor of Protocol Buffers -> the method of a pool that finds it by its name."""


def registered(value: Any) -> Reduced | None:
    """How another process finds its object for a value; None for a value that is in no registry that is known here.

    A function that uses an enum of Protocol Buffers (`Color.RED`) captures a descriptor, and a function of a program
    with absl's flags often captures `FLAGS`. Neither can be pickled.

    >>> registered("text") is None
    True
    """
    rule = _RULES.get(type(value).__module__)
    return rule(value) if rule else None


def _descriptor_by_name(value: Any) -> Reduced | None:
    kind = type(value).__name__
    if kind == "EnumValueDescriptor":
        return _enum_value, (value.type, value.name)
    if kind not in _FINDERS:
        return None
    file = _file(value, kind)
    if file.pool is not _pool():
        return None
    find = "FindExtensionByName" if getattr(value, "is_extension", False) else _FINDERS[kind]
    name = value.name if value is file else value.full_name
    return _descriptor, (find, name, tuple(_definitions(file).values()))


def _file(value: Any, kind: str) -> Any:
    match kind:
        case "FileDescriptor":
            return value
        case "MethodDescriptor":
            return value.containing_service.file
        case "OneofDescriptor":
            return value.containing_type.file
        case _:
            return value.file


def _definitions(file: Any) -> dict[str, bytes]:
    """Name -> definition of a file and of all that it imports, each after those that it imports.

    They are sent as the other process may not have imported the module that was generated from the file.
    """
    found: dict[str, bytes] = {}
    for imported in file.dependencies:
        found.update(_definitions(imported))
    return found | {file.name: file.serialized_pb}


def _descriptor(find: str, name: str, definitions: tuple[bytes, ...]) -> object:
    pool = _pool()
    for definition in definitions:
        pool.AddSerializedFile(definition)
    return getattr(pool, find)(name)


def _enum_value(enum: Any, name: str) -> object:
    return enum.values_by_name[name]


def _pool() -> Any:
    return importlib.import_module("google.protobuf.descriptor_pool").Default()


def _flags_by_name(value: Any) -> Reduced | None:
    return (_flags, ()) if value is _flags() else None


def _flags() -> object:
    return importlib.import_module("absl.flags").FLAGS


_RULES: dict[str, Callable[[Any], Reduced | None]] = {
    "absl.flags._flagvalues": _flags_by_name,
    "google._upb._message": _descriptor_by_name,
    "google.protobuf.descriptor": _descriptor_by_name,
    "google.protobuf.pyext._message": _descriptor_by_name,
}
"""Module of the type of a value -> how its objects are found; the three of Protocol Buffers are its implementations."""
