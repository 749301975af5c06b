"""Compatibility of a changed topology with a checkpoint: the rules of an upgrade (MillWheel paper §3).

In the paper, computations can be added to and removed from a topology without restarting the others. Computations are
identified by name: one with the same name keeps its state and timers; one that is removed has them archived; one that
returns gets them back. A change that would lose stored data silently, or give it another meaning, is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from headrace.lowlevel.checkpoint.manifest.fingerprint import (
    COMPUTATION,
    INJECTOR,
    SINK,
    Fingerprint,
    Member,
    aspects_changed,
    has_default_name,
    is_perhaps_another,
    word_for,
)
from headrace.lowlevel.errors import TopologyChangeError
from headrace.lowlevel.sinks.sink import TapSink
from headrace.lowlevel.stored_names import public_name

Name = tuple[str, str]
"""Kind and name of a member."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The names of steps for which a user agrees to consequences of a change of topology.

    A name stands for the step with this name, and for all steps inside it.

    >>> Consent(removed={"Totals"}).allows_removal("Totals/Sum"), Consent(removed={"Totals"}).allows_removal("Total")
    (True, False)
    """

    removed: Collection[str] = ()
    """Computations, injectors and sinks that may be removed. State and positions are archived."""
    discarded: Collection[str] = ()
    """Computations and injectors whose state or position is deleted if it is archived or has lost its meaning."""
    pending_dropped: Collection[str] = ()
    """Computations whose pending productions may be dropped."""

    def allows_removal(self, name: str) -> bool:
        """Whether a member with this name may be removed."""
        return _among(name, self.removed)

    def lets_go(self, name: str) -> bool:
        """Whether a computation or an injector with this name may be removed, with or without its data."""
        return self.allows_removal(name) or self.discards(name)

    def discards(self, name: str) -> bool:
        """Whether data stored under this name may be deleted."""
        return _among(name, self.discarded)

    def drops_pending(self, name: str) -> bool:
        """Whether pending productions for this computation may be dropped."""
        return _among(name, self.pending_dropped)


def _among(name: str, names: Collection[str]) -> bool:
    return name in names or any(name.startswith((f"{other}/", f"{other}#")) for other in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The contents of a checkpoint that matter for a change of topology."""

    topology: Fingerprint
    archived: Mapping[Name, Member] = field(default_factory=dict)
    """Members in the archive."""
    pending: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Computation -> streams of its pending productions."""
    undelivered: Collection[str] = ()
    """Sinks whose rows of the last epoch may not have been delivered yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDifference:
    """A change from one topology to another, and what it does with stored data."""

    old: Fingerprint
    new: Fingerprint
    kept: frozenset[Name] = frozenset()
    """Computations and injectors that keep their state or position."""
    archived: tuple[Member, ...] = ()
    """Computations and injectors that are removed, whose state or position is kept in the archive."""
    restored: frozenset[Name] = frozenset()
    """Computations and injectors that get their state or position back from the archive."""
    discarded: frozenset[Name] = frozenset()
    """Computations and injectors whose archived state or position is deleted."""
    added: frozenset[Name] = frozenset()
    """Computations and injectors that begin without state or position."""
    dropped: frozenset[tuple[str, str]] = frozenset()
    """(computation, stream) of pending productions that no computation will receive."""
    unmatched: tuple[str, ...] = ()
    """What to say of names of the consent that nothing has."""
    refused: tuple[str, ...] = ()
    """Reasons why the change is impossible, with remedies; empty if it is possible."""

    @property
    def is_one(self) -> bool:
        """Whether the topologies differ, or data is deleted or dropped."""
        return bool(self.old.differs_from(self.new) or self.discarded or self.dropped)

    @property
    def summary(self) -> str:
        """A description of the differences, in one line; empty if there are none."""
        lines = self.old.differences(self.new)
        lines += [f"{word_for(kind)} {name!r} is restored from the archive" for kind, name in sorted(self.restored)]
        lines += [f"{member} is archived" for member in self.archived]
        lines += [f"what was stored for {word_for(kind)} {name!r} is deleted" for kind, name in sorted(self.discarded)]
        lines += [f"productions to {name!r} by {stream!r} are dropped" for name, stream in sorted(self.dropped)]
        return "; ".join(lines)

    def stays(self, computation: str) -> bool:
        """Whether a computation keeps its state."""
        return (COMPUTATION, computation) in self.kept

    def require_possible(self, subject: str) -> None:
        """Raise `TopologyChangeError` if the change is refused; `subject` names the pipeline or checkpoint."""
        if not self.refused:
            return
        reasons = [*self.refused, *self.unmatched]
        old = _with_contents(self.old).keys()
        common = old & _with_contents(self.new).keys()
        if not common:
            reasons.append(
                "No source and no keyed step of it is in this pipeline: another pipeline needs another checkpoint"
            )
        elif not {kind for kind, _ in common} & {INJECTOR} and {kind for kind, _ in old} & {INJECTOR}:
            reasons.append("No source of it is in this pipeline: if this is another pipeline, give another checkpoint")
        raise TopologyChangeError(f"{subject} cannot go on with the changed pipeline: {_sentences(reasons)}")


