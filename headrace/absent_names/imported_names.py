"""Names that Beam's modules import from each other; `python -m tests.beamnames` writes this module."""

from __future__ import annotations

IMPORTED_NAMES = {
    "": """
    coders.row_coder.RowCoder options.pipeline_options transforms.core transforms.ptransform
    transforms.ptransform.label_from_callable transforms.stats transforms.timeutil
    transforms.timeutil.TimeDomain transforms.userstate transforms.util typehints.decorators.WithTypeHints
    typehints.row_type typehints.typehints.Union
    """,
    "coders.coders": "typehints.typehints utils.windowed_value",
    "coders.row_coder": """
    coders.coders.BooleanCoder coders.coders.BytesCoder coders.coders.Coder coders.coders.DecimalCoder
    coders.coders.FloatCoder coders.coders.IterableCoder coders.coders.MapCoder coders.coders.NullableCoder
    coders.coders.StrUtf8Coder coders.coders.TimestampCoder coders.coders.VarIntCoder coders.typecoders
    typehints.row_type
    """,
    "coders.typecoders": "coders.coders typehints.typehints utils.windowed_value",
    "io.avroio": """
    io.filesystem.CompressionTypes io.filesystems.FileSystems io.iobase io.iobase.Read
    transforms.ptransform.PTransform
    """,
    "io.fileio": """
    coders.coders.VarIntCoder io.filesystem io.filesystem.BeamIOError io.filesystem.CompressionTypes
    io.filesystems options.pipeline_options.GoogleCloudOptions options.value_provider.StaticValueProvider
    options.value_provider.ValueProvider transforms.periodicsequence.PeriodicImpulse
    transforms.window.BoundedWindow transforms.window.FixedWindows transforms.window.GlobalWindow
    transforms.window.IntervalWindow transforms.window.TimestampedValue utils.timestamp.Duration
    utils.timestamp.MAX_TIMESTAMP utils.timestamp.Timestamp
    """,
    "io.filesystems": "options.value_provider.RuntimeValueProvider",
    "io.iobase": """
    coders pvalue pvalue.AsIter pvalue.AsSingleton transforms.core transforms.core.DoFn transforms.core.Impulse
    transforms.ptransform transforms.ptransform.PTransform transforms.window utils.timestamp
    utils.windowed_value.WindowedValue
    """,
    "io.parquetio": """
    io.filesystem.CompressionTypes io.filesystems.FileSystems io.iobase.Read io.iobase.Write
    transforms.core.DoFn transforms.core.ParDo transforms.ptransform.PTransform transforms.window
    utils.windowed_value.WindowedValue
    """,
    "io.restriction_trackers": "io.iobase.RestrictionProgress io.iobase.RestrictionTracker",
    "io.textio": """
    coders.coders io.filesystem.CompressionTypes io.iobase io.iobase.Read io.iobase.Write
    transforms.ptransform.PTransform typehints
    """,
    "io.watermark_estimators": """
    io.iobase.WatermarkEstimator transforms.core.WatermarkEstimatorProvider utils.timestamp.Timestamp
    """,
    "metrics.metric": """
    metrics.cells metrics.execution.MetricResult metrics.metricbase.Counter metrics.metricbase.Distribution
    metrics.metricbase.Gauge metrics.metricbase.MetricName metrics.metricbase.StringSet
    """,
    "options.pipeline_options": """
    options.value_provider.RuntimeValueProvider options.value_provider.StaticValueProvider
    options.value_provider.ValueProvider
    """,
    "options.value_provider": "error",
    "pipeline": """
    coders.typecoders io.filesystems.FileSystems options.pipeline_options.CrossLanguageOptions
    options.pipeline_options.DebugOptions options.pipeline_options.PipelineOptions
    options.pipeline_options.SetupOptions options.pipeline_options.StandardOptions
    options.pipeline_options.StreamingOptions options.pipeline_options.TypeOptions pvalue transforms.core.ParDo
    transforms.ptransform typehints.decorators.TypeCheckError typehints.typehints
    """,
    "pvalue": "coders typehints",
    "runners": "runners.runner.PipelineState",
    "runners.interactive.interactive_beam": "options.pipeline_options.FlinkRunnerOptions runners.runner.PipelineState",
    "runners.runner": """
    options.pipeline_options.PipelineOptions options.pipeline_options.PortableOptions
    options.pipeline_options.SetupOptions options.pipeline_options.StandardOptions
    options.pipeline_options.TypeOptions
    """,
    "runners.sdf_utils": """
    transforms.core.WatermarkEstimatorProvider utils.timestamp.Duration utils.timestamp.Timestamp
    utils.windowed_value.WindowedValue
    """,
    "testing.test_pipeline": "options.pipeline_options.PipelineOptions pipeline.Pipeline runners.runner.PipelineState",
    "testing.test_stream": """
    coders pvalue transforms.core transforms.ptransform.PTransform transforms.timeutil.TimeDomain
    transforms.userstate.TimerSpec transforms.userstate.on_timer transforms.window
    transforms.window.TimestampedValue utils.timestamp utils.timestamp.Duration utils.timestamp.MIN_TIMESTAMP
    utils.timestamp.Timestamp utils.windowed_value.WindowedValue
    """,
    "testing.test_utils": "io.filesystems.FileSystems",
    "testing.util": """
    pvalue transforms.core.Create transforms.core.DoFn transforms.core.Filter transforms.core.Map
    transforms.core.ParDo transforms.core.WindowInto transforms.ptransform.PTransform
    transforms.ptransform.ptransform_fn transforms.util.CoGroupByKey transforms.window
    utils.windowed_value.PaneInfo
    """,
    "transforms": """
    coders.row_coder.RowCoder options.pipeline_options pvalue transforms.ptransform.label_from_callable
    transforms.timeutil.TimeDomain typehints.decorators.WithTypeHints typehints.row_type
    typehints.typehints.Union
    """,
    "transforms.combiners": """
    transforms.core transforms.ptransform transforms.window typehints typehints.decorators.with_input_types
    typehints.decorators.with_output_types utils.timestamp.Duration utils.timestamp.Timestamp
    utils.windowed_value.WindowedValue
    """,
    "transforms.core": """
    coders coders.typecoders options.pipeline_options.SetupOptions options.pipeline_options.TypeOptions pvalue
    transforms.ptransform transforms.ptransform.PTransform transforms.userstate transforms.userstate.StateSpec
    transforms.userstate.TimerSpec transforms.window.GlobalWindows transforms.window.SlidingWindows
    transforms.window.TimestampCombiner transforms.window.TimestampedValue transforms.window.WindowFn typehints
    typehints.decorators.TypeCheckError typehints.decorators.WithTypeHints typehints.decorators.get_type_hints
    typehints.decorators.with_input_types typehints.decorators.with_output_types typehints.row_type
    utils.timestamp.Duration utils.windowed_value.WindowedValue
    """,
    "transforms.deduplicate": """
    coders.coders.BooleanCoder transforms.core transforms.ptransform transforms.timeutil.TimeDomain
    transforms.userstate typehints utils.timestamp
    """,
    "transforms.error_handling": "transforms",
    "transforms.periodicsequence": """
    io.restriction_trackers.OffsetRange io.restriction_trackers.OffsetRestrictionTracker
    io.watermark_estimators.ManualWatermarkEstimator runners.sdf_utils transforms.core
    transforms.ptransform.PTransform transforms.window transforms.window.TimestampedValue utils.timestamp
    utils.timestamp.Duration utils.timestamp.MAX_TIMESTAMP utils.timestamp.Timestamp
    """,
    "transforms.ptransform": """
    error pvalue pvalue.DoOutputsTuple typehints.decorators.IOTypeHints typehints.decorators.TypeCheckError
    typehints.decorators.WithTypeHints typehints.decorators.get_type_hints typehints.typehints
    """,
    "transforms.stats": """
    coders transforms.core.CombineFn transforms.core.CombineGlobally transforms.core.CombinePerKey
    transforms.core.CombineValues transforms.core.Create transforms.core.DoFn transforms.core.Filter
    transforms.core.FlatMap transforms.core.FlatMapTuple transforms.core.Flatten transforms.core.FlattenWith
    transforms.core.GroupBy transforms.core.GroupByKey transforms.core.Impulse transforms.core.Map
    transforms.core.MapTuple transforms.core.ParDo transforms.core.Partition transforms.core.PartitionFn
    transforms.core.RestrictionProvider transforms.core.Select transforms.core.WatermarkEstimatorProvider
    transforms.core.WindowInto transforms.core.Windowing transforms.ptransform.PTransform typehints
    """,
    "transforms.trigger": """
    transforms.combiners transforms.core transforms.timeutil.TimeDomain transforms.window.GlobalWindow
    transforms.window.GlobalWindows transforms.window.TimestampCombiner transforms.window.WindowFn
    utils.timestamp.MAX_TIMESTAMP utils.timestamp.MIN_TIMESTAMP utils.windowed_value
    utils.windowed_value.WindowedValue
    """,
    "transforms.userstate": """
    coders.coders coders.coders.Coder transforms.timeutil.TimeDomain utils.timestamp.Timestamp
    utils.windowed_value
    """,
    "transforms.util": """
    coders metrics.metric.Metrics pvalue pvalue.AsSideInput pvalue.PCollection
    transforms.combiners.CountCombineFn transforms.core.CombinePerKey transforms.core.Create
    transforms.core.DoFn transforms.core.FlatMap transforms.core.Flatten transforms.core.GroupByKey
    transforms.core.Map transforms.core.MapTuple transforms.core.ParDo transforms.core.Windowing
    transforms.ptransform.PTransform transforms.ptransform.ptransform_fn transforms.timeutil.TimeDomain
    transforms.trigger.AccumulationMode transforms.trigger.Always transforms.userstate.BagStateSpec
    transforms.userstate.CombiningValueStateSpec transforms.userstate.ReadModifyWriteStateSpec
    transforms.userstate.TimerSpec transforms.userstate.on_timer transforms.window
    transforms.window.NonMergingWindowFn transforms.window.TimestampCombiner transforms.window.TimestampedValue
    typehints utils.sharded_key.ShardedKey utils.timestamp.Timestamp utils.windowed_value
    """,
    "transforms.window": """
    coders.coders transforms.timeutil utils.timestamp.Duration utils.timestamp.MIN_TIMESTAMP
    utils.timestamp.Timestamp utils.windowed_value
    """,
    "typehints": """
    typehints.decorators.WithTypeHints typehints.decorators.disable_type_annotations
    typehints.decorators.no_annotations
    """,
    "typehints.decorators": "pvalue.TaggedOutput typehints.typehints",
    "typehints.row_type": "typehints.typehints",
    "utils.windowed_value": "utils.timestamp.MAX_TIMESTAMP utils.timestamp.MIN_TIMESTAMP",
}
"""Path of a module of Beam, without `apache_beam` -> paths of what it imports and Headrace has there."""
