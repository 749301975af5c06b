"""What: joins of collections on fields with equal values (Beam's `Join` and `CoGroup` of schema transforms)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import cast

from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.records.column_batch import ValueSchema, pair
from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.expressions.batch_view import BatchView, PairFunction
from headrace.sdk.expressions.join_keys import JoinKeyOf, key_in
from headrace.sdk.functions.changelog import FromChanges
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.matched import Matched
from headrace.sdk.functions.time_joins import AsOfJoin, IntervalJoin, JoinPlan, TimeJoin
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.row import Row
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.sdk.transforms.core.par_do import FlatMapTuple, Map, ParDo
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.transforms.schemas.fields import Field
from headrace.sdk.transforms.util.changelog import may_retract
from headrace.sdk.transforms.util.co_group_by_key import CoGroupByKey, GroupsToJoin, tagged
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows import GlobalWindows

_KINDS = {"inner": (False, False), "left": (True, False), "right": (False, True), "outer": (True, True)}
"""Kind of join -> whether left elements without a partner are kept, and whether right ones are."""


class Join(PTransform[Collection, Collection]):
    """Joins two collections on fields, into rows `Row(left=..., right=...)`, per window and pane, or by time.

    An element without a partner is paired with None if the kind of join keeps it. A field that is None has no partner,
    as in SQL.

    With `within` or `as_of`, rows meet by their times and not by their windows. Results have the windowing of the left
    side, in the windows of their own timestamps, with the greater of both sides' allowed lateness. A row later than
    that is dropped. Without `AccumulationMode.ACCUMULATING_AND_RETRACTING` on the left side, results that late rows
    could change wait for them; with it they come at once, and are retracted.

    Args:
        right: The collection to join with.
        on: Name of the field, or list of fields; an item is a pair of names if the right side has another name.
        how: `inner`, `left`, `right` or `outer`; with `as_of`, `inner` or `left`.
        names: Names of the two fields of the result.
        within: A pair (before, after) of durations or seconds: a left row is matched with the right rows whose times
            are from `before` before its own to `after` after it, both included. A match has the later of both times;
            a row without a partner has its own time, and comes when the watermark has passed its last partner's.
        as_of: Matches each left row with one right row, the newest whose time is not after its own: True, or a duration
            or seconds by which it may be older at the most. The result has the left row's time, and comes when the
            watermark has passed it. Of right rows with one time, the one that came last counts.

    Raises:
        TypeError: `within` or `as_of` is of another type.
        ValueError: `how` is none of these, `on` names no field, `names` are not two different names, a duration is
            negative, or both `within` and `as_of` are given.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | "Prices" >> beam.Create([beam.Row(item="tea", price=3)])
    ...     sold = pipeline | "Sold" >> beam.Create([beam.Row(item="tea", count=2)])
    ...     _ = sold | Join(prices, on="item") | beam.Map(lambda row: print(row.left.count * row.right.price))
    6
    """

    def __init__(
        self,
        right: Collection,
        on: str | Sequence[str | tuple[str, str]],
        how: str = "inner",
        names: tuple[str, str] = ("left", "right"),
        within: tuple[DurationTypes, DurationTypes] | None = None,
        as_of: bool | DurationTypes | None = None,
    ) -> None:
        super().__init__()
        if how not in _KINDS:
            raise ValueError(f"how must be one of {', '.join(_KINDS)}, got {how!r:.80}")
        if len({*names}) != 2:
            raise ValueError(f"names must be two different names, of the left side and of the right, got {names!r:.80}")
        fields = [on] if isinstance(on, str) else list(on)
        if not fields:
            raise ValueError("on must name at least one field")
        pairs = [(field, field) if isinstance(field, str) else field for field in fields]
        self._right, self._how, self._names = right, how, names
        self._left_fields, self._right_fields = (tuple(name for name, _ in pairs), tuple(name for _, name in pairs))
        self._tells_late = False
        self._within = None if within is None else _within(within)
        self._as_of = None if as_of is None or as_of is False else _as_of(as_of, how)
        if self._within and self._as_of:
            raise ValueError("a Join has both within and as_of, which are two joins by time; leave one of them out")

    def with_late_data(self) -> PTransform[Collection, tuple[Collection, PCollection[LateElement]]]:
        """See `PTransform`; late elements of a join by time have the tuple of fields as key, in the global window."""
        if self._within is None and self._as_of is None:
            return super().with_late_data()
        clone = copy(self)
        clone._tells_late = True
        return cast("PTransform[Collection, tuple[Collection, PCollection[LateElement]]]", clone)

    def expand(self, inputs: Collection) -> Collection:
        """A collection of rows: in the windows of both inputs, or by time."""
        left = inputs | "Left" >> Map(_ByFields(self._left_fields, 0))
        right = self._right | "Right" >> Map(_ByFields(self._right_fields, 1))
        matched = Matched(*_KINDS[self._how], self._names)
        if self._within or self._as_of:
            return self._by_time(inputs, [left, right], matched)
        groups = (left, right) | "CoGroupByKey" >> GroupsToJoin(matched)
        return groups | "Match" >> FlatMapTuple(matched)

    def _by_time(self, inputs: Collection, keyed: Sequence[Collection], matched: Matched) -> Collection:
        """The results of a join by time, in the windowing of the left side."""
        windowing = inputs.windowing
        lateness = max(windowing.allowed_lateness_us, self._right.windowing.allowed_lateness_us)
        retracts = windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING
        may_be_wrong = bool(self._as_of) or matched.keep_left or matched.keep_right
        takes_back = may_retract(inputs), may_retract(self._right)
        early = retracts and lateness > 0 and may_be_wrong
        stream, late = (f"{inputs.pipeline.current_label}/{name}" for name in ("Joined", "Dropped"))
        plan = JoinPlan(matched, stream, lateness, early, takes_back, late if self._tells_late else None)
        sides = [
            pairs | f"Mark{side}" >> ParDo(_MarkRetractions(side)) if takes_back[side] else tagged(pairs, side)
            for side, pairs in enumerate(keyed)
        ]
        streams = [stream, late] if self._tells_late else [stream]
        outputs = sides | "ByTime" >> RunComputation(self._computation(plan), JoinKeyOf(), streams)
        joined, *dropped = (cast("dict[str, Collection]", outputs)[each] for each in streams)
        if plan.changes:
            joined = joined | "Retractions" >> ParDo(FromChanges())
        rows = joined | "Windows" >> WindowInto(replace(windowing, allowed_lateness_us=lateness))
        if not dropped:
            return rows
        told = dropped[0] | "Late changes" >> ParDo(FromChanges()) if any(takes_back) else dropped[0]
        return cast(Collection, (rows, told | "Late" >> WindowInto(GlobalWindows())))

    def _computation(self, plan: JoinPlan) -> TimeJoin:
        if self._within is not None:
            return IntervalJoin(plan, *self._within)
        assert self._as_of is not None, "the caller has asked"
        return AsOfJoin(plan, *self._as_of)


def _within(given: object) -> tuple[int, int]:
    """The bounds of `within`, microseconds."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            f"within of a Join is a pair of durations (before, after), got {given!r:.80}; write within=(0, 3600) for "
            "right rows up to an hour after the left row"
        )
    return _bound("the first item of within", given[0]), _bound("the second item of within", given[1])