def _sentences(parts: Iterable[str]) -> str:
    """The parts as sentences, the last one without its full stop.

    >>> _sentences(["it is gone; did you mean 'Read'?", "another pipeline needs another checkpoint", "give one"])
    "it is gone; did you mean 'Read'? another pipeline needs another checkpoint. give one"
    """
    return " ".join(part if part.endswith("?") else f"{part}." for part in parts).removesuffix(".")


def change_of(stored: Stored, new: Fingerprint, consent: Consent) -> TopologyDifference:
    """The change from the topology of a checkpoint to another (or the same) topology."""
    old, now = _with_contents(stored.topology), _with_contents(new)
    kept, refused = set(), []
    for key in old.keys() & now.keys():
        if (reason := _unusable(old[key], now[key])) is None:
            kept.add(key)
        elif not consent.discards(key[1]):
            refused.append(reason)
    removed = [old[key] for key in old if key not in now]
    refused += [_removal(member, new) for member in removed if member.signature and not consent.lets_go(member.name)]
    refused += _undelivered(stored, new, consent)
    restored, discarded, unrestorable = _from_archive(stored.archived, now.keys() - old.keys(), now, consent)
    dropped, undeliverable = _pending(stored.pending, new, consent)
    known = {member.name for member in stored.topology.members} | {name for _, name in stored.archived}
    return TopologyDifference(
        old=stored.topology,
        new=new,
        kept=frozenset(kept),
        archived=tuple(sorted(member for member in removed if member.signature and not consent.discards(member.name))),
        restored=restored,
        discarded=discarded,
        added=frozenset(now.keys() - kept - restored),
        dropped=dropped,
        unmatched=tuple(_unmatched(consent, known | stored.pending.keys())),
        refused=tuple(sorted([*refused, *unrestorable, *undeliverable])),
    )


def _unmatched(consent: Consent, known: Collection[str]) -> Iterator[str]:
    """What to say of names that no member has, and that no member is inside of, as misspelt ones.

    >>> [*_unmatched(Consent(removed={"Totls"}, discarded={"Totals"}), ["Totals/Sum", "Visits"])]
    ["--allow_removed=Totls names nothing that the checkpoint has; did you mean 'Totals/Sum'?"]
    """
    removed, discarded, dropped = consent.removed, consent.discarded, consent.pending_dropped
    options = {"allow_removed": removed, "discard_stored": discarded, "drop_pending": dropped}
    for option, names in options.items():
        for name in sorted(names):
            if not any(_among(member, [name]) for member in known):
                near = get_close_matches(name, known, 1)
                remedy = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, sorted(known)))}"
                yield f"{_option(option, name)} names nothing that the checkpoint has; {remedy}"


def _with_contents(topology: Fingerprint) -> dict[Name, Member]:
    """(kind, name) -> member, for members that can have data in the checkpoint: computations and injectors."""
    return {(member.kind, member.name): member for member in topology.members if member.kind in (COMPUTATION, INJECTOR)}


def _from_archive(
    archived: Mapping[Name, Member], new: Collection[Name], now: Mapping[Name, Member], consent: Consent
) -> tuple[frozenset[Name], frozenset[Name], list[str]]:
    """Members to restore, members whose archived data is deleted, and reasons why others cannot be restored."""
    restored, refused = set(), []
    discarded = {key for key in archived if consent.discards(key[1])}
    for key in archived.keys() - discarded:
        if key in new:
            if (reason := _unusable(archived[key], now[key])) is None:
                restored.add(key)
            else:
                refused.append(reason)
    return frozenset(restored), frozenset(discarded), refused


