"""Column expressions give by column what they give element by element, or say that they cannot."""

import math
import operator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, getcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Row, col, event_time, literal, pane_index, pane_timing, window_end, window_start
from headrace.sdk.expressions.arrow_evaluation import mask_of, shape_of
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import shape_of_rows
from headrace.sdk.expressions.expression import Expression
from headrace.sdk.model.panes import pane_info
from headrace.sdk.windows import IntervalWindow
from headrace.utils.timestamp import Timestamp
from tests.arrow import with_column
from tests.depth import examples

LONG = st.integers(-(2**63), 2**63 - 1)
WHOLE = st.one_of(st.integers(-3, 3), LONG, st.sampled_from([2**53, 2**53 + 1, -(2**63)]))
FLOAT = st.one_of(st.sampled_from([0.0, -0.0, 1.5, -2.0, 2.0**53, 2.0**63, math.inf, -math.inf, math.nan]), st.floats())
TEXT = st.one_of(
    st.sampled_from(["", "a", "A b", " x\x1f", "ß", "ΑΣ", "\U0001f600", "7", "\xa0y"]), st.text(max_size=3)
)
DAY = st.one_of(
    st.sampled_from([date(2024, 2, 29), date(2024, 3, 1), date(9999, 12, 30)]),
    st.dates(date(1, 1, 2), date(9999, 12, 30)),
)
NAIVE = st.one_of(
    st.sampled_from([datetime(2024, 2, 29, 23), datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
)
AWARE = NAIVE.map(lambda at: at.replace(tzinfo=UTC))
SPAN = st.one_of(
    st.sampled_from([timedelta(0), timedelta(hours=25), timedelta(hours=-1), timedelta(microseconds=1)]),
    st.timedeltas(timedelta(-(10**7)), timedelta(10**7)),
)
PRICE = st.one_of(
    st.sampled_from(list(map(Decimal, ("0.00", "1.50", "-0.01", "99999999.99")))),
    st.decimals(-(10**7), 10**7, places=2, allow_nan=False).map(lambda price: price + Decimal("0.00")),
)
LONG_PRICE = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda digits: Decimal(digits).scaleb(-5, EXACT))
EXACT = getcontext().copy()
EXACT.prec = 60
COLUMNS = {
    "whole": (pa.int64(), WHOLE),
    "small": (pa.int8(), st.integers(-3, 3)),
    "natural": (pa.uint64(), st.one_of(st.integers(0, 3), st.just(2**64 - 1))),
    "float": (pa.float64(), FLOAT),
    "half": (pa.float32(), st.floats(width=32)),
    "text": (pa.string(), TEXT),
    "long": (pa.large_string(), TEXT),
    "coded": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "flag": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "day": (pa.date32(), DAY),
    "clock": (pa.time64("us"), st.times()),
    "second": (pa.time32("s"), st.times().map(lambda at: at.replace(microsecond=0))),
    "local": (pa.timestamp("us"), NAIVE),
    "at": (pa.timestamp("us", "UTC"), AWARE),
    "milli": (pa.timestamp("ms", "UTC"), AWARE.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))),
    "nano": (pa.timestamp("ns"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))),
    "away": (pa.timestamp("us", "America/New_York"), AWARE),
    "took": (pa.duration("us"), SPAN),
    "price": (pa.decimal128(10, 2), PRICE),
    "cost": (pa.decimal128(38, 5), st.one_of(PRICE.map(lambda price: price + Decimal("0.00000")), LONG_PRICE)),
    "nothing": (pa.null(), st.none()),
}
CONSTANTS = st.one_of(
    WHOLE,
    FLOAT,
    TEXT,
    st.booleans(),
    st.none(),
    st.just(2**70),
    st.just("\ud800"),
    st.just(Timestamp(5)),
    st.just(b"a"),
    DAY,
    NAIVE,
    AWARE,
    st.just(datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2)))),
    st.just(datetime(2024, 2, 29, fold=1)),
    SPAN,
    st.times(),
    PRICE,
    st.sampled_from(list(map(Decimal, ("NaN", "Infinity", "-0", "1E+2", "0.001", "9" * 38, "1E-40")))),
)


