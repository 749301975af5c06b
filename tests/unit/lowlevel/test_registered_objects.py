"""Functions that use Protocol Buffers and absl's flags are sent to other processes."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel.code_pickling import ShippingError, dumps, shipped
from tests.unit.collected import values

pytest.importorskip("google.protobuf")
from google.protobuf import api_pb2, descriptor_pb2, descriptor_pool, struct_pb2
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

KIND = struct_pb2.Value.DESCRIPTOR
DESCRIPTORS = [
    KIND,
    KIND.file,
    KIND.fields[0],
    KIND.oneofs[0],
    struct_pb2.NullValue.DESCRIPTOR,
    struct_pb2.NullValue.DESCRIPTOR.values[0],
    api_pb2.Api.DESCRIPTOR.fields_by_name["syntax"],
]


def colors(pool: descriptor_pool.DescriptorPool) -> EnumTypeWrapper:
    """An enum as a generated module has it, whose file no other process has."""
    file = descriptor_pb2.FileDescriptorProto(name="tests/colors.proto", package="tests")
    file.enum_type.add(name="Color").value.add(name="RED", number=7)
    extended = file.message_type.add(name="Painted")
    extended.extension_range.add(start=100, end=200)
    file.extension.add(name="gloss", number=100, label=1, type=5, extendee=".tests.Painted")
    file.message_type.add(name="Empty")
    service = file.service.add(name="Painter")
    service.method.add(name="Paint", input_type=".tests.Empty", output_type=".tests.Painted")
    pool.AddSerializedFile(file.SerializeToString())
    return EnumTypeWrapper(pool.FindEnumTypeByName("tests.Color"))


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: type(descriptor).__name__)
def test_a_descriptor_stands_for_that_of_the_process(descriptor):
    copy = shipped(lambda: descriptor, "Described")()
    assert copy is descriptor or (copy.type is descriptor.type and copy.name == descriptor.name)


def test_a_step_may_use_an_enum():
    color = colors(descriptor_pool.Default())
    named = values(lambda pipeline: pipeline | beam.Create([7]) | beam.Map(lambda number: color.Name(number)))
    assert named == ["RED"]


OTHER = """
import pickle, sys
color, extension, method = pickle.loads(open(sys.argv[1], "rb").read())
print(color.RED, extension.full_name, method.full_name)
"""


def test_another_process_gets_the_file_of_the_enum(tmp_path: Path):
    pool = descriptor_pool.Default()
    color = colors(pool)
    extension = pool.FindExtensionByName("tests.gloss")
    method = pool.FindMethodByName("tests.Painter.Paint")
    (tmp_path / "code").write_bytes(dumps((color, extension, method)))
    ran = subprocess.run(
        [sys.executable, "-c", OTHER, str(tmp_path / "code")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["7", "tests.gloss", "tests.Painter.Paint"]


def test_an_enum_of_a_pool_of_its_own_is_refused_as_before():
    color = colors(descriptor_pool.DescriptorPool())
    with pytest.raises(ShippingError, match=r"step 'Paint'.*variable 'color'.*Descriptor"):
        shipped(lambda: color.RED, "Paint")


class FlagValues:
    """As that of absl, which cannot be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("can't pickle FlagValues")


def test_the_flags_of_absl_are_those_of_the_process(monkeypatch):
    monkeypatch.setattr(FlagValues, "__module__", "absl.flags._flagvalues")
    absl, module = types.ModuleType("absl"), types.ModuleType("absl.flags")
    absl.flags, module.FLAGS = module, FlagValues()
    monkeypatch.setitem(sys.modules, "absl", absl)
    monkeypatch.setitem(sys.modules, "absl.flags", module)
    flags, others = module.FLAGS, FlagValues()
    assert shipped(lambda: flags, "Flags")() is flags
    with pytest.raises(ShippingError, match="variable 'others'"):
        shipped(lambda: others, "Flags")