def _pending(
    pending: Mapping[str, Collection[str]], new: Fingerprint, consent: Consent
) -> tuple[frozenset[tuple[str, str]], list[str]]:
    """(computation, stream) of pending productions without receiver, and a reason for each that may not be dropped."""
    readers = new.of_kind(COMPUTATION)
    lost = [
        (name, stream)
        for name, streams in pending.items()
        for stream in streams
        if name not in readers or stream not in readers[name].inputs
    ]
    refused = [_undeliverable(name, stream) for name, stream in lost if not consent.drops_pending(name)]
    return frozenset(lost), refused


def _undelivered(stored: Stored, new: Fingerprint, consent: Consent) -> Iterable[str]:
    before, after = stored.topology.of_kind(SINK), new.of_kind(SINK)
    for name in sorted(before.keys() & set(stored.undelivered)):
        same = name in after and after[name].class_name == before[name].class_name
        same = same or before[name].class_name == public_name(TapSink)
        if not same and not consent.allows_removal(name):
            change = "is gone" if name not in after else f"is a {after[name].class_name}"
            yield (
                f"{before[name]} {change}, but committed rows may not have been delivered to the "
                f"{before[name].class_name} yet: those of the last epoch, and all in files that appear when the input "
                "has ended; run the pipeline with it to the end of its input, or give these rows up: "
                f"{_option('allow_removed', name)}"
            )


def _unusable(old: Member, new: Member) -> str | None:
    """Why the data that is stored for a member cannot be that of another one with its name; None if it can."""
    if changes := aspects_changed(old, new):
        return _meaning_lost(changes, new.name)
    return _mistakable(new.name) if is_perhaps_another(old, new) else None


def _written_label(name: str) -> str:
    """The label that the program gives to the step whose function has no name, given the name of a member of it.

    >>> _written_label("CombineGlobally(<lambda values: sum(values)>)/Combine#shards")
    "'CombineGlobally(<lambda values: sum(values)>)'"
    >>> _written_label("Totals/CombinePerKey(<lambda values: sum(values)>)")
    "'CombinePerKey(<lambda values: sum(values)>)' in 'Totals'"
    """
    parts = re.split("[/#]", name)
    last = max((at for at, part in enumerate(parts) if "<" in part), default=len(parts) - 1)
    around = "/".join(parts[:last])
    return f"{parts[last]!r} in {around!r}" if around else repr(parts[last])


def _mistakable(name: str) -> str:
    return (
        f"the data stored for {name!r} may be that of another step: several steps have, or had, this default label, as "
        "their functions are alike and have no names, and since then one was added, moved, removed, or given another "
        f"input or other values; give the step that the data belongs to the label {_written_label(name)}, and the "
        f"others labels of their own, or begin without the stored data: {_option('discard_stored', name)}"
    )


def _meaning_lost(changes: Iterable[str], name: str) -> str:
    return (
        f"{', '.join(changes)}, so the stored data would lose its meaning; keep it as it was, give the step "
        f"another name, or begin without the stored data: {_option('discard_stored', name)}"
    )


def _removal(member: Member, new: Fingerprint) -> str:
    data = "its position" if member.kind == INJECTOR else "its state and timers"
    back = "give it its name back"
    parts = sorted(other.name for other in new.members if other.name.startswith(f"{member.name}/"))
    if parts:
        back = (
            f"the step of this label is another one now, made of others ({parts[0]!r}, …): undo that, such as an "
            "argument that was added"
        )
    elif has_default_name(member):
        label = _written_label(member.name)
        back = f"its label follows from its function; if only the function was edited, label the step {label}"
    elif "<lambda at " in member.name:
        back = (
            "release 0.1 made its label of the line of its function; give the step of this program that it is the "
            f"label {_written_label(member.name)}"
        )
    return (
        f"{member} is gone; {back}, or have {data} archived, to be restored when it comes back: "
        f"{_option('allow_removed', member.name)}"
    )


def _undeliverable(name: str, stream: str) -> str:
    return (
        f"productions of stream {stream!r} are on their way to computation {name!r}, which does not read it any more; "
        f"run the pipeline as it was until they have arrived, or drop them: {_option('drop_pending', name)}"
    )


def _option(option: str, name: str) -> str:
    """A command-line option, quoted for the shell."""
    return shlex.quote(f"--{option}={name}")
