"""What: state of DoFns, of every kind, by key and window, bounded and on streams."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.masks import LAST_BATCHES
from tests.parity.watching import stream, streaming

PAIRS = [("a", 1), ("b", 5), ("a", 3), ("a", 1), ("b", 2), ("c", 4)]
TIMED = [(("a", 1), 1), (("b", 5), 2), (("a", 3), 12), (("a", 1), 3), (("b", 2), 15), (("a", 7), 27)]


def kept(beam, spec, use):
    """A `ParDo` that uses one piece of state: `use(state, value)` gives what it puts out."""

    class Keep(beam.DoFn):
        def process(self, pair, state=beam.DoFn.StateParam(spec)):
            for output in use(state, pair[1]):
                yield pair[0], output

    return beam.ParDo(Keep())


def everything(state, value):
    """Add a value; what there is then, in an order of its own."""
    state.add(value)
    yield tuple(sorted(state.read()))


@program
def state_value_read_and_replaced(beam, p):
    def highest(state, value):
        before = state.read()
        if before is None or value > before:
            state.write(value)
        yield before is None

    spec = beam.transforms.userstate.ReadModifyWriteStateSpec("highest", beam.coders.VarIntCoder())
    return p | beam.Create(PAIRS) | kept(beam, spec, highest)


@program
def state_value_cleared(beam, p):
    def alternating(state, value):
        yield state.read() is None
        if state.read() is None:
            state.write(value)
        else:
            state.clear()

    spec = beam.transforms.userstate.ReadModifyWriteStateSpec("value", beam.coders.VarIntCoder())
    return p | beam.Create([("a", 1)] * 5 + [("b", 1)] * 2) | kept(beam, spec, alternating)


@program
def state_bag_of_values(beam, p):
    spec = beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder())
    return p | beam.Create([("a", 2)] * 4 + [("b", 3)] * 2) | kept(beam, spec, everything)


@program
def state_bag_cleared_when_full(beam, p):
    def in_threes(state, value):
        state.add(value)
        values = list(state.read())
        if len(values) == 3:
            state.clear()
            yield sum(values)

    spec = beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder())
    return p | beam.Create([("a", 2)] * 7 + [("b", 3)] * 3) | kept(beam, spec, in_threes)


@program
def state_set_of_values(beam, p):
    spec = beam.transforms.userstate.SetStateSpec("set", beam.coders.VarIntCoder())
    return p | beam.Create([("a", 1), ("b", 1), ("a", 1), ("a", 1)]) | kept(beam, spec, everything)


@program
def state_set_cleared(beam, p):
    def until_three(state, value):
        if len(list(state.read())) == 3:
            state.clear()
        state.add(value)
        yield len(list(state.read()))

    spec = beam.transforms.userstate.SetStateSpec("set", beam.coders.StrUtf8Coder())
    # One element makes all the values: their order is then the program's own.
    many = beam.FlatMap(lambda key: [(key, "x"), (key, "y"), (key, "x"), (key, "z"), (key, "z"), (key, "w")])
    return p | beam.Create(["a"]) | many | kept(beam, spec, until_three)


@program
def state_combined_values(beam, p):
    def running(state, value):
        state.add(2)
        yield state.read()

    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)
    return p | beam.Create(PAIRS) | kept(beam, spec, running)


@program
def state_combined_values_of_none(beam, p):
    def emptied(state, value):
        yield state.read()
        state.add(value)
        yield state.read()
        state.clear()
        yield state.read()

    spec = beam.transforms.userstate.CombiningValueStateSpec("count", beam.combiners.CountCombineFn())
    return p | beam.Create([("a", 1), ("b", 2)]) | kept(beam, spec, emptied)


@program
def state_combined_by_a_combine_fn(beam, p):
    class Longest(beam.CombineFn):
        def create_accumulator(self):
            return ""

        def add_input(self, accumulator, word):
            return max(accumulator, word, key=len)

        def merge_accumulators(self, accumulators):
            return max(["", *accumulators], key=len)

        def extract_output(self, accumulator):
            return len(accumulator), accumulator

    def longest(state, word):
        state.add(word)
        yield state.read()

    spec = beam.transforms.userstate.CombiningValueStateSpec("longest", combine_fn=Longest())
    return p | beam.Create([("a", "mill"), ("b", "wheel"), ("a", "mill")]) | kept(beam, spec, longest)


@program
def state_ordered_list(beam, p):
    time = beam.utils.timestamp.Timestamp

    def ordered(state, value):
        for second in (30, 10, 20):
            state.add((time(second), f"v{second}"))
        yield tuple((float(at), name) for at, name in state.read())
        yield tuple(name for _, name in state.read_range(time(10), time(30)))
        state.clear_range(time(15), time(25))
        yield tuple(name for _, name in state.read())
        state.clear()
        yield tuple(state.read())

    spec = beam.transforms.userstate.OrderedListStateSpec("list", beam.coders.StrUtf8Coder())
    return p | beam.Create([("a", 1), ("b", 1)]) | kept(beam, spec, ordered)


@program
def state_of_several_kinds(beam, p):
    userstate = beam.transforms.userstate
    last = userstate.ReadModifyWriteStateSpec("last", beam.coders.VarIntCoder())
    bag = userstate.BagStateSpec("bag", beam.coders.VarIntCoder())
    total = userstate.CombiningValueStateSpec("total", sum)

    class Several(beam.DoFn):
        def process(
            self,
            pair,
            factor,
            key=beam.DoFn.KeyParam,
            its=beam.DoFn.StateParam(bag),
            before=beam.DoFn.StateParam(last),
            all_together=beam.DoFn.StateParam(total),
        ):
            its.add(pair[1] * factor)
            all_together.add(pair[1])
            yield key, before.read(), sum(its.read()), all_together.read()
            before.write(pair[1])

    return p | beam.Create([("a", 2), ("b", 2), ("a", 2), ("a", 2)]) | beam.ParDo(Several(), 10)


@program
def state_by_window(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def running(state, value):
        state.add(1)
        yield state.read()

    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | beam.MapTuple(lambda key, value: (key, 1)) | kept(beam, spec, running) | beam.Map(lambda pair: pair)


@program
def state_by_sliding_window(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    class Count(beam.DoFn):
        def process(self, pair, window=beam.DoFn.WindowParam, state=beam.DoFn.StateParam(spec)):
            state.add(1)
            yield pair[0], float(window.start), state.read()

    same = [(("a", 1), 7), (("a", 1), 7), (("b", 1), 12)]
    return timed(beam, p, same) | beam.WindowInto(beam.window.SlidingWindows(10, 5)) | beam.ParDo(Count())


@program
def state_before_a_grouping(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def running(state, value):
        state.add(1)
        yield state.read()

    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | kept(beam, spec, running) | beam.CombinePerKey(sum)


@program
def state_with_tagged_outputs(beam, p):
    spec = beam.transforms.userstate.ReadModifyWriteStateSpec("seen", beam.coders.VarIntCoder())

    class First(beam.DoFn):
        def process(self, pair, seen=beam.DoFn.StateParam(spec)):
            if seen.read() is None:
                yield pair
            else:
                yield beam.pvalue.TaggedOutput("again", pair[0])
            seen.write(1)

    outputs = (
        p
        | beam.Create([("a", 1), ("b", 1), ("a", 1), ("a", 1)])
        | beam.ParDo(First()).with_outputs("again", main="first")
    )
    return {"first": outputs.first, "again": outputs.again}


@program
def state_with_outputs_at_other_times(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    class Move(beam.DoFn):
        def process(self, pair, time=beam.DoFn.TimestampParam, state=beam.DoFn.StateParam(spec)):
            state.add(1)
            yield beam.window.TimestampedValue((pair[0], state.read()), time + 10)

    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.ParDo(Move())


@program
def state_with_a_bundles_ends(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    class Framed(beam.DoFn):
        def setup(self):
            self.told = "set up"

        def start_bundle(self):
            self.told += ", started"

        def process(self, pair, state=beam.DoFn.StateParam(spec)):
            state.add(pair[1])
            yield self.told, state.read()

        def finish_bundle(self):
            windows = [beam.window.IntervalWindow(0, 10)]
            yield beam.transforms.window.WindowedValue("finished", 5, windows)

    # One key, so that every runner makes one bundle of it.
    return p | beam.Create([("a", 1)]) | beam.ParDo(Framed())


@program(masks=(LAST_BATCHES,))
def state_batches(beam, p):
    pairs = timed(beam, p, [(("a", 1), second) for second in range(7)] + [(("b", 1), 3), (("a", 1), 15)])
    batches = pairs | beam.WindowInto(beam.window.FixedWindows(10)) | beam.GroupIntoBatches(3)
    return batches | beam.MapTuple(lambda key, batch: (key, len(batch)))


@program(masks=(LAST_BATCHES,))
def state_batches_of_everything(beam, p):
    pairs = p | beam.Create([("a", 1)] * 5 + [("b", 1)])
    return pairs | beam.GroupIntoBatches(2) | beam.MapTuple(lambda key, batch: (key, len(batch)))


@program
def state_deduplicated(beam, p):
    duplicates = timed(beam, p, [("x", 1), ("x", 1), ("y", 2), ("x", 1)])
    return duplicates | beam.transforms.deduplicate.Deduplicate(event_time_duration=100)


@program
def state_deduplicated_per_key_and_window(beam, p):
    pairs = timed(beam, p, [(("a", 1), 1), (("a", 1), 1), (("b", 1), 2), (("a", 1), 11)])
    windowed = pairs | beam.WindowInto(beam.window.FixedWindows(10))
    return windowed | beam.transforms.deduplicate.DeduplicatePerKey(event_time_duration=5)


@streaming
def stream_state_over_bundles(beam, p):
    spec = beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder())
    script = [0, [(("a", 1), 1), (("b", 2), 2)], [(("a", 4), 3)], 5, [(("a", 8), 6), (("b", 16), 6)]]
    return stream(beam, p, *script) | kept(beam, spec, everything)


@streaming
def stream_state_by_window(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def running(state, value):
        state.add(value)
        yield state.read()

    script = [0, [(("a", 1), 1), (("a", 2), 11)], [(("a", 4), 3)], 5, [(("a", 8), 12)]]
    return stream(beam, p, *script) | beam.WindowInto(beam.window.FixedWindows(10)) | kept(beam, spec, running)


@streaming
def stream_state_of_panes(beam, p):
    spec = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def running(state, value):
        state.add(value)
        yield state.read()

    pairs = stream(beam, p, 0, [(("a", 1), 1)], [(("a", 2), 2)], 12) | beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
    )
    return pairs | beam.CombinePerKey(sum) | kept(beam, spec, running)
