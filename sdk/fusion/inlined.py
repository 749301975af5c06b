"""Functions of the user's as part of a loop: what a plain one returns stands where its call would."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TypeAlias

from headrace.sdk.source import returned_by, tree_of

_ALLOWED = (
    *(ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.keyword, ast.Starred),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.FormattedValue),
)
"""What has the same meaning in a loop as in a function: nothing that has names of its own, and nothing that waits."""
_FRAMES = {
    "locals",
    "globals",
    "vars",
    "dir",
    "eval",
    "exec",
    "super",
    "breakpoint",
    "_getframe",
    "currentframe",
    "stack",
}
"""Names of what looks at the function that it is called in."""
_LOGS = {"log", "debug", "info", "warning", "warn", "error", "exception", "critical"}
"""Names of what tells its file and line."""
_CERTAIN = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.Constant)
"""Expressions whose values are nothing but values."""

Code: TypeAlias = "tuple[bytes, str, tuple[str, ...]]"
"""Instructions, and the constants and names in them."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a function returns, as source."""

    parameters: tuple[str, ...]
    returned: str
    names: frozenset[str]
    """The global names in it."""
    code: Code
    """The function's own, by which it is known again in another process."""

    def fits(self, function: object) -> bool:
        """Whether it is the function's."""
        return isinstance(function, FunctionType) and _code_of(function) == self.code


def _code_of(function: FunctionType) -> Code:
    code = function.__code__
    return code.co_code, repr(code.co_consts), code.co_names


def body_of(function: object) -> Body | None:
    """The body of a plain function that is one expression; None if it must be called.

    >>> body_of(len) is None
    True
    """
    tree = tree_of(function)
    returned = None if tree is None else returned_by(tree)
    if tree is None or returned is None or not isinstance(function, FunctionType) or function.__closure__:
        return None
    parameters, source = tree.args, ast.unparse(returned)
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.defaults or "\n" in source:
        return None
    nodes = list(ast.walk(returned))
    own = tuple(each.arg for each in (*parameters.posonlyargs, *parameters.args))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    said = names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if not all(map(_is_allowed, nodes)) or said & (_FRAMES | _LOGS) or any(map(_is_mangled, said)):
        return None
    return Body(own, source, frozenset(names.difference(own)), _code_of(function))


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare) and any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops):
        # A tuple that is made where it is needed is not the one that was made before.
        return all(isinstance(each, ast.Constant) for each in node.comparators)
    return isinstance(node, _ALLOWED)


def _is_mangled(name: str) -> bool:
    """Whether Python takes it for another name inside a class."""
    return name.startswith("__") and not name.endswith("__")


@dataclass(frozen=True, slots=True)
class Held:
    """A value in a loop: an expression of its variables."""

    text: str
    items: tuple[str, ...] = ()
    """The variables with the items of a tuple that need not be made for being taken apart; none if it is another."""


@dataclass(frozen=True, slots=True)
class Inlined:
    """What a function returns in terms of a loop's variables."""

    text: str
    items: tuple[str, ...]
    """The expressions that are the items of the tuple that it returns; none if it returns something else."""
    is_certain: bool
    """Whether it is nothing but a value, as its form shows."""
    known: frozenset[str]
    """Expressions that are variables of the loop already."""


def inlined(body: Body, arguments: Sequence[Held], elsewhere: Mapping[str, str] | None = None) -> Inlined:
    """The body with its arguments in the places of its parameters.

    Args:
        body: The function's.
        arguments: What it gets.
        elsewhere: Expressions that stand for global names, where it is not of the loop's module.

    >>> inlined(Body(("pair",), "(pair[1], pair)", frozenset(), (b"", "", ())), [Held("(a, b)", ("a", "b"))]).text
    '(b, (a, b))'
    """
    given = {name: Held(text) for name, text in (elsewhere or {}).items()}
    given |= zip(body.parameters, arguments, strict=True)
    tree = _Placing(given).visit(ast.parse(body.returned, mode="eval").body)
    is_tuple = isinstance(tree, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in tree.elts)
    items = tuple(map(ast.unparse, tree.elts)) if is_tuple else ()
    known = frozenset(name for each in arguments for name in (each.text, *each.items) if name.isidentifier())
    return Inlined(ast.unparse(tree), items, isinstance(tree, _CERTAIN), known)


class _Placing(ast.NodeTransformer):
    """Puts arguments into the places of parameters."""

    def __init__(self, given: Mapping[str, Held]) -> None:
        self._given = given

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An item of a tuple whose items are known need not be looked up."""
        match node:
            case ast.Subscript(ast.Name(name), ast.Constant(int() as place)) if name in self._given:
                items = self._given[name].items
                if type(place) is int and 0 <= place < len(items):
                    return _expression(items[place])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A parameter."""
        return _expression(self._given[node.id].text) if node.id in self._given else node


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
