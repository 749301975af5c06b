"""What a step raises is raised by the run as the class that it is of, with step, key and value in the message."""

from __future__ import annotations

import pickle
from abc import ABCMeta

import pytest

import headrace as beam
from headrace.lowlevel import KeyEncodingError, StepError
from headrace.lowlevel.errors import CheckpointError, HeadraceError
from headrace.lowlevel.user_errors import as_raised, failed_step
from headrace.testing.util import BeamAssertException, assert_that, equal_to
from headrace.typehints import TypeCheckError


class Odd(ValueError):
    """Made of two arguments that it does not hand on."""

    def __init__(self, code, reason):
        super().__init__(f"{code} because of {reason}")
        self.code = code

    def __str__(self):
        return "never shown alone"


class Slotted(Exception):
    __slots__ = ("where",)

    def __init__(self, where):
        super().__init__(where)
        self.where = where


class Abstract(LookupError, metaclass=ABCMeta):
    pass


class Over(RuntimeError):
    def __init__(self, one, *, two):
        super().__init__(one)
        self.two = two


class Keyed(Exception):
    def __init__(self, key):
        super().__init__(key)
        self.key = key


class Final(Exception):
    def __init_subclass__(cls):
        raise TypeError("no subclasses")


class Holding(Exception):
    """With what cannot be pickled."""

    def __init__(self):
        super().__init__("held", lambda: 0)
        self.hold = lambda: 0


def defined_within():
    class Local(Exception):
        pass

    return Local


Local = defined_within()


def decoding():
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error


MADE = {
    "value": lambda: ValueError("bad value"),
    "no text": lambda: ValueError(3, "x"),
    "nothing": lambda: AssertionError(),
    "key": lambda: KeyError("red"),
    "system": lambda: FileNotFoundError(2, "No such file", "/there"),
    "decoding": decoding,
    "syntax": lambda: SyntaxError("wrong", ("file.py", 3, 1, "x =")),
    "group": lambda: ExceptionGroup("two", [ValueError(1), KeyError(2)]),
    "odd": lambda: Odd(5, "that"),
    "slots": lambda: Slotted("there"),
    "abstract": lambda: Abstract("it"),
    "runtime": lambda: Over(1, two=2),
    "holding": Holding,
    "local": lambda: Local("here"),
}


def run(make):
    def fail(element):
        raise make()

    with beam.Pipeline("LocalRunner") as pipeline:
        pipeline | beam.Create([("red", 5)]) | "Divide" >> beam.Map(fail)


@pytest.mark.parametrize("name", MADE)
def test_a_run_raises_the_class_that_a_step_has_raised(name):
    original = MADE[name]()
    with pytest.raises(type(original)) as told:
        run(MADE[name])
    error = told.value
    assert isinstance(error, StepError) and type(error.__cause__) is type(original)
    assert (error.step, error.value) == ("Divide", ("red", 5)) and error.key is None
    assert str(error).startswith("step 'Divide' raised at ('red', 5); nothing of this epoch is committed\n")
    assert type(original).__name__ in str(error) and repr(error).startswith("StepError(")
    if name not in ("group", "holding"):
        assert error.__cause__.args == original.args


def test_attributes_of_what_was_raised_are_there():
    with pytest.raises(OSError) as told:
        run(MADE["system"])
    assert (told.value.errno, told.value.filename, told.value.__cause__.errno) == (2, "/there", 2)
    with pytest.raises(Odd) as odd:
        run(MADE["odd"])
    assert odd.value.code == odd.value.__cause__.code == 5
    with pytest.raises(Slotted) as slotted:
        run(MADE["slots"])
    assert slotted.value.where == slotted.value.__cause__.where == "there"
    with pytest.raises(Keyed) as keyed:
        run(lambda: Keyed("mine"))
    # What the run says of the record comes first; the rest is in the cause.
    assert (keyed.value.key, keyed.value.__cause__.key) == (None, "mine")


@pytest.mark.parametrize("make", [StopIteration, lambda: Final("x"), lambda: CheckpointError("damaged")])
def test_what_cannot_or_must_not_have_another_base_stays_a_step_error_with_its_cause(make):
    with pytest.raises(StepError) as told:
        run(make)
    assert type(told.value) is StepError and type(told.value.__cause__) is type(make())


def test_errors_of_ours_about_types_are_type_errors():
    with pytest.raises(TypeCheckError):
        run(lambda: TypeCheckError("the step takes str"))
    with pytest.raises(KeyEncodingError), beam.Pipeline("LocalRunner") as pipeline:
        pipeline | beam.Create([1]) | beam.Map(lambda one: (one * 1j, one)) | beam.GroupByKey()


def test_of_a_keyed_step_the_key_is_told():
    with pytest.raises(ZeroDivisionError) as told, beam.Pipeline("LocalRunner") as pipeline:
        pipeline | beam.Create([("red", 0)]) | "Sum" >> beam.CombinePerKey(lambda numbers: 1 // sum(numbers))
    assert told.value.step == "Sum" and told.value.key == "red"


def test_assertions_of_tests_are_raised_as_such():
    with pytest.raises(BeamAssertException), beam.Pipeline("LocalRunner") as pipeline:
        assert_that(pipeline | beam.Create([1]), equal_to([2]))


def test_an_exception_ends_the_program_only_if_it_is_one_that_does():
    for kind in (SystemExit, KeyboardInterrupt):
        with pytest.raises(kind) as told:
            run(kind)
        assert not isinstance(told.value, HeadraceError)


def test_it_can_be_pickled():
    error = as_raised(failed_step(Odd(1, 2), "Step", "k", 5))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, StepError) and isinstance(again, Odd) and str(again) == str(error) and again.code == 1
    assert isinstance(again.__cause__, Odd)


def test_a_class_that_is_not_to_be_had_here_leaves_a_step_error():
    error = failed_step(ValueError(1), "Step", "k", 5)
    error.raised = b"what nobody can read"
    assert as_raised(error) is error


def test_members_that_were_not_set_are_not_told():
    error = as_raised(failed_step(OSError(2, "gone"), "Open", None, 5))
    assert str(error.__cause__) == "[Errno 2] gone"
