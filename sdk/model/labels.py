"""Names of functions in step labels, which no change of another line of the program changes.

A function with a name is called by its name. Other functions are written between angle brackets: a lambda as its
source, a `functools.partial` with its arguments, an instance of a class with its class.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from hashlib import sha256
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import cast

from headrace.sdk.model.function_ast import definition_of, is_deep

_LETTERS, _DIGITS = 48, 8
"""The longest lambda that a label has in full, and the digits of the digest that tells longer ones apart."""
_KINDS = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""The flags of code that the text of a function decides, and not what is around it."""
_NOT_IN_LABELS = str.maketrans({"/": "÷", "#": "♯"})
"""A slash separates the labels of nested steps, a number sign those of a step's parts."""
_ADDRESS = re.compile(r"<(?:(?:\w|<\w+>)+\.)*(\w+ object|[^<>]*?) at 0x[0-9a-fA-F]+>")
"""Python's text for an object without a text of its own: with its module, and its place in memory."""
_WITHOUT_NAME = re.compile(r"<(?:lambda\b|partial |\w+ object>|function )")


def label_of(fn: object) -> str:
    """The name of a function in a step label: its default label, its name, or a text between angle brackets.

    >>> label_of(len), label_of(3), label_of(partial(round, ndigits=2))
    ('len', '3', '<partial round(ndigits=2)>')
    """
    # That of a class is for its instances.
    if not isinstance(fn, type) and (default_label := getattr(fn, "default_label", None)):
        return str(default_label())
    name = getattr(fn, "__name__", None)
    if name == "<lambda>":
        return _lambda_label(cast(FunctionType, fn))
    if isinstance(fn, partial):
        given = [argument_label(value) for value in fn.args]
        given += [f"{key}={argument_label(value)}" for key, value in fn.keywords.items()]
        return f"<partial {label_of(fn.func)}({', '.join(given)})>"
    if name:
        return str(name)
    if isinstance(fn, (set, frozenset)):
        # The order of a set of texts differs from process to process.
        return f"{{{', '.join(sorted(map(repr, fn)))}}}"
    return without_addresses(str(fn))


def place_of(fn: object) -> str:
    """The name of a function in a message: as `label_of`, but of a lambda its file and line.

    >>> place_of(len)
    'len'
    """
    if getattr(fn, "__name__", None) != "<lambda>":
        return label_of(fn)
    code = cast(FunctionType, fn).__code__
    return f"<lambda at {os.path.basename(code.co_filename)}:{code.co_firstlineno}>"


def has_function_without_name(label: str) -> bool:
    """Whether a default label contains a function without a name, so that several steps may be given it.

    >>> has_function_without_name("Map(<lambda x: x + 1>)"), has_function_without_name("Map(len)")
    (True, False)
    """
    return _WITHOUT_NAME.search(label) is not None


def without_addresses(text: str) -> str:
    """A text of Python for objects, without modules and places in memory.

    >>> without_addresses("[<__main__.Scale object at 0x7f3a51c2>]")
    '[<Scale object>]'
    """
    return _ADDRESS.sub(r"<\1>", text)


def argument_label(value: object) -> str:
    """The text of a function's argument in a label: a name, or a repr without addresses."""
    return label_of(value) if callable(value) else _shortened(without_addresses(repr(value)))


def _lambda_label(fn: FunctionType) -> str:
    tree = definition_of(fn)
    if tree is None or is_deep(tree):
        # Code differs between releases of Python, and there is nothing else to know the function by.
        return f"<lambda {_digest(repr(list(_contents(fn.__code__))))}>"
    return f"<{_shortened(ast.unparse(_FStrings().visit(deepcopy(tree)))).translate(_NOT_IN_LABELS)}>"


class _FStrings(ast.NodeTransformer):
    """Writes f-strings with one kind of quotes, as `ast.unparse` chooses them by the release of Python."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Name:
        """See `ast.NodeTransformer`."""
        return ast.Name(f'f"{self._text(node)}"')

    def _text(self, node: ast.expr) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(map(self._text, node.values))
        if isinstance(node, ast.FormattedValue):
            conversion = f"!{chr(node.conversion)}" if node.conversion > 0 else ""
            form = "" if node.format_spec is None else f":{self._text(node.format_spec)}"
            return f"{{{ast.unparse(self.visit(node.value))}{conversion}{form}}}"
        return repr(node.value)[1:-1] if isinstance(node, ast.Constant) else ast.unparse(node)


def _shortened(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - _DIGITS - 4]}... {_digest(text)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _contents(code: CodeType) -> Iterator[object]:
    """What a function does, without where it is written."""
    yield code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS
    yield code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    for constant in code.co_consts:
        yield from _contents(constant) if isinstance(constant, CodeType) else [_constant(constant)]


def _constant(value: object) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    return f"({', '.join(map(_constant, value))})" if isinstance(value, tuple) else repr(value)
