"""Hooks of the program's that nothing would call: a misspelt name, or one method of a protocol without the others.

A source, a sink or a `DoFn` may leave out most hooks, so `commited` or `finish_bundel` is a method like any other to
Python, and a sink with `begin` and without `finish`, whose class has no base of ours, is no `BeginningSink`. Both are
told by a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

_log = logging.getLogger(__name__)
_LEAST_LIKENESS = 0.82
"""Share of the letters that a misspelt name has in common with the hook, in their order, as `difflib` counts it: six
letters of which two are exchanged, or four with one too many, are still the same name."""
_OURS = "headrace", "apache_beam", "builtins", "typing"


def warn_of_uncalled_hooks(
    role: str, given: object, hooks: frozenset[str] = frozenset(), protocols: Iterable[type] = ()
) -> None:
    """Log a warning for each hook that nothing will call.

    Args:
        role: What the object is, for the message, such as "sink 'files'".
        given: The object.
        hooks: The names of hooks that it may have beside the methods of its base classes that are Headrace's.
        protocols: Protocols whose hooks are called only if all of them are there.
    """
    for name, hook in misspelt_hooks(given, hooks).items():
        _log.warning(
            "%s is a %s, whose method %s nothing calls; if it is meant to be %s, rename it",
            *(role, type(given).__qualname__, name, hook),
        )
    for protocol, missing in _incomplete(given, protocols):
        _log.warning(
            "%s is a %s, which has %s and no %s, so that neither is called; define both, as %s says",
            *(role, type(given).__qualname__, _words(_methods(protocol) - missing), _words(missing), protocol.__name__),
        )


def misspelt_hooks(given: object, hooks: frozenset[str]) -> dict[str, str]:
    """Methods of an object's class that nothing calls -> the hook that is likely to be meant.

    A hook that the class defines is not meant by another name, so `plans` beside `plan` is a method of its own.

    >>> source = type("Source", (), {"__module__": "program", "plan": print, "plans": print, "runEnded": print})
    >>> misspelt_hooks(source(), frozenset({"plan", "run_ended"}))
    {'runEnded': 'run_ended'}
    """
    kinds = type(given).__mro__
    ours = [kind for kind in kinds if kind.__module__.partition(".")[0] in _OURS]
    theirs = [kind for kind in kinds if kind not in ours]
    own = frozenset[str]().union(*map(_methods, theirs))
    known = hooks.union(*map(_methods, ours))
    undefined = {_plain(hook): hook for hook in sorted(known - own)}
    meant = {
        name: get_close_matches(_plain(name), undefined, n=1, cutoff=_LEAST_LIKENESS) for name in sorted(own - known)
    }
    return {name: undefined[match] for name, matches in meant.items() for match in matches}


def hooks_of(*protocols: type) -> frozenset[str]:
    """The public methods of protocols, inherited ones among them."""
    return frozenset[str]().union(*(_methods(each) for protocol in protocols for each in protocol.__mro__))


def _incomplete(given: object, protocols: Iterable[type]) -> Iterator[tuple[type, frozenset[str]]]:
    """Protocols of which an object has some methods of their own -> the methods that are missing."""
    for protocol in protocols:
        missing = frozenset(name for name in hooks_of(protocol) if not hasattr(given, name))
        if missing and any(hasattr(given, name) for name in _methods(protocol)):
            yield protocol, missing


def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for name, value in vars(kind).items() if callable(value) and not name.startswith("_"))


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _words(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
