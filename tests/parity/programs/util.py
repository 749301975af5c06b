"""What: the small transforms of `transforms.util`, and `Partition`."""

from __future__ import annotations

import re

from tests.parity.corpus import program, timed
from tests.parity.watching import stream

PAIRS = [("a", 1), ("b", 2), ("a", 3), (None, 4), (("x", 1), 5)]
TIMED = [(("a", 1), 1), (("b", 2), 4), (("a", 3), 11), (("a", 1), 12)]
LINES = ["ab-12 cd-345", "cd-3", "  zz", "", "ab-", "x, y,,z", "ab-77\nab-88"]


@program
def keys_and_values(beam, p):
    pairs = p | beam.Create(PAIRS)
    return {"keys": pairs | beam.Keys(), "values": pairs | beam.Values(), "swapped": pairs | beam.KvSwap()}


@program
def keys_and_values_in_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    return {"keys": pairs | beam.Keys(), "values": pairs | beam.Values(), "swapped": pairs | beam.KvSwap()}


@program
def keys_of_groups(beam, p):
    groups = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.GroupByKey()
    return {"keys": groups | beam.Keys(), "values": groups | beam.Values()}


@program
def keys_from_the_module(beam, p):
    util = beam.transforms.util
    pairs = p | beam.Create(PAIRS)
    return {"keys": pairs | "K" >> util.Keys(), "values": pairs | "V" >> util.Values()}


@program
def with_keys_constant(beam, p):
    return p | beam.Create([1, 2, 3]) | beam.WithKeys("k")


@program
def with_keys_none(beam, p):
    return p | beam.Create([1, 2]) | beam.WithKeys(None) | beam.GroupByKey()


@program
def with_keys_function(beam, p):
    return p | beam.Create(["a", "bb", "cc"]) | beam.WithKeys(len)


@program
def with_keys_function_and_arguments(beam, p):
    def remainder(number, by, plus=0):
        return number % by + plus

    return p | beam.Create(range(7)) | beam.WithKeys(remainder, 3, plus=10) | beam.GroupByKey()


@program
def with_keys_and_a_side_input(beam, p):
    def key_of(number, table):
        return table[number % 2]

    table = p | "Table" >> beam.Create([(0, 100), (1, 200)])
    return p | beam.Create(range(5)) | beam.WithKeys(key_of, beam.pvalue.AsDict(table))


@program
def partition_with_a_side_input(beam, p):
    border = p | "Border" >> beam.Create([4])
    numbers = p | beam.Create(range(9))
    low, high = numbers | beam.Partition(lambda n, parts, least: int(n >= least), 2, beam.pvalue.AsSingleton(border))
    return {"low": low, "high": high}


@program
def wait_on_others(beam, p):
    slow = p | "Slow" >> beam.Create(range(20)) | "Work" >> beam.Map(lambda number: -number)
    other = p | "Other" >> beam.Create([])
    return p | beam.Create(["a", "b"]) | beam.transforms.util.WaitOn(slow, other)


@program
def wait_on_others_in_windows(beam, p):
    fixed = beam.WindowInto(beam.window.FixedWindows(10))
    pairs = timed(beam, p, TIMED) | "Fixed" >> fixed
    others = timed(beam, p, [(1, 2), (2, 30)], "Others") | "Others fixed" >> beam.WindowInto(
        beam.window.FixedWindows(5)
    )
    return pairs | beam.WaitOn(others) | beam.CombinePerKey(sum)


@program
def partition_with_a_function(beam, p):
    small, large, rest = p | beam.Create(range(10)) | beam.Partition(lambda number, parts: number % parts % 2, 3)
    return {"small": small, "large": large, "rest": rest}


@program
def partition_with_arguments(beam, p):
    def by_border(number, parts, border, plus=0):
        return int(number + plus > border)

    parts = timed(beam, p, [(number, number) for number in range(10)]) | beam.Partition(by_border, 2, 5, plus=1)
    return {"low": parts[0], "high": parts[1]}


@program
def partition_with_a_partition_fn(beam, p):
    class ByLength(beam.PartitionFn):
        def partition_for(self, element, num_partitions, *args):
            return min(len(element), num_partitions - 1)

    parts = p | beam.Create(["", "a", "bb", "cccc"]) | beam.Partition(ByLength(), 3)
    return {str(place): part for place, part in enumerate(parts)}


@program
def partition_in_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    a, others = windowed | beam.Partition(lambda pair, parts: int(pair[0] != "a"), 2)
    return {"a": a | "A" >> beam.GroupByKey(), "others": others | "Others" >> beam.GroupByKey()}


@program
def to_string(beam, p):
    util = beam.transforms.util
    pairs = p | beam.Create([("a", 1), ("b", None)])
    return {
        "element": p | "Mixed" >> beam.Create([1, 2.5, None, "x", (1, "a")]) | util.ToString.Element(),
        "kvs": pairs | "Kvs" >> util.ToString.Kvs(),
        "kvs with": pairs | "Tabs" >> util.ToString.Kvs("\t"),
        "iterables": p | "Lists" >> beam.Create([[1, 2], [], ["a"]]) | "Its" >> util.ToString.Iterables(),
        "iterables with": p | "Sets" >> beam.Create([(1, 2), ("x",)]) | "With" >> beam.ToString.Iterables(delimiter=""),
    }


