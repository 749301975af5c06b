"""AbsentName: stands for a name of Beam that Headrace does not have, and raises when a program uses it.

The error says what to use instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from headrace.lowlevel.errors import HeadraceError

_BEAM = "run the program with apache_beam itself on headrace.runners.beam.HeadraceRunner"
_SERVICE = "call the service with headrace.AsyncMap, or " + _BEAM
_SPARK_READS = "read with io.ReadFromSpark and a connector of Spark, and write with io.ForeachEpoch"
_OTHER_LANGUAGES = "use io.kafka for Kafka, and io.ReadFromSpark for other systems: only transforms in Python run here"
_SOURCES = "read with a transform of headrace.io, or with an injector of headrace.lowlevel, or " + _BEAM
_INTERNAL = "it is a part of Beam's internals, which programs do not need here"
_CODERS = "use one of the other coders of headrace.coders, or a subclass of Coder"
_TESTS = "compare collections with assert_that and equal_to of testing.util"
_ENCRYPTION = "encrypt keys in a Map before GroupByKey, and keep the key where the workers can read it"
_HINTS = "use the types of Python's typing module as hints"

_ALTERNATIVES: Mapping[str, str] = {
    "": _BEAM,
    "coders": _CODERS,
    "coders.coder_impl": _INTERNAL,
    "coders.observable": _INTERNAL,
    "coders.slow_stream": _INTERNAL,
    "coders.typecoders": "register coders with coders.registry",
    "dataframe": "use pandas on batches of BatchElements, or Spark with io.ReadFromSpark, or " + _BEAM,
    "internal": _INTERNAL,
    "io": _SOURCES,
    "io.avroio": "give continuous=True to ReadFromAvro, or patterns to ReadAllFromAvro",
    "io.aws": "give s3:// paths to the transforms of io",
    "io.azure": _SPARK_READS,
    "io.components": _SERVICE,
    "io.debezium": _OTHER_LANGUAGES,
    "io.external": _OTHER_LANGUAGES,
    "io.filebasedsink": "write with io.WriteToText, io.WriteToParquet or io.ForeachEpoch",
    "io.flink": _INTERNAL,
    "io.gcp": "give gs:// paths to the transforms of io; for services " + _SPARK_READS,
    "io.hadoopfilesystem": _SPARK_READS,
    "io.jdbc": _SPARK_READS,
    "io.kafka": "use ReadFromKafka and WriteToKafka, which need no expansion service",
    "io.kinesis": _OTHER_LANGUAGES,
    "io.mongodbio": _SPARK_READS,
    "io.parquetio": "use ReadFromParquet and WriteToParquet, which pass batches of columns on by themselves",
    "io.requestresponse": _SERVICE,
    "io.snowflake": _SPARK_READS,
    "io.tfrecordio": _SPARK_READS,
    "metrics": "use Metrics.counter, distribution, gauge or string_set",
    "ml": "load the model in DoFn.setup and apply it to batches of BatchElements, or " + _BEAM,
    "options": "use the options in docs/options.md",
    "pipeline": "a Pipeline has its steps in Pipeline.steps, and headrace draw shows them",
    "portability": _INTERNAL,
    "runners": "the runners are LocalRunner, SparkRunner and, for apache_beam, headrace.runners.beam.HeadraceRunner",
    "testing": _TESTS,
    "tools": _INTERNAL,
    "transforms": _BEAM,
    "transforms.async_dofn": "use threads in the DoFn and wait for them in finish_bundle, or " + _BEAM,
    "transforms.display": "leave it out, as display data are not shown here",
    "transforms.enrichment": _SERVICE,
    "transforms.enrichment_handlers": _SERVICE,
    "transforms.environments": "Spark runs the workers, see docs/guide/cluster.md",
    "transforms.external": _OTHER_LANGUAGES,
    "transforms.external_java": _OTHER_LANGUAGES,
    "transforms.external_transform_provider": _OTHER_LANGUAGES,
    "transforms.managed": _OTHER_LANGUAGES,
    "transforms.resources": "set the resources of workers in Spark, see docs/guide/cluster.md",
    "transforms.sql": "use io.ReadFromSpark over a query of Spark SQL, or " + _BEAM,
    "transforms.trigger": _INTERNAL,
    "transforms.userstate": _INTERNAL,
    "transforms.util.GcpHsmGeneratedSecret": _ENCRYPTION,
    "transforms.util.GcpSecret": _ENCRYPTION,
    "transforms.util.GroupByEncryptedKey": _ENCRYPTION,
    "transforms.util.Secret": _ENCRYPTION,
    "transforms.window": _INTERNAL,
    "transforms.xlang": _OTHER_LANGUAGES,
    "typehints": _HINTS,
    "utils": _INTERNAL,
    "utils.multi_process_shared": "make the object once per process, in a variable of a module",
    "utils.shared": "make the object once per process, in a variable of a module",
    "yaml": "write the pipeline in Python",
}
"""Path of a name or module of Beam -> what to use instead of it, and of all names below it that have no entry."""


def alternative_to(path: str) -> str:
    """What to use instead of a name of Beam.

    Args:
        path: Module and name, without the name of the package.

    >>> alternative_to("yaml.yaml_io")
    'write the pipeline in Python'
    """
    while path and path not in _ALTERNATIVES:
        path = path.rpartition(".")[0]
    return _ALTERNATIVES[path]


PAGE = "docs/guide/from-beam.md"
"""The page with a table of all names of Beam."""


class AbsentNameError(HeadraceError, AttributeError):
    """A program uses a name of Beam that Headrace does not have. The message says what to use instead."""


@dataclass(frozen=True, slots=True)
class AbsentName:
    """A class, function or constant of Beam that Headrace does not have.

    A program can import the name and define a subclass, so a module that has more than it uses still works. Every other
    use of the name raises `AbsentNameError`: a call, also of a subclass, an attribute, `isinstance`, `|`.

    >>> AbsentName("transforms.sql.SqlTransform")("SELECT 1")
    Traceback (most recent call last):
      ...
    headrace.absent_names.absent_name.AbsentNameError: Apache Beam has transforms.sql.SqlTransform, and Headrace ...
    """

    path: str
    """Module and name, without the name of the package."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise `AbsentNameError`, as every use does."""
        raise AbsentNameError(
            f"Apache Beam has {self.path}, and Headrace has not: {alternative_to(self.path)}. "
            f"{PAGE} lists all names of Beam"
        )

    __getitem__ = __iter__ = __or__ = __ror__ = __rrshift__ = __instancecheck__ = __subclasscheck__ = __call__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            # Python's own protocols ask for such names, and take AttributeError for no.
            raise AttributeError(name)
        self()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type]:
        def refuse(kind: type, *args: object, **kwargs: object) -> NoReturn:
            self()

        return (type(self.path.rpartition(".")[2], (), {"__new__": refuse, "__module__": __name__}),)
