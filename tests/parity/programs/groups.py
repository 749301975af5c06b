"""What: grouping values by key."""

from __future__ import annotations

from tests.parity.corpus import program, timed

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 5), ("b", 6)]
TIMED = [(pair, 7 * place) for place, pair in enumerate(PAIRS)]


@program
def group_by_key(beam, p):
    return p | beam.Create(PAIRS) | beam.GroupByKey()


@program
def group_nothing(beam, p):
    return p | beam.Create([]) | beam.Map(lambda x: (x, x)) | beam.GroupByKey()


@program
def group_by_keys_of_many_types(beam, p):
    keys = ["a", b"a", 1, -1, 2**70, 1.5, None, (), ("a", 1), ("a", ("b", 2)), "é", ""]
    return p | beam.Create([(key, number) for number, key in enumerate(keys * 2)]) | beam.GroupByKey()


@program
def group_by_key_text_and_bytes_apart(beam, p):
    return p | beam.Create([("a", 1), (b"a", 2), ("a", 3)]) | beam.GroupByKey()


@program
def group_in_fixed_windows(beam, p):
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20)) | beam.GroupByKey()


@program
def group_in_sliding_windows(beam, p):
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(20, 10)) | beam.GroupByKey()


@program
def group_in_sessions(beam, p):
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.Sessions(15)) | beam.GroupByKey()


@program
def group_with_timestamps_in_the_global_window(beam, p):
    return timed(beam, p, TIMED) | beam.GroupByKey()


@program
def grouped_values_can_be_read_twice(beam, p):
    return (
        p | beam.Create(PAIRS) | beam.GroupByKey() | beam.MapTuple(lambda key, values: (key, sum(values), max(values)))
    )


@program
def group_then_see_the_pane(beam, p):
    groups = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20)) | beam.GroupByKey()
    return groups | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair[0], pane.timing == 1, pane.index))


@program
def group_twice(beam, p):
    sums = p | beam.Create(PAIRS) | beam.CombinePerKey(sum)
    return sums | beam.MapTuple(lambda key, total: (total % 3, key)) | beam.GroupByKey()


@program
def group_twice_in_fixed_windows(beam, p):
    sums = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20)) | beam.CombinePerKey(sum)
    return sums | beam.MapTuple(lambda key, total: ("all", total)) | beam.GroupByKey()


@program
def group_twice_in_sliding_windows(beam, p):
    sums = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(20, 10)) | beam.CombinePerKey(sum)
    return sums | beam.MapTuple(lambda key, total: ("all", total)) | "Again" >> beam.CombinePerKey(sum)


@program
def group_twice_in_sessions(beam, p):
    sums = timed(beam, p, TIMED) | beam.WindowInto(beam.window.Sessions(15)) | beam.CombinePerKey(sum)
    return sums | beam.MapTuple(lambda key, total: ("all", total)) | beam.GroupByKey()


@program
def group_three_times(beam, p):
    def next_key(shift):
        return beam.MapTuple(lambda key, total: ((total >> shift) % 2, total))

    windowed = timed(beam, p, [((number % 8, number), number) for number in range(64)])
    windowed = windowed | beam.WindowInto(beam.window.FixedWindows(32))
    once = windowed | "1" >> beam.CombinePerKey(sum)
    twice = once | "To 2" >> next_key(0) | "2" >> beam.CombinePerKey(sum)
    return {"once": once, "twice": twice, "thrice": twice | "To 3" >> next_key(1) | "3" >> beam.CombinePerKey(sum)}


@program
def group_feeds_two_groupings(beam, p):
    groups = p | beam.Create(PAIRS) | beam.GroupByKey()
    return {
        "sizes": groups | beam.MapTuple(lambda key, values: (len(list(values)), key)) | "Sizes" >> beam.GroupByKey(),
        "totals": groups | beam.MapTuple(lambda key, values: (sum(values) % 2, key)) | "Totals" >> beam.GroupByKey(),
    }


@program
def co_group_tuple(beam, p):
    one, two = p | "One" >> beam.Create([("a", 1), ("a", 2)]), p | "Two" >> beam.Create([("a", "x"), ("b", "y")])
    return (one, two) | beam.CoGroupByKey()


@program
def co_group_dict_in_windows(beam, p):
    window = beam.window.FixedWindows(10)
    one = timed(beam, p, [(("a", 1), 1), (("a", 2), 11)], "One") | "W1" >> beam.WindowInto(window)
    two = timed(beam, p, [(("a", "x"), 3), (("b", "y"), 11)], "Two") | "W2" >> beam.WindowInto(window)
    return {"one": one, "two": two} | beam.CoGroupByKey()


@program
def group_with_composites_of_one_trigger(beam, p):
    trigger, discarding = beam.trigger, beam.trigger.AccumulationMode.DISCARDING
    pairs = timed(beam, p, [(("a", 1), 1), (("b", 2), 3)])

    def grouped(name):
        one = trigger.Repeatedly(getattr(trigger, name)(trigger.AfterCount(1)))
        windowed = beam.WindowInto(beam.window.FixedWindows(5), trigger=one, accumulation_mode=discarding)
        return pairs | f"{name}/Into" >> windowed | f"{name}/Group" >> beam.GroupByKey()

    return {name: grouped(name) for name in ("AfterAll", "AfterAny", "AfterEach")}