def _as_of(given: object, how: str) -> tuple[int | None]:
    """The bound of `as_of`, microseconds, or None for no bound; in a tuple."""
    if how not in ("inner", "left"):
        raise ValueError(f"a Join with as_of gives left rows their right row, so how is inner or left, got {how!r}")
    return (None if given is True else _bound("as_of", given),)


def _bound(name: str, given: object) -> int:
    """A duration, microseconds. Raises TypeError or ValueError for anything but a duration of 0 or more."""
    if isinstance(given, bool) or not isinstance(given, int | DurationTypes):
        raise TypeError(f"{name} of a Join is a Duration, a timedelta or a number of seconds, got {given!r:.80}")
    micros = Duration.of(given).micros
    if micros < 0:
        raise ValueError(f"{name} of a Join is {micros / 1_000_000:g} s; give 0 or more seconds")
    return micros


class _MarkRetractions(DoFn):
    """Tags the value of each pair with the number of its side, plus 2 for a retraction."""

    def __init__(self, side: int) -> None:
        self._side = side

    def process(
        self, both: tuple[object, object], pane: PaneInfo = DoFn.PaneInfoParam
    ) -> list[tuple[object, tuple[int, object]]]:
        """The pair with its tag."""
        key, element = both
        return [(key, (self._side + 2 * pane.is_retraction, element))]


class _ByFields(PairFunction):
    """Pairs an element with its join fields; a field that is None makes the key differ from all of the other side."""

    def __init__(self, names: tuple[str, ...], side: int) -> None:
        self._fields = [Field(name) for name in names]
        self._side = side

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        fields = tuple(view.shape_of(field) for field in self._fields)
        key = key_in([(shape, view.column(shape)) for shape in fields], self._side, view.add)
        return pair(key, view.shape)

    def __call__(self, element: object) -> tuple[object, object]:
        values = tuple(field(element) for field in self._fields)
        return (self._side if None in values else None, values), element


class CoGroup(PTransform[dict[str, Collection], Collection]):
    """Groups several collections by fields: rows of the key's fields and, for each collection, a list of elements.

    `{"orders": orders, "payments": payments} | CoGroup("user")` gives `Row(user=..., orders=[...], payments=[...])`.

    Args:
        *fields: Names of the fields of the key, which are the same in all collections.

    Raises:
        ValueError: There are no fields, or a field has the name of a collection.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | "Prices" >> beam.Create([beam.Row(item="tea", price=3)])
    ...     sold = pipeline | "Sold" >> beam.Create([beam.Row(item="tea", count=2)])
    ...     found = {"prices": prices, "sold": sold} | CoGroup("item")
    ...     _ = found | beam.Map(lambda row: print(row.item, len(row.prices), len(row.sold)))
    tea 1 1
    """

    def __init__(self, *fields: str) -> None:
        super().__init__()
        if not fields:
            raise ValueError("CoGroup takes the name of at least one field")
        self._fields = fields

    def expand(self, inputs: dict[str, Collection]) -> Collection:
        """A collection of rows in the windows of all inputs."""
        if taken := set(self._fields) & set(inputs):
            raise ValueError(
                f"{self.label}: {taken} name both a field and a collection; call the collections otherwise"
            )
        key = _Key(self._fields)
        keyed = {tag: collection | f"Key {tag}" >> Map(key) for tag, collection in inputs.items()}
        return keyed | CoGroupByKey() | "Row" >> Map(_together)


class _Key:
    """Pairs an element with a named tuple of its key fields."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names, self._fields = names, [Field(name) for name in names]

    def __call__(self, element: object) -> tuple[object, object]:
        return dynamic_named_tuple("Key", self._names)(*[field(element) for field in self._fields]), element


def _together(pair: tuple[Row, dict[str, Iterable[object]]]) -> Row:
    key, groups = pair
    return Row.of({**key._asdict(), **{tag: list(found) for tag, found in groups.items()}})
