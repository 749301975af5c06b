"""What: elements that move in time and windows, transforms made of transforms, collections flattened."""

from __future__ import annotations

from tests.parity.corpus import program, timed

SUMMED = [(("a", 1), 1), (("a", 2), 9.5), (("b", 4), 15)]
TIMED = [("a", 1), ("b", 9.5), ("c", 10), ("a", 12.25), ("d", 30)]


@program
def timestamped_values(beam, p):
    return timed(beam, p, TIMED)


@program
def timestamped_values_of_timestamps(beam, p):
    time = beam.utils.timestamp.Timestamp
    return p | beam.Create([1, 2.5]) | beam.Map(lambda x: beam.window.TimestampedValue(x, time(micros=int(x * 1e6))))


@program
def timestamped_values_move_between_windows(beam, p):
    later = beam.Map(lambda x, time=beam.DoFn.TimestampParam: beam.window.TimestampedValue(x, time + 10))
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10)) | later


@program
def timestamped_values_move_between_sliding_windows(beam, p):
    later = beam.Map(lambda x, time=beam.DoFn.TimestampParam: beam.window.TimestampedValue(x, time + 3))
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5)) | later


@program
def timestamped_values_move_between_sessions(beam, p):
    later = beam.Map(lambda x, time=beam.DoFn.TimestampParam: beam.window.TimestampedValue((x, 1), time + 7))
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.Sessions(5)) | later | beam.CombinePerKey(sum)


@program
def timestamped_values_after_grouping(beam, p):
    pairs = timed(beam, p, SUMMED) | beam.WindowInto(beam.window.FixedWindows(10))
    sums = pairs | beam.CombinePerKey(sum)
    moved = sums | beam.Map(lambda pair: beam.window.TimestampedValue(pair, pair[1] * 10))
    return {"moved": moved, "again": moved | "Again" >> beam.CombinePerKey(sum)}


@program
def windowed_again_elements_after_grouping(beam, p):
    pairs = timed(beam, p, SUMMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | beam.CombinePerKey(sum) | "Slide" >> beam.WindowInto(beam.window.SlidingWindows(20, 10))


@program
def windows_become_keys(beam, p):
    by_window = beam.Map(lambda x, window=beam.DoFn.WindowParam: (str(window.start.micros), x))
    return timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5)) | by_window | beam.GroupByKey()


@program
def windowed_values_choose_their_windows(beam, p):
    class Choose(beam.DoFn):
        def process(self, element):
            windows = [beam.window.IntervalWindow(0, 10), beam.window.IntervalWindow(5, 50)]
            yield beam.transforms.window.WindowedValue(element, 7, windows)

    return timed(beam, p, [("a", 1), ("b", 2)]) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.ParDo(Choose())


@program
def composite_transforms(beam, p):
    class Squares(beam.PTransform):
        def __init__(self, plus):
            super().__init__()
            self.plus = plus

        def expand(self, numbers):
            return numbers | beam.Map(lambda x: x * x) | "Plus" >> beam.Map(lambda x, plus: x + plus, self.plus)

    numbers = p | beam.Create([1, 2, 3])
    return {"once": numbers | "Once" >> Squares(1), "again": numbers | "Again" >> Squares(100)}


@program
def composite_of_a_function(beam, p):
    @beam.ptransform_fn
    def Scaled(numbers, factor):
        return numbers | beam.Map(lambda x: x * factor)

    return p | beam.Create([1, 2, 3]) | Scaled(3) | "Again" >> Scaled(5)


@program
def chains_of_transforms(beam, p):
    chain = beam.Map(lambda x: x + 1) | "Double" >> beam.Map(lambda x: 2 * x) | beam.Filter(lambda x: x > 4)
    return p | beam.Create([1, 2, 3]) | "Chain" >> chain


@program
def flatten_collections(beam, p):
    one, two = p | "One" >> beam.Create([1, 2]), p | "Two" >> beam.Create([2, 3])
    return {
        "tuple": (one, two) | "T" >> beam.Flatten(),
        "list": [one, two, one] | "L" >> beam.Flatten(),
        "single": (one,) | "S" >> beam.Flatten(),
    }


@program
def flatten_with_itself(beam, p):
    numbers = p | beam.Create([("a", 1), ("b", 2)])
    return (numbers, numbers) | beam.Flatten() | beam.CombinePerKey(sum)


@program
def flatten_windowed_collections(beam, p):
    def windowed(values, label):
        return timed(beam, p, values, label) | f"{label}/W" >> beam.WindowInto(beam.window.FixedWindows(10))

    one, two = windowed([(("a", 1), 1), (("a", 2), 11)], "One"), windowed([(("a", 3), 2), (("b", 4), 25)], "Two")
    both = (one, two) | beam.Flatten()
    return {"elements": both, "sums": both | beam.CombinePerKey(sum)}


@program
def flatten_outputs_of_groupings(beam, p):
    pairs = timed(beam, p, [(("a", 1), 1), (("b", 2), 3), (("a", 4), 12)]) | beam.WindowInto(
        beam.window.FixedWindows(10)
    )
    sums, counts = pairs | beam.CombinePerKey(sum), pairs | beam.combiners.Count.PerKey()
    both = (sums, counts) | beam.Flatten()
    return {"panes": both, "again": both | "Again" >> beam.CombinePerKey(sum)}


@program
def flatten_element_and_grouped(beam, p):
    pairs = timed(beam, p, [(("a", 1), 1), (("a", 4), 12)]) | beam.WindowInto(beam.window.FixedWindows(10))
    return (pairs, pairs | beam.CombinePerKey(sum)) | beam.Flatten() | "Again" >> beam.CombinePerKey(sum)