@st.composite
def tables(draw, names):
    """Of these columns; of all others there is nothing to see."""
    rows = draw(st.integers(0, 6))
    drawn = {}
    for name, (kind, values) in ((name, COLUMNS[name]) for name in ("whole", *sorted({*names} - {"whole"}))):
        column = draw(st.lists(values if draw(st.booleans()) else st.none() | values, min_size=rows, max_size=rows))
        drawn[name] = pa.array(column, pa.string()).dictionary_encode() if name == "coded" else pa.array(column, kind)
    first = draw(st.integers(0, rows))
    return pa.RecordBatch.from_pydict(drawn).slice(first, draw(st.integers(0, rows - first)))


FIELDS = st.sampled_from([*map(col, COLUMNS), event_time(), window_start(), window_end(), pane_index(), pane_timing()])
BINARY = [
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
]
BINARY += ["__gt__", "__ge__", "__and__", "__or__", "__radd__", "__rsub__", "__rmod__", "__rfloordiv__", "fill_null"]
UNARY = ["__neg__", "__abs__", "__invert__", "is_null", "is_not_null", "lower", "upper", "strip", "length"]
WITH_TEXT = ["startswith", "endswith", "contains"]


def larger(inner):
    constants = st.one_of(CONSTANTS, inner)
    return st.one_of(
        st.builds(lambda one, name, other: getattr(one, name)(other), inner, st.sampled_from(BINARY), constants),
        st.builds(lambda one, name: getattr(one, name)(), inner, st.sampled_from(UNARY)),
        st.builds(lambda one, name, other: getattr(one, name)(other), inner, st.sampled_from(WITH_TEXT), TEXT),
        st.builds(lambda one, old, new: one.replace(old, new), inner, TEXT, TEXT),
        st.builds(lambda one, kind: one.cast(kind), inner, st.sampled_from([int, float, str, bool])),
        st.builds(lambda one, members: one.isin(members), inner, st.lists(CONSTANTS, max_size=3)),
    )


EXPRESSIONS = st.recursive(FIELDS, larger, max_leaves=5)
TABLES_AND_EXPRESSIONS = EXPRESSIONS.flatmap(
    lambda expression: st.tuples(tables(expression.fields()), st.just(expression))
)


def view_of(table, times):
    times = np.array(times, np.int64)
    return BatchView(
        table,
        times,
        shape_of_rows(table, as_rows=True),
        lambda: (times - 7, times + 3),
        lambda: (np.arange(len(times)), np.arange(len(times)) % 3),
    )


def one_by_one(expression, view):
    rows = [
        Row.of(dict(zip(view.table.schema.names, row, strict=True)))
        for row in zip(*view.table.to_pydict().values(), strict=True)
    ]
    return [
        expression(
            row,
            IntervalWindow.of_micros(time - 7, time + 3),
            Timestamp(micros=time),
            pane_info(False, False, at % 3, at, 0),
        )
        for at, (row, time) in enumerate(zip(rows, view.times.tolist(), strict=True))
    ]


def exact(values):
    return [(type(value), repr(value)) for value in values]


@settings(max_examples=examples(200, 5_000))
@given(TABLES_AND_EXPRESSIONS, st.integers(-(10**15), 10**15))
def test_by_column_is_one_by_one(table_and_expression, time):
    table, expression = table_and_expression
    view = view_of(table, [time + 10**6 * row for row in range(table.num_rows)])
    try:
        shape = shape_of(expression.node, view)
    except Unable:
        return
    batch = view.result(shape)
    assert exact(batch.values) == exact(one_by_one(expression, view))


@settings(max_examples=examples(100, 5_000))
@given(TABLES_AND_EXPRESSIONS)
def test_conditions_by_column_are_those_one_by_one(table_and_expression):
    table, expression = table_and_expression
    view = view_of(table, [10**6 * row for row in range(table.num_rows)])
    try:
        mask = mask_of(expression.node, view)
    except Unable:
        return
    assert mask.to_pylist() == list(map(bool, one_by_one(expression, view)))


