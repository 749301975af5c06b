"""What a changed topology means for what a checkpoint holds: the rules of an upgrade (MillWheel paper §3).

The paper: computations can be added to and removed from a topology without restarting the rest. Names are what stays:
a computation of the same name goes on with its state and timers, one that is gone has them archived, one that comes
back finds them again. Whatever would make something stored meaningless, or lose it unsaid, is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint.fingerprint import (
    COMPUTATION,
    INJECTOR,
    SINK,
    Fingerprint,
    Member,
    aspects_changed,
)
from headrace.lowlevel.errors import TopologyChangeError
from headrace.lowlevel.sink import TapSink

Name = tuple[str, str]
"""Kind and name of a member."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What a user agrees to with a change of topology, by name.

    A name stands for what is called so, and for whatever the steps inside a step of that label are called.

    >>> Consent(removed={"Totals"}).allows_removal("Totals/Sum"), Consent(removed={"Totals"}).allows_removal("Total")
    (True, False)
    """

    removed: Collection[str] = ()
    """Computations, injectors and sinks that may be gone. State and positions are archived."""
    discarded: Collection[str] = ()
    """Computations and injectors whose archived state or position, or one that has lost its meaning, is given up."""
    pending_dropped: Collection[str] = ()
    """Computations to which productions under way need not be delivered."""

    def allows_removal(self, name: str) -> bool:
        """Whether a member of that name may be gone."""
        return _among(name, self.removed)

    def lets_go(self, name: str) -> bool:
        """Whether a computation or an injector of that name may be gone."""
        return self.allows_removal(name) or self.discards(name)

    def discards(self, name: str) -> bool:
        """Whether what is stored under that name is given up."""
        return _among(name, self.discarded)

    def drops_pending(self, name: str) -> bool:
        """Whether productions on their way to that computation are given up."""
        return _among(name, self.pending_dropped)


def _among(name: str, names: Collection[str]) -> bool:
    return name in names or any(name.startswith((f"{other}/", f"{other}#")) for other in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a checkpoint has, as far as a change of topology is concerned."""

    topology: Fingerprint
    archived: Mapping[Name, Member] = field(default_factory=dict)
    """What was removed earlier."""
    pending: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Computation -> streams of productions that are on their way to it."""
    undelivered: Collection[str] = ()
    """Sinks whose rows of the last epoch may not have been delivered yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From one topology to another: what becomes of everything that is stored."""

    old: Fingerprint
    new: Fingerprint
    kept: frozenset[Name] = frozenset()
    """Computations and injectors that go on with what they have."""
    archived: tuple[Member, ...] = ()
    """Computations and injectors that are gone, whose state or position is kept in the archive."""
    restored: frozenset[Name] = frozenset()
    """Those that come back from it."""
    discarded: frozenset[Name] = frozenset()
    """Those whose archived state or position is deleted."""
    added: frozenset[Name] = frozenset()
    """Computations and injectors that begin with nothing."""
    dropped: frozenset[tuple[str, str]] = frozenset()
    """(computation, stream) of productions under way that nobody will receive."""
    refused: tuple[str, ...] = ()
    """What makes the change impossible, with remedies; empty if it is possible."""

    @property
    def is_one(self) -> bool:
        """Whether anything is different."""
        return bool(self.old != self.new or self.discarded or self.dropped)

    @property
    def summary(self) -> str:
        """What is different, in one line; empty if nothing is."""
        told = self.old.differences(self.new)
        told += [f"{kind} {name!r} is restored from the archive" for kind, name in sorted(self.restored)]
        told += [f"{member} is archived" for member in self.archived]
        told += [f"what was stored for {kind} {name!r} is deleted" for kind, name in sorted(self.discarded)]
        told += [f"productions to {name!r} by {stream!r} are dropped" for name, stream in sorted(self.dropped)]
        return "; ".join(told)

    def stays(self, computation: str) -> bool:
        """Whether a computation goes on with its state."""
        return (COMPUTATION, computation) in self.kept

    def require_possible(self, what: str) -> None:
        """Raise `TopologyChangeError` if it is refused; `what` names the pipeline or checkpoint that stays as it is."""
        if self.refused:
            raise TopologyChangeError(f"{what} cannot go on with the changed pipeline: {'. '.join(self.refused)}")


def change_of(stored: Stored, new: Fingerprint, consent: Consent) -> Change:
    """What it means to go on with another topology, or with the same."""
    old, now = _with_contents(stored.topology), _with_contents(new)
    kept, anew, refused = set(), set(), []
    for key in old.keys() & now.keys():
        if not (changes := aspects_changed(old[key], now[key])):
            kept.add(key)
        elif consent.discards(key[1]):
            anew.add(key)
        else:
            refused.append(_meaning_lost(changes, key[1]))
    gone = [old[key] for key in old if key not in now]
    refused += [_gone(member) for member in gone if member.signature and not consent.lets_go(member.name)]
    refused += _sinks_gone(stored, new, consent)
    back, lost, more = _from_archive(stored.archived, now.keys() - old.keys(), now, consent)
    dropped, stuck = _pending(stored.pending, new, consent)
    return Change(
        old=stored.topology,
        new=new,
        kept=frozenset(kept),
        archived=tuple(sorted(member for member in gone if member.signature and not consent.discards(member.name))),
        restored=back,
        discarded=lost,
        added=frozenset(now.keys() - kept - back),
        dropped=dropped,
        refused=tuple(sorted([*refused, *more, *stuck])),
    )


def _with_contents(topology: Fingerprint) -> dict[Name, Member]:
    """Members that have something in the checkpoint."""
    return {(member.kind, member.name): member for member in topology.members if member.kind in (COMPUTATION, INJECTOR)}


def _from_archive(
    archived: Mapping[Name, Member], new: Collection[Name], now: Mapping[Name, Member], consent: Consent
) -> tuple[frozenset[Name], frozenset[Name], list[str]]:
    """What comes back, what is deleted, and what cannot come back."""
    back, refused = set(), []
    lost = {key for key in archived if consent.discards(key[1])}
    for key in archived.keys() - lost:
        if key in new:
            if changes := aspects_changed(archived[key], now[key]):
                refused.append(_meaning_lost(changes, key[1]))
            else:
                back.add(key)
    return frozenset(back), frozenset(lost), refused


def _pending(
    pending: Mapping[str, Collection[str]], new: Fingerprint, consent: Consent
) -> tuple[frozenset[tuple[str, str]], list[str]]:
    """Productions that nobody would receive: those that may be dropped, and a sentence for each other."""
    readers = new.of_kind(COMPUTATION)
    lost = [
        (name, stream)
        for name, streams in pending.items()
        for stream in streams
        if name not in readers or stream not in readers[name].inputs
    ]
    stuck = [_undeliverable(name, stream) for name, stream in lost if not consent.drops_pending(name)]
    return frozenset(lost), stuck


def _sinks_gone(stored: Stored, new: Fingerprint, consent: Consent) -> Iterable[str]:
    before, after = stored.topology.of_kind(SINK), new.of_kind(SINK)
    for name in sorted(before.keys() & set(stored.undelivered)):
        same = name in after and after[name].class_name == before[name].class_name
        same = same or before[name].class_name == TapSink.__qualname__
        if not same and not consent.allows_removal(name):
            what = "is gone" if name not in after else f"is a {after[name].class_name}"
            yield (
                f"{before[name]} {what}, but what the last epoch put out may not have been delivered to the "
                f"{before[name].class_name} yet; run the pipeline with it once more, or give those rows up: "
                f"{_option('allow_removed', name)}"
            )


def _meaning_lost(changes: Iterable[str], name: str) -> str:
    return (
        f"{', '.join(changes)}, so what is stored would lose its meaning; keep it as it was, give the step another "
        f"name, or begin it with nothing: {_option('discard_stored', name)}"
    )


def _gone(member: Member) -> str:
    what = "where it had got to in its input" if member.kind == INJECTOR else "its state and timers"
    return (
        f"{member} is gone; give it its name back, or have {what} archived, to be restored when it comes back: "
        f"{_option('allow_removed', member.name)}"
    )


def _undeliverable(name: str, stream: str) -> str:
    return (
        f"productions of stream {stream!r} are on their way to computation {name!r}, which does not read it any more; "
        f"run the pipeline as it was until they have arrived, or drop them: {_option('drop_pending', name)}"
    )


def _option(option: str, name: str) -> str:
    """The option as it is written on the command line."""
    return shlex.quote(f"--{option}={name}")
