"""The rules of an upgrade: what a changed topology keeps, archives, restores or begins anew, and what is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, ManualInjector, Topology, TopologyChangeError
from headrace.lowlevel.checkpoint.compatibility import Consent, Name, Stored, TopologyDifference, change_of
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint, Member
from headrace.lowlevel.coders.coder import PickleCoder


class Count(Computation):
    pass


class Sum(Computation):
    pass


class Renamed(Computation):
    def state_signature(self) -> Mapping[str, str]:
        return {"class": "Count", "state coder": "PickleCoder"}


class Fields(Computation):
    def __init__(self, **aspects: str) -> None:
        self._aspects = aspects

    def state_signature(self) -> Mapping[str, str]:
        return self._aspects


class Terse(PickleCoder):
    pass


class Tersely(Count):
    state_coder = Terse()

    def state_signature(self) -> Mapping[str, str]:
        return super().state_signature() | {"class": "Count"}


class Printer(CallSink):
    pass


def topology(
    counts: Computation | None = None,
    names: Collection[str] = ("count",),
    inputs: Collection[str] = ("in",),
    injector: object = None,
    sinks: Mapping[str, CallSink] | None = None,
) -> Fingerprint:
    made = Topology()
    made.injector("in", injector or BoundedInjector([]))
    made.injector("more", BoundedInjector([]))
    for name in names:
        made.computation(name, counts or Count(), dict.fromkeys(inputs, str), [f"{name}s"])
    for name, sink in ({"out": CallSink(print)} if sinks is None else sinks).items():
        made.sink(name, "in", sink)
    return Fingerprint.of(made)


def change(
    new: Fingerprint,
    old: Fingerprint | None = None,
    consent: Consent | None = None,
    **stored: object,
) -> TopologyDifference:
    return change_of(Stored(topology=old or topology(), **stored), new, consent or Consent())


COUNT = ("computation", "count")
IN, MORE = ("injector", "in"), ("injector", "more")


def archived(*members: Member) -> dict[Name, Member]:
    return {(member.kind, member.name): member for member in members}


def member(fingerprint: Fingerprint, name: str = "count") -> Member:
    return next(one for one in fingerprint.members if one.name == name)


def test_the_same_topology_keeps_everything() -> None:
    same = change(topology())
    assert (same.kept, same.summary) == ({COUNT, IN, MORE}, "")
    assert not (same.refused or same.archived or same.added or same.restored or same.discarded or same.dropped)


@pytest.mark.parametrize(
    ("new", "summary"),
    [
        (topology(names=["count", "top"]), "computation 'top' is new"),
        (topology(inputs=["in", "more"]), "computation 'count' has inputs in, more instead of in"),
        (topology(sinks={}), "sink 'out' is gone"),
        (topology(sinks={"out": Printer(print)}), "sink 'out' is a Printer instead of a CallSink"),
        (topology(Renamed()), "computation 'count' is a Renamed instead of a Count"),
    ],
)
def test_what_is_accepted_without_a_word(new: Fingerprint, summary: str) -> None:
    accepted = change(new)
    assert (accepted.refused, accepted.summary) == ((), summary)
    assert accepted.kept == {COUNT, IN, MORE}
    accepted.require_possible("it")


REFUSED = {
    "a computation that is gone": (
        {"new": topology(names=[])},
        "computation 'count' is gone; give it its name back, or have its state and timers archived, to be restored "
        "when it comes back: --allow_removed=count",
    ),
    "another class": (
        {"new": topology(Sum())},
        "computation 'count' has class Sum instead of Count, so the stored data would lose its meaning; keep it as it "
        "was, give the step another name, or begin without the stored data: --discard_stored=count",
    ),
    "another coder": (
        {"new": topology(Tersely())},
        "computation 'count' has state coder Terse instead of PickleCoder, so",
    ),
    "an aspect that is gone": (
        {"old": topology(Fields(a="1", b="2")), "new": topology(Fields(a="1"))},
        "computation 'count' has b none instead of 2, so",
    ),
    "another kind of position": (
        {"new": topology(injector=ManualInjector())},
        "source 'in' has position ManualInjector instead of BoundedInjector, so",
    ),
    "an injector that is gone": (
        {"new": Fingerprint(tuple(one for one in topology().members if one.name != "more"), topology().levels)},
        "source 'more' is gone; give it its name back, or have its position archived, to be "
        "restored when it comes back: --allow_removed=more",
    ),
    "productions for what is gone": (
        {"new": topology(names=[]), "consent": Consent(removed=["count"]), "pending": {"count": ["in"]}},
        "productions of stream 'in' are on their way to computation 'count', which does not read it any more; run the "
        "pipeline as it was until they have arrived, or drop them: --drop_pending=count",
    ),
    "productions of a stream that is not read any more": (
        {"new": topology(inputs=["more"]), "pending": {"count": ["in", "more"]}},
        "productions of stream 'in' are on their way to computation 'count', which",
    ),
    "rows for a sink that is gone": (
        {"new": topology(sinks={}), "undelivered": ["out"]},
        "sink 'out' is gone, but committed rows may not have been delivered to the CallSink yet: those of the last "
        "epoch, and all in files that appear when the input has ended; run the pipeline with it to the end of its "
        "input, or give these rows up: --allow_removed=out",
    ),
    "rows for another sink": (
        {"new": topology(sinks={"out": Printer(print)}), "undelivered": ["out"]},
        "sink 'out' is a Printer, but committed rows",
    ),
    "what comes back as something else": (
        {"old": topology(names=[]), "new": topology(Sum()), "archived": archived(member(topology()))},
        "computation 'count' has class Sum instead of Count, so",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_with_the_difference_named(case: str) -> None:
    arguments, message = REFUSED[case]
    refused = change(**arguments)
    assert len(refused.refused) == 1
    assert refused.refused[0].startswith(message)
    with pytest.raises(TopologyChangeError) as error:
        refused.require_possible("the checkpoint there")
    assert str(error.value) == f"the checkpoint there cannot go on with the changed pipeline: {refused.refused[0]}"


@pytest.mark.parametrize(
    ("case", "consent", "attributes"),
    [
        ("a computation that is gone", Consent(removed=["count"]), {"archived": (member(topology()),)}),
        ("a computation that is gone", Consent(discarded=["count"]), {"archived": ()}),
        ("another class", Consent(discarded=["count"]), {"added": {COUNT}, "kept": {IN, MORE}}),
        ("an injector that is gone", Consent(removed=["more"]), {"archived": (member(topology(), "more"),)}),
        (
            "productions for what is gone",
            Consent(removed=["count"], pending_dropped=["count"]),
            {"dropped": {("count", "in")}},
        ),
        (
            "productions of a stream that is not read any more",
            Consent(pending_dropped=["count"]),
            {"dropped": {("count", "in")}, "kept": {COUNT, IN, MORE}},
        ),
        ("rows for a sink that is gone", Consent(removed=["out"]), {}),
        ("what comes back as something else", Consent(discarded=["count"]), {"discarded": {COUNT}, "added": {COUNT}}),
    ],
)
def test_consent_makes_it_possible(case: str, consent: Consent, attributes: dict[str, object]) -> None:
    allowed = change(**REFUSED[case][0] | {"consent": consent})
    assert allowed.refused == ()
    assert {name: getattr(allowed, name) for name in attributes} == attributes


def test_several_differences_are_all_named() -> None:
    refused = change(topology(Sum(), injector=ManualInjector()))
    assert [sentence.split(" has ")[0] for sentence in refused.refused] == ["computation 'count'", "source 'in'"]


def test_the_checkpoint_of_another_pipeline_is_told_from_that_of_a_changed_one() -> None:
    """Who takes the same place for two pipelines should not archive the state of the first."""
    ours = Topology()
    ours.injector("words", ManualInjector())
    ours.computation("length", Count(), inputs={"words": lambda word: word})
    refused = change(old=topology(), new=Fingerprint.of(ours))
    with pytest.raises(TopologyChangeError, match=r"is gone.* another pipeline needs another checkpoint$"):
        refused.require_possible("the checkpoint there")


def test_a_computation_that_comes_back_finds_its_state() -> None:
    again = change(topology(), topology(names=[]), archived=archived(member(topology())))
    assert (again.restored, again.added, again.discarded) == ({COUNT}, set(), set())
    assert again.summary == "computation 'count' is new; computation 'count' is restored from the archive"


def test_discarding_leaves_alone_what_goes_on() -> None:
    # So that an option that stays on the command line deletes nothing at the next start.
    assert change(topology(), consent=Consent(discarded=["count"])).kept == {COUNT, IN, MORE}


def test_what_stores_nothing_comes_and_goes_freely() -> None:
    gone = change(topology(names=[]), topology(Fields()))
    assert (gone.refused, gone.archived) == ((), ())


def test_ids_of_records_are_something_stored() -> None:
    def fingerprint(names: Collection[str]) -> Fingerprint:
        return topology(Fields(), names, injector=ManualInjector(record_ids=True))

    gone = change(fingerprint([]), fingerprint(["count"]))
    assert len(gone.refused) == 1
    assert change(topology(Fields(), injector=ManualInjector()), fingerprint(["count"])).refused == ()


def test_a_label_stands_for_what_is_inside_it() -> None:
    consent = Consent(removed=["Totals"])
    allowed = [
        name for name in ("Totals", "Totals/Sum", "Totals#gate", "Total", "Totals2") if consent.allows_removal(name)
    ]
    assert allowed == ["Totals", "Totals/Sum", "Totals#gate"]


def test_a_name_that_nothing_has_is_said_with_the_names_that_there_are() -> None:
    misspelt = Consent(removed=["cout", "more"], discarded=["elsewhere"])
    refused = change(topology(names=[]), consent=misspelt)
    assert len(refused.refused) == 1
    assert refused.unmatched == (
        "--allow_removed=cout names nothing that the checkpoint has; did you mean 'count'?",
        "--discard_stored=elsewhere names nothing that the checkpoint has; it has 'count', 'in', 'more', 'out'",
    )
    with pytest.raises(
        TopologyChangeError,
        match=r"'count' is gone.*--allow_removed=cout names nothing.*did you mean 'count'\? --discard",
    ):
        refused.require_possible("the checkpoint there")
    # What is archived, or has only productions that are on their way, is known.
    known = change(
        topology(names=[]),
        topology(names=[]),
        archived=archived(member(topology())),
        pending={"gone": ["in"]},
        consent=Consent(discarded=["count"], pending_dropped=["gone"]),
    )
    assert known.unmatched == ()
