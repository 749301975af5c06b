"""What: rows, by fields: choosing, filtering, grouping and aggregating."""

from dataclasses import dataclass
from typing import NamedTuple

from tests.parity.corpus import program, timed
from tests.parity.programs.wrong import wrong

SALES = [
    ("apple", "north", 3),
    ("pear", "north", 2),
    ("apple", "south", 5),
    ("pear", "south", 1),
    ("apple", "north", 4),
]


class Sale(NamedTuple):
    item: str
    region: str
    count: int


@dataclass(frozen=True)
class Order:
    item: str
    region: str
    count: int


def rows(beam, p, kind=None):
    return (
        p
        | beam.Create(SALES)
        | beam.MapTuple(lambda item, region, count: beam.Row(item=item, region=region, count=count))
    )


def plain(beam, collection):
    """Rows and named tuples as pairs of names and values."""
    return collection | "Plain" >> beam.Map(lambda row: tuple(row._asdict().items()))


def groups(beam, collection):
    return collection | "Groups" >> beam.MapTuple(lambda key, found: (key, sorted(row.count for row in found)))


@program
def rows_selected(beam, p):
    return plain(beam, rows(beam, p) | beam.Select("item", "count"))


@program
def rows_selected_with_expressions(beam, p):
    return plain(beam, rows(beam, p) | beam.Select("item", twice=lambda row: 2 * row.count, where="region"))


@program
def rows_selected_by_functions_alone(beam, p):
    return plain(beam, rows(beam, p) | beam.Select(lambda row: row.count, lambda row: row.item))


@program
def rows_filtered(beam, p):
    return plain(beam, rows(beam, p) | beam.Filter(lambda row: row.count > 2))


@program
def rows_of_named_tuples(beam, p):
    sales = p | beam.Create([Sale(*sale) for sale in SALES])
    return plain(beam, sales | beam.Select("item", "count"))


@program
def rows_of_dataclasses(beam, p):
    orders = p | beam.Create(SALES) | beam.MapTuple(Order)
    return plain(beam, orders | beam.Select("item", half=lambda order: order.count / 2))


@program
def rows_grouped_by_a_field(beam, p):
    return groups(beam, rows(beam, p) | beam.GroupBy("item"))


@program
def rows_grouped_by_fields(beam, p):
    found = rows(beam, p) | beam.GroupBy("item", "region")
    named = found | "Named" >> beam.MapTuple(lambda key, found: (key.item, key.region, len(list(found))))
    return {"groups": groups(beam, found), "named": named}


@program
def rows_grouped_by_no_field(beam, p):
    made = rows(beam, p)
    sums = made | "Sums" >> beam.GroupBy().aggregate_field("count", sum, "total")
    return {
        "groups": made | beam.GroupBy() | beam.MapTuple(lambda key, found: (tuple(key), len(list(found)))),
        "sums": plain(beam, sums),
    }


@program
def rows_grouped_by_an_expression(beam, p):
    return groups(beam, rows(beam, p) | beam.GroupBy(lambda row: row.count % 2))


@program
def rows_grouped_by_named_expressions(beam, p):
    found = rows(beam, p) | beam.GroupBy("item", odd=lambda row: row.count % 2 == 1)
    return found | beam.MapTuple(lambda key, found: (key.item, key.odd, sorted(row.count for row in found)))


@program
def rows_grouped_with_tuple_keys(beam, p):
    found = rows(beam, p) | beam.GroupBy("item").force_tuple_keys()
    return found | beam.MapTuple(lambda key, found: (key.item, tuple(key), len(list(found))))


@program
def values_grouped_by_an_expression(beam, p):
    grouped = p | beam.Create(["strawberry", "raspberry", "blueberry", "blackberry", "banana"])
    return grouped | beam.GroupBy(lambda name: name[0])


@program
def rows_aggregated(beam, p):
    return plain(beam, rows(beam, p) | beam.GroupBy("item").aggregate_field("count", sum, "total"))


@program
def rows_aggregated_in_several_ways(beam, p):
    grouping = (
        beam.GroupBy("item", "region")
        .aggregate_field("count", sum, "total")
        .aggregate_field("count", max, "most")
        .aggregate_field(lambda row: row.count / 2, beam.combiners.MeanCombineFn(), "mean_half")
        .aggregate_field("region", beam.combiners.CountCombineFn(), "sales")
    )
    return plain(beam, rows(beam, p) | grouping)


@program
def rows_aggregated_by_an_expression(beam, p):
    return plain(
        beam, rows(beam, p) | beam.GroupBy(first=lambda row: row.item[0]).aggregate_field("count", min, "least")
    )


@program
def rows_aggregated_in_windows(beam, p):
    sales = timed(beam, p, [(sale, 5 * place) for place, sale in enumerate(SALES)])
    windowed = sales | beam.MapTuple(Sale) | beam.WindowInto(beam.window.FixedWindows(10))
    return plain(beam, windowed | beam.GroupBy("region").aggregate_field("count", sum, "total"))


@program
def rows_aggregated_again(beam, p):
    totals = rows(beam, p) | "Once" >> beam.GroupBy("item", "region").aggregate_field("count", sum, "total")
    return plain(beam, totals | "Again" >> beam.GroupBy("item").aggregate_field("total", max, "most"))


@wrong(Exception)
def rows_grouped_by_a_field_that_is_not_there(beam, p):
    return rows(beam, p) | beam.GroupBy("colour")


@wrong(Exception)
def rows_grouped_by_a_number(beam, p):
    return rows(beam, p) | beam.GroupBy(3) | beam.Map(lambda pair: pair[0])