VALUES = {
    pa.int64(): [0, 3, -2, 2**53 + 1, 2**63 - 1, -(2**63), None],
    pa.float64(): [0.0, 0.5, -2.0, 2.0**53, math.inf, math.nan, None],
    pa.string(): ["", "a", " B", "ß", None],
    pa.bool_(): [True, False, None],
    pa.binary(): [b"", b"a", b"\xff", None],
    pa.date32(): [date(2024, 2, 29), date(9999, 12, 30), date(1, 1, 2), None],
    pa.time64("us"): [time(0), time(23, 59, 59, 999_999), None],
    pa.timestamp("us"): [datetime(2024, 2, 29, 23), datetime(9999, 12, 30), datetime(1, 1, 2), None],
    pa.timestamp("us", "UTC"): [datetime(2024, 2, 29, 23, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC), None],
    pa.timestamp("ns"): [datetime(2024, 2, 29, 23, 0, 0, 1), None],
    pa.duration("us"): [timedelta(0), timedelta(hours=25), timedelta(microseconds=-1), timedelta(10**8), None],
    pa.decimal128(10, 2): [Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99"), None],
    pa.decimal128(38, 2): [
        Decimal("0.00"),
        Decimal("1.50"),
        Decimal("9" * 36 + ".99"),
        Decimal("9" * 26 + ".99"),
        None,
    ],
}
PAIRS = [
    ((left, one), (right, other))
    for left, lefts in VALUES.items()
    for one in lefts
    for right, rights in VALUES.items()
    for other in rights
]


def outcome(expression, view):
    try:
        return view.result(shape_of(expression.node, view)).values
    except Unable:
        return None


@pytest.mark.parametrize("name", BINARY)
def test_every_operation_on_every_pair_of_values(name):
    tried = 0
    for (left, one), (right, other) in PAIRS:
        table = pa.RecordBatch.from_pydict({"one": pa.array([one], left), "other": pa.array([other], right)})
        view = view_of(table, [0])
        for operand in (col.other, other):
            expression = getattr(col.one, name)(operand)
            found = outcome(expression, view)
            if found is not None:
                tried += 1
                assert exact(found) == exact(one_by_one(expression, view)), (one, other, operand)
    assert tried > 40


FUNCTIONS = {
    **{name: getattr(Expression, name) for name in UNARY},
    **{f"cast {kind.__name__}": lambda one, kind=kind: one.cast(kind) for kind in (int, float, str, bool)},
    **{
        f"{name} {text!r}": lambda one, name=name, text=text: getattr(one, name)(text)
        for name in WITH_TEXT
        for text in ("", "a")
    },
    "replace": lambda one: one.replace("a", "aa"),
    "replace nothing": lambda one: one.replace("", "x"),
    "isin": lambda one: one.isin([3, 2**63 - 1, None]),
    "isin text": lambda one: one.isin(["a", "ß"]),
    "isin days": lambda one: one.isin([date(2024, 2, 29), None]),
    "isin moments": lambda one: one.isin([datetime(2024, 2, 29, 22, tzinfo=timezone(timedelta(hours=-1)))]),
    "isin prices": lambda one: one.isin([Decimal("-1.5"), Decimal("0.00")]),
    "isin bytes": lambda one: one.isin([b"a", b""]),
    "isin mixed": lambda one: one.isin([0.0, True]),
}
SINGLE = {
    **VALUES,
    pa.float64(): [*VALUES[pa.float64()], -0.5, 2.0**63, -(2.0**63), 1e300],
    pa.string(): [
        *VALUES[pa.string()],
        "".join(map(chr, range(128))),
        *(f"{chr(it)}x{chr(it)}" for it in range(128)),
        "ΑΣ",
        "\xa0",
    ],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_every_value(name):
    tried = 0
    for kind, values in SINGLE.items():
        for value in values:
            view = view_of(pa.RecordBatch.from_pydict({"one": pa.array([value], kind)}), [0])
            expression = FUNCTIONS[name](col.one)
            found = outcome(expression, view)
            if found is not None:
                tried += 1
                assert exact(found) == exact(one_by_one(expression, view)), value
    assert (tried > 2) is (name not in ("isin mixed", "replace nothing"))


TABLE = pa.RecordBatch.from_pydict(
    {
        "whole": pa.array([3, None, -4]),
        "more": pa.array([2, 5, -3]),
        "float": pa.array([0.5, None, math.nan]),
        "text": pa.array(["a B", None, " c"]),
        "flag": pa.array([True, None, False]),
        "coded": pa.array(["x", "y", "x"]).dictionary_encode(),
        "day": pa.array([date(2024, 2, 29), date(1900, 1, 1), date(2000, 1, 1)]),
        "local": pa.array([datetime(2024, 2, 29, 23), datetime(1900, 1, 1), datetime(2000, 1, 1)]),
        "at": pa.array([5, 10**12, -1], pa.timestamp("ms", "UTC")),
        "nano": pa.array([5, None, -1], pa.timestamp("ns", "UTC")),
        "took": pa.array([timedelta(hours=25), timedelta(hours=-1), timedelta(0)]),
        "price": pa.array([Decimal("1.50"), Decimal("0.00"), Decimal("-3.00")], pa.decimal128(38, 2)),
        "bytes": pa.array([b"", b"a", b"\xff"]),
        "clock": pa.array([time(1), time(2), None]),
    }
)
BY_COLUMN = [
    col.more + 1,
    1 - col.more,
    col.more * 0.9,
    col.more / 2,
    col.more // 2,
    7 % col.more,
    -col.more,
    abs(col.more),
    col.more == 5,
    col.whole != 3,
    col.whole == col.more,
    col.whole.is_null() | (col.whole > 0),
    col.whole.is_not_null() & (col.whole + 1 > 0) & (col.float < 1.0),
    ~col.flag,
    col.flag.fill_null(True),
    col.text.fill_null("-").lower() + "!",
    col.text.fill_null("-").upper().strip(),
    "<" + col.text.fill_null("-") + ", " + col.coded + (col.coded + ";") + ">",
    0.1 + col.more + 0.2 + (col.more + 1),
    col.text.is_not_null() & col.text.startswith("a"),
    col.text.is_not_null() & col.text.contains("B"),
    col.coded.endswith("x"),
    col.coded + col.coded,
    col.coded.replace("x", "yy").length(),
    col.coded.isin(["x", "z"]),
    col.whole.isin([3, None]),
    col.more.cast(float),
    (col.more / 2).cast(int),
    col.more.cast(str),
    col.more.cast(bool),
    window_start(),
    pane_index(),
    window_end() > Timestamp(1),
    event_time().cast(float),
    event_time().cast(int) // 60,
    literal("x"),
    event_time() >= 1,
    col.day > date(2000, 1, 1),
    col.day.isin([date(2000, 1, 1)]),
    col.day + timedelta(hours=25),
    col.day - timedelta(1),
    col.price.fill_null(Decimal("0.00")),
    (col.day - date(2000, 1, 1)) / timedelta(hours=1),
    timedelta(1) + col.local,
    col.local - timedelta(microseconds=1),
    col.local >= datetime(2024, 1, 1),
    col.at > datetime(2024, 1, 1, tzinfo=UTC),
    col.at == datetime(1970, 1, 1, 1, 0, 0, 5000, tzinfo=timezone(timedelta(hours=1))),
    col.at + col.took * 2,
    datetime(2024, 1, 1, tzinfo=UTC) - col.at,
    col.nano.is_not_null() & (col.nano > datetime(1970, 1, 1, tzinfo=UTC)),
    -col.took + abs(col.took) - timedelta(1),
    col.took.fill_null(timedelta(0)) < timedelta(hours=1),
    col.price > Decimal("0.555"),
    col.price == 0,
    col.price > col.more,
    col.price * Decimal("1.20") + 7 - col.price,
    col.price * 3,
    col.price * col.price,
    -abs(col.price),
    col.price.isin([Decimal("1.5")]),
    col.bytes < b"b",
    col.clock.fill_null(time(5)) > time(1),
]


@pytest.mark.parametrize("expression", BY_COLUMN, ids=repr)
def test_what_is_computed_by_column(expression):
    view = view_of(TABLE, [10**6, 2 * 10**6, 1_999_999])
    assert exact(view.result(shape_of(expression.node, view)).values) == exact(one_by_one(expression, view))


GENERAL = [
    col.whole + 1,
    col.more * 2**62,
    col.more / 0,
    col.more // 0.5,
    col.text.lower(),
    col.more > "a",
    operator.eq(col.more, True),
    col.more.isin([1, True]),
    col.float.isin([math.nan]),
    col.more == date(2020, 1, 1),
    col.day > datetime(2020, 1, 1),
    col.local > datetime(2020, 1, 1, tzinfo=UTC),
    col.local == datetime(2020, 1, 1, fold=1),
    col.local + timedelta(10**7),
    col.day + timedelta(10**7),
    col.at.fill_null(datetime(2020, 1, 1, tzinfo=UTC)),
    col.nano + timedelta(1),
    datetime(2020, 1, 1, tzinfo=UTC) + col.took,
    literal(datetime(2020, 1, 1, tzinfo=UTC)),
    literal(Decimal("1E+2")),
    col.price / 2,
    col.price + 0.5,
    col.price * -1,
    col.price + Decimal("1E-30"),
    col.price == Decimal("NaN"),
    col.price.fill_null(Decimal(0)),
    col.took % timedelta(hours=1),
    col.coded == "\ud800",
    col.coded.cast(int),
    col.rubbish,
]


@pytest.mark.parametrize("expression", GENERAL, ids=repr)
def test_what_is_left_to_python(expression):
    with pytest.raises(Unable):
        shape_of(expression.node, view_of(TABLE, [0, 0, 0]))


def test_an_expression_has_a_greatest_depth():
    expression = col.more
    for _ in range(180):
        expression = expression + 1
    assert expression({"more": 1}) == 181
    with pytest.raises(ValueError, match="has more than 180 operations inside each other; write a function"):
        _ = expression + 1


def test_an_expression_is_no_value():
    with pytest.raises(TypeError, match="write & for and"):
        _ = col.delay > 15 and col.delay < 60
    with pytest.raises(TypeError, match="write & for and"):
        _ = 15 < col.delay < 60
    with pytest.raises(TypeError, match=r"write \.contains"):
        _ = "a" in col.text
    with pytest.raises(TypeError, match="takes a list of values"):
        col.text.isin("abc")
    with pytest.raises(TypeError, match="cast takes int, float, str or bool"):
        col.text.cast(date)
    with pytest.raises(ValueError, match="an alias is the name of a field"):
        col.text.alias("a b")
    with pytest.raises(TypeError, match="has no items"):
        list(col.text)
    assert isinstance(col("window_start")({"window_start": 5}), int)
    assert isinstance(window_start(), Expression)


OLD = ["timestamp", "window_start", "window_end", "pane_index", "pane_timing"]


@pytest.mark.parametrize("name", OLD)
def test_the_old_spelling_of_what_the_engine_knows_refuses_a_field_of_its_name(name):
    with pytest.deprecated_call(match=rf"col\.{name} is deprecated"):
        old = getattr(col, name)
    new = {"timestamp": event_time}.get(name) or globals()[name]
    plain, clash = view_of(TABLE, [1, 2, 3]), view_of(with_column(TABLE, name, pa.array([7, 8, 9])), [1, 2, 3])
    for view in (plain, clash):
        assert exact(view.result(shape_of(new().node, view)).values) == exact(one_by_one(new(), view))
    assert exact(one_by_one(old, plain)) == exact(one_by_one(new(), plain))
    assert exact(plain.result(shape_of(old.node, plain)).values) == exact(one_by_one(old, plain))
    both = rf"col\('{name}'\) for the field, headrace\.\w+\(\) for what the engine knows"
    with pytest.raises(Unable, match=both):
        shape_of((old == 5).node, clash)
    for element in (Row.of({name: 7}), {name: 7}):
        with pytest.raises(TypeError, match=both):
            (old == 5)(element, IntervalWindow(0, 1), Timestamp(0), pane_info(False, False, 0, 0, 0))
    assert col(name)({name: 7}) == 7


def test_a_field_may_have_any_name():
    """Attributes of `col` and of an expression are the ways in which a field could be taken for something else."""
    for name in ["literal", "name", "node", "fields", "cast", "lower", "window", "pane", "alias", "isin", "contains"]:
        assert getattr(col, name)({name: 5}) == 5
        assert (getattr(col, name) + 1)(Row.of({name: 5})) == 6
    with pytest.raises(AttributeError, match="a field of a field is read by a function"):
        _ = col.user.name
    with pytest.deprecated_call(match="col.literal"):
        assert (col.literal(5) + col.more)({"more": 1}) == 6
