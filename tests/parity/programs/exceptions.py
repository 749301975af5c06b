"""What: elements that a step fails for, put out beside the others."""

from __future__ import annotations

from importlib import import_module

from tests.parity.corpus import program, timed
from tests.parity.programs.wrong import wrong
from tests.parity.watching import stream

NUMBERS = [2, 1, 0, 4]
TIMED = [(2, 1), (0, 4), (5, 11), (0, 12), (0, 13)]


def inverse(number):
    return 12 / number


def handlers(beam):
    return import_module(f"{beam.__name__}.transforms.error_handling")


def plain(beam, bad):
    """Bad elements without what differs from package to package: the lines of the traceback."""

    def strip(pair):
        element, (kind, representation, lines) = pair
        assert lines[0].startswith("Traceback") and any("ZeroDivision" in line or "Error" in line for line in lines)
        return element, kind.__name__, representation

    return bad | f"Plain {bad.tag}" >> beam.Map(strip)


@program
def bad_elements_of_map(beam, p):
    good, bad = p | beam.Create(NUMBERS) | beam.Map(inverse).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_in_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    good, bad = windowed | "Invert" >> beam.Map(inverse).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_under_other_tags(beam, p):
    step = beam.Map(inverse).with_exception_handling(main_tag="fine", dead_letter_tag="broken")
    outputs = p | beam.Create(NUMBERS) | step
    return {"fine": outputs.fine, "broken": plain(beam, outputs["broken"])}


@program
def bad_elements_of_flat_map(beam, p):
    def parts(number):
        yield "begun", number
        yield "done", 12 // number

    good, bad = p | beam.Create(NUMBERS) | beam.FlatMap(parts).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_with_partial_outputs(beam, p):
    def parts(number):
        yield "begun", number
        yield "done", 12 // number

    good, bad = p | beam.Create(NUMBERS) | beam.FlatMap(parts).with_exception_handling(partial=True)
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_of_filter(beam, p):
    good, bad = p | beam.Create(NUMBERS) | beam.Filter(lambda n: 12 / n > 5).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_of_map_tuple(beam, p):
    pairs = p | beam.Create([(1, 2), (1, 0)])
    good, bad = pairs | beam.MapTuple(lambda a, b: a / b).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_of_flat_map_tuple(beam, p):
    pairs = p | beam.Create([(1, 2), (1, 0)])
    good, bad = pairs | beam.FlatMapTuple(lambda a, b: [a / b, a]).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_with_arguments(beam, p):
    def scaled(number, factor, plus=0):
        return factor / number + plus

    good, bad = timed(beam, p, TIMED) | beam.Map(scaled, 12, plus=100).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_with_parameters(beam, p):
    def placed(number, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam):
        return 12 / number, when, where

    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    good, bad = windowed | beam.Map(placed).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_of_a_do_fn(beam, p):
    class Inverse(beam.DoFn):
        def setup(self):
            self.numerator = 12

        def start_bundle(self):
            self.seen = 0

        def process(self, number):
            self.seen += 1
            return [self.numerator / number]

    good, bad = p | beam.Create(NUMBERS) | beam.ParDo(Inverse()).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_beside_other_outputs(beam, p):
    class Split(beam.DoFn):
        def process(self, number):
            if number > 1:
                yield beam.pvalue.TaggedOutput("large", number)
            yield 12 / number

    step = beam.ParDo(Split()).with_exception_handling().with_outputs("large", main="main")
    outputs = p | beam.Create(NUMBERS) | step
    return {"main": outputs.main, "large": outputs.large, "bad": plain(beam, outputs.bad)}


@program
def only_some_exceptions_are_caught(beam, p):
    step = beam.Map(inverse).with_exception_handling(exc_class=(KeyError, ZeroDivisionError))
    good, bad = p | beam.Create(NUMBERS) | step
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_within_the_threshold(beam, p):
    good, bad = p | beam.Create(NUMBERS) | beam.Map(inverse).with_exception_handling(threshold=0.5)
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_within_the_threshold_of_wider_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    step = beam.Map(inverse).with_exception_handling(threshold=0.61, threshold_windowing=beam.window.FixedWindows(100))
    good, bad = windowed | step
    return {"good": good, "bad": plain(beam, bad)}


@program
def bad_elements_under_a_label(beam, p):
    good, bad = p | beam.Create(NUMBERS) | "Invert" >> beam.Map(inverse).with_exception_handling()
    return {"good": good, "bad": plain(beam, bad)}


@program
def error_handler(beam, p):
    numbers = p | beam.Create(NUMBERS)
    kept = []

    class Keep(beam.PTransform):
        def expand(self, errors):
            kept.append(errors | beam.Map(lambda pair: (pair[0], pair[1][1])))
            return kept[0]

    with handlers(beam).ErrorHandler(Keep()) as handler:
        one = numbers | "One" >> beam.Map(inverse).with_exception_handling(error_handler=handler)
        two = numbers | "Two" >> beam.Map(lambda n: 1 / (n - 1)).with_error_handler(handler)
    return {"one": one, "two": two, "bad": kept[0]}


@program
def collecting_error_handler(beam, p):
    handling = handlers(beam).CollectingErrorHandler()
    with handling as handler:
        good = p | beam.Create(NUMBERS) | beam.Map(inverse).with_exception_handling(error_handler=handler)
    return {"good": good, "bad": handler.output() | beam.Map(lambda pair: pair[0])}


@program(streaming=True)
def bad_elements_of_a_stream(beam, p):
    events = stream(beam, p, 0, [(2, 1), (0, 2)], 12, [(0, 13), (3, 14)])
    windowed = events | beam.WindowInto(beam.window.FixedWindows(10))
    good, bad = windowed | "Invert" >> beam.Map(inverse).with_exception_handling()
    counted = bad | beam.Map(lambda pair: (pair[0], 1)) | beam.CombinePerKey(sum)
    return {"good": good, "bad": counted}


def fails(beam, p, values, **options):
    windowed = timed(beam, p, values) | beam.WindowInto(beam.window.FixedWindows(10))
    good, bad = windowed | beam.Map(inverse).with_exception_handling(**options)
    return {"good": good, "bad": plain(beam, bad)}


@wrong(Exception, "threshold")
def too_many_bad_elements(beam, p):
    return fails(beam, p, [(2, 1), (0, 2), (1, 3), (4, 5)], threshold=0.2)


@wrong(Exception, "threshold")
def too_many_bad_elements_in_one_window(beam, p):
    return fails(beam, p, TIMED, threshold=0.6)


@wrong(Exception, "division by zero")
def an_exception_of_another_class(beam, p):
    return fails(beam, p, TIMED, exc_class=KeyError)