@program
def distinct(beam, p):
    return p | beam.Create(["a", "b", "a", ("a", 1), ("a", 1), None, 1, 1]) | beam.Distinct()


@program
def distinct_in_windows(beam, p):
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.Distinct()


@program
def remove_duplicates(beam, p):
    return p | beam.Create([1, 2, 1]) | beam.RemoveDuplicates()


@program(streaming=True)
def distinct_of_a_stream(beam, p):
    events = stream(beam, p, 0, [("a", 1), ("a", 2), ("b", 3)], 12, [("a", 13), ("a", 14)])
    return events | beam.WindowInto(beam.window.FixedWindows(10)) | beam.Distinct()


def regex(name):
    """Register a program that applies transforms of `Regex` to some lines."""

    def register(make):
        def build(beam, p):
            lines = p | beam.Create(LINES)
            return {which: lines | which >> transform for which, transform in make(beam.Regex).items()}

        build.__name__ = name
        return program(build)

    return register


@regex("regex_matches")
def _(Regex):
    return {
        "whole": Regex.matches(r"[a-c]+-(\d*)"),
        "group": Regex.matches(r"[a-c]+-(\d*)", 1),
        "named": Regex.matches(r"(?P<word>[a-c]+)-", "word"),
        "compiled": Regex.matches(re.compile(r"AB", re.IGNORECASE)),
        "to the end": Regex.matches(r"cd-\d$"),
    }


@regex("regex_all_matches")
def _(Regex):
    return {
        "groups": Regex.all_matches(r"(\w+)-(\d+)"),
        "optional": Regex.all_matches(r"(\w+)-(\d+)?"),
        "nested": Regex.all_matches(r"((a)b)"),
    }


@regex("regex_matches_kv")
def _(Regex):
    return {
        "whole": Regex.matches_kv(r"(\w+)-(\d+)", 1),
        "groups": Regex.matches_kv(r"(\w+)-(\d+)", 1, 2),
        "named": Regex.matches_kv(r"(?P<word>\w+)-(?P<number>\d+)", "number", "word"),
    }


@regex("regex_find")
def _(Regex):
    return {"whole": Regex.find(r"\d+"), "group": Regex.find(r"-(\d)", 1), "named": Regex.find(r"-(?P<n>\d)", "n")}


@regex("regex_find_all")
def _(Regex):
    return {
        "whole": Regex.find_all(r"\w+"),
        "empty": Regex.find_all(r"\w*"),
        "no empty": Regex.find_all(r"\w*", outputEmpty=False),
        "group": Regex.find_all(r"(\w+)-(\d*)", 2),
        "group not empty": Regex.find_all(r"(\w+)-(\d*)", 2, outputEmpty=False),
        "all": Regex.find_all(r"(\w+)-(\d*)", Regex.ALL),
        "all not empty": Regex.find_all(r"(\d*)-", Regex.ALL, outputEmpty=False),
    }


@regex("regex_find_kv")
def _(Regex):
    return {"groups": Regex.find_kv(r"(\w+)-(\d+)", 1, 2), "whole": Regex.find_kv(r"(?P<word>\w+)-\d+", "word")}


@regex("regex_replace")
def _(Regex):
    return {
        "all": Regex.replace_all(r"\d", "#"),
        "all with groups": Regex.replace_all(r"(\w)(\w)", r"\2\1"),
        "first": Regex.replace_first(r"\d", "#"),
        "first compiled": Regex.replace_first(re.compile("A", re.IGNORECASE), ""),
    }


@regex("regex_split")
def _(Regex):
    return {
        "parts": Regex.split(r"[ ,-]"),
        "empty too": Regex.split(r"[ ,-]", outputEmpty=True),
        "with groups": Regex.split(r"([ ,-])"),
    }


@program
def tee(beam, p):
    seen = []

    def keep(name):
        def consume(numbers):
            seen.append((name, numbers | f"Plus {name}" >> beam.Map(lambda number: (name, number))))

        return consume

    numbers = p | beam.Create([1, 2]) | beam.Tee(keep("function"))
    return {"numbers": numbers, **dict(seen)}


@program
def tee_to_transforms(beam, p):
    class Side(beam.PTransform):
        def __init__(self, kept):
            super().__init__()
            self.kept = kept

        def expand(self, numbers):
            self.kept.append(numbers | beam.Map(lambda number: -number))
            return self.kept[-1]

    kept = []
    numbers = p | beam.Create([1, 2]) | beam.Tee(Side(kept)) | beam.Map(lambda number: 10 * number)
    return {"numbers": numbers, "side": kept[0]}


@program
def log_elements(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return windowed | beam.LogElements(
        prefix="seen ", with_timestamp=True, with_window=True, level=10, with_pane_info=True
    )


@program
def reify(beam, p):
    util = beam.transforms.util
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    return {
        "timestamp": pairs | "T" >> util.Reify.Timestamp(),
        "window": pairs | "W" >> util.Reify.Window(),
        "timestamp in value": pairs | "TV" >> util.Reify.TimestampInValue(),
        "window in value": pairs | "WV" >> util.Reify.WindowInValue(),
    }
