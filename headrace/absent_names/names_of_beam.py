"""The names of Beam that Headrace does not have; `python -m tests.beamnames` writes this module."""

from __future__ import annotations

ABSENT_MODULES = {
    "": "dataframe internal ml portability tools yaml",
    "coders": "avro_record coder_impl coders_test_common observable slow_stream",
    "dataframe": """
    convert doctests expressions frame_base frames io pandas_top_level_functions partitionings schemas
    transforms
    """,
    "internal": """
    azure cloudpickle cloudpickle_pickler code_object_pickler dill_pickler gcp http_client metrics pickler
    set_pickler util
    """,
    "internal.azure": "auth",
    "internal.cloudpickle": "cloudpickle cloudpickle_fast",
    "internal.gcp": "auth json_value",
    "internal.metrics": "metric",
    "io": """
    aws azure components concat_source debezium external filebasedsink filebasedsource filesystemio flink gcp
    hadoopfilesystem jdbc kinesis localfilesystem mongodbio range_trackers requestresponse snowflake
    source_test_utils tfrecordio unbounded_source utils watch
    """,
    "io.aws": "clients s3filesystem s3io",
    "io.aws.clients": "s3",
    "io.aws.clients.s3": "boto3_client fake_client messages",
    "io.azure": "blobstoragefilesystem blobstorageio",
    "io.components": "adaptive_throttler rate_limiter util",
    "io.external": "gcp generate_sequence kafka snowflake",
    "io.external.gcp": "pubsub",
    "io.flink": "flink_streaming_impulse_source",
    "io.gcp": """
    big_query_query_to_table_pipeline bigquery bigquery_avro_tools bigquery_change_history bigquery_file_loads
    bigquery_io_metadata bigquery_io_read_pipeline bigquery_read_internal bigquery_schema_tools bigquery_tools
    bigtableio datastore dicomclient dicomio experimental gce_metadata_util gcsfilesystem gcsio gcsio_retry
    healthcare internal pubsub pubsub_it_pipeline resource_identifiers spanner spanner_wrapper tests
    """,
    "io.gcp.datastore": "v1new",
    "io.gcp.datastore.v1new": """
    datastore_write_it_pipeline datastoreio helper query_splitter rampup_throttling_fn types util
    """,
    "io.gcp.experimental": "spannerio",
    "io.gcp.healthcare": "dicomclient dicomio",
    "io.gcp.internal": "clients",
    "io.gcp.internal.clients": "bigquery",
    "io.gcp.internal.clients.bigquery": "bigquery_v2_client bigquery_v2_messages",
    "io.gcp.tests": "bigquery_matcher pubsub_matcher utils",
    "metrics": "monitoring_infos",
    "ml": "anomaly gcp inference rag transforms ts",
    "ml.anomaly": "aggregations base detectors specifiable thresholds transforms univariate",
    "ml.anomaly.detectors": "iqr offline pyod_adapter robust_zscore zscore",
    "ml.anomaly.univariate": "base mad mean median quantile stdev",
    "ml.gcp": """
    cloud_dlp naturallanguageml naturallanguageml_test_it recommendations_ai recommendations_ai_test_it
    videointelligenceml videointelligenceml_test_it visionml visionml_test_it
    """,
    "ml.inference": """
    agent_development_kit anthropic_inference base gemini_inference huggingface_inference model_manager
    onnx_inference pytorch_inference sklearn_inference tensorflow_inference tensorrt_inference utils
    vertex_ai_inference vertex_ai_model_monitoring_v2 vllm_inference xgboost_inference
    """,
    "ml.rag": "chunking embeddings enrichment ingestion test_utils types utils",
    "ml.rag.chunking": "base langchain",
    "ml.rag.embeddings": "base huggingface vertex_ai",
    "ml.rag.enrichment": "bigquery_vector_search milvus_search",
    "ml.rag.ingestion": """
    alloydb base bigquery cloudsql jdbc_common milvus_search mysql mysql_common postgres postgres_common qdrant
    spanner test_utils
    """,
    "ml.transforms": "base embeddings handlers tft utils",
    "ml.transforms.embeddings": "huggingface open_ai tensorflow_hub vertex_ai",
    "options": "pipeline_options_context pipeline_options_validator",
    "portability": "api common_urns python_urns utils",
    "portability.api": "org",
    "portability.api.org": "apache",
    "portability.api.org.apache": "beam",
    "portability.api.org.apache.beam": "model",
    "portability.api.org.apache.beam.model": "fn_execution interactive job_management pipeline",
    "portability.api.org.apache.beam.model.fn_execution": "v1",
    "portability.api.org.apache.beam.model.interactive": "v1",
    "portability.api.org.apache.beam.model.job_management": "v1",
    "portability.api.org.apache.beam.model.pipeline": "v1",
    "runners": """
    common dask dataflow direct internal job pipeline_context pipeline_utils portability render test
    trivial_runner worker
    """,
    "runners.dask": "dask_runner overrides transform_evaluator",
    "runners.dataflow": """
    dataflow_exercise_metrics_pipeline dataflow_exercise_streaming_metrics_pipeline dataflow_job_service
    dataflow_metrics dataflow_runner internal ptransform_overrides test_dataflow_runner
    """,
    "runners.dataflow.internal": "apiclient names",
    "runners.direct": """
    bundle_factory clock consumer_tracking_pipeline_visitor direct_metrics direct_runner direct_userstate
    evaluation_context executor sdf_direct_runner test_direct_runner test_stream_impl transform_evaluator util
    watermark_manager
    """,
    "runners.interactive": """
    augmented_pipeline background_caching_job cache_manager caching dataproc display interactive_environment
    interactive_runner messaging options pipeline_fragment pipeline_instrument recording_manager sql testing
    user_pipeline_tracker utils
    """,
    "runners.interactive.caching": "cacheable expression_cache read_cache reify streaming_cache write_cache",
    "runners.interactive.dataproc": "dataproc_cluster_manager types",
    "runners.interactive.display": """
    display_manager interactive_pipeline_graph pcoll_visualization pipeline_graph pipeline_graph_renderer
    """,
    "runners.interactive.messaging": "interactive_environment_inspector",
    "runners.interactive.options": "capture_control capture_limiters interactive_options",
    "runners.interactive.sql": "beam_sql_magics sql_chain utils",
    "runners.interactive.testing": "integration mock_env mock_ipython pipeline_assertion test_cache_manager",
    "runners.interactive.testing.integration": "notebook_executor screen_diff",
    "runners.internal": "names",
    "runners.job": "manager utils",
    "runners.portability": """
    abstract_job_service artifact_service expansion_service expansion_service_main flink_runner
    flink_uber_jar_job_server fn_api_runner job_server kafka_streams_runner local_job_service
    local_job_service_main portable_metrics portable_runner prism_runner sdk_container_builder spark_runner
    spark_uber_jar_job_server stager
    """,
    "runners.portability.fn_api_runner": """
    execution fn_runner translations trigger_manager visualization_tools watermark_manager worker_handlers
    """,
    "runners.worker": """
    bundle_processor channel_factory data_plane data_sampler log_handler logger opcounters operation_specs
    operations sdk_worker sdk_worker_main sideinputs statecache statesampler statesampler_slow
    worker_id_interceptor worker_pool_main worker_status
    """,
    "testing": """
    analyzers datatype_inference extra_assertions metric_result_matchers pipeline_verifiers pubsub_test_context
    synthetic_pipeline test_stream_service
    """,
    "testing.analyzers": "constants github_issues_utils perf_analysis perf_analysis_utils",
    "tools": "utils",
    "transforms": """
    async_dofn combinefn_lifecycle_pipeline create_source cy_combiners display enrichment enrichment_handlers
    environments external external_java external_transform_provider fully_qualified_named_transform managed
    py_dataflow_distribution_counter resources sideinputs sql xlang
    """,
    "transforms.enrichment_handlers": "bigquery bigtable cloudsql feast_feature_store utils vertex_ai_feature_store",
    "transforms.xlang": "io",
    "typehints": """
    arrow_type_compatibility batch intrinsic_one_ops native_type_compatibility opcodes pandas_type_compatibility
    pytorch_type_compatibility schema_registry schemas sharded_key_type testing trivial_inference typecheck
    """,
    "typehints.testing": "strategies",
    "utils": """
    annotations byte_limited_queue counters histogram interactive_utils logger multi_process_shared plugin
    processes profiler proto_utils python_callable retry secret sentinel shared subprocess_server
    thread_pool_executor transform_service_launcher urns
    """,
    "yaml": """
    cache_provider_artifacts conftest examples generate_yaml_docs integration_tests json_utils main options
    test_utils yaml_combine yaml_enrichment yaml_errors yaml_io yaml_join yaml_mapping yaml_ml yaml_provider
    yaml_specifiable yaml_testing yaml_transform yaml_utils
    """,
    "yaml.examples": "testing",
    "yaml.examples.testing": "input_data",
    "yaml.test_utils": "datadog_test_utils",
}
"""Path of a package of Beam, without `apache_beam` -> its modules that Headrace does not have."""
ABSENT_NAMES = {
    "": """
    AnnotationBasedPayloadBuilder BeamJarExpansionService DataclassBasedPayloadBuilder
    DataflowDistributionCounter ExpansionAndArtifactRetrievalStub ExplicitSchemaTransformPayloadBuilder
    ExternalTransform GcpHsmGeneratedSecret GcpSecret GroupByEncryptedKey ImplicitSchemaPayloadBuilder
    JavaClassLookupPayloadBuilder JavaExternalTransform JavaJarExpansionService ManagedReplacement
    ManagedTransforms NamedTupleBasedPayloadBuilder PayloadBuilder Read SchemaAwareExternalTransform
    SchemaBasedPayloadBuilder SchemaTransformPayloadBuilder SchemaTransformsConfig Secret UnionConstraint Write
    annotate_yaml convert_to_typing_type instance_to_type iter_urns memoize named_fields_to_schema
    named_tuple_from_schema named_tuple_to_schema transform_annotations typing_from_runner_api
    """,
    "coders": """
    AvroGenericCoder ByteCoder DillCoder PaneInfoCoder ParamWindowedValueCoder ProtoCoder ProtoPlusCoder
    ShardedKeyCoder SinglePrecisionFloatCoder SingletonCoder WindowedValueCoder
    """,
    "coders.coders": """
    AvroGenericCoder AvroRecord Base64PickleCoder BigEndianShortCoder ByteCoder CoderT
    DeterministicFastPrimitivesCoderV2 DeterministicMapCoder DeterministicProtoCoder DillCoder
    FakeDeterministicFastPrimitivesCoder FastCoder GlobalWindowCoder IntervalWindowCoder LengthPrefixCoder
    ListLikeCoder PaneInfoCoder ParamWindowedValueCoder ProtoCoder ProtoCoderT ProtoPlusCoder ShardedKeyCoder
    SinglePrecisionFloatCoder SingletonCoder StateBackedIterableCoder T TimestampPrefixingOpaqueWindowCoder
    TimestampPrefixingWindowCoder ToStringCoder VarInt32Coder WindowedValueCoder deserialize_coder
    get_varint_size maybe_dill_dumps maybe_dill_loads serialize_coder
    """,
    "coders.row_coder": """
    BigEndianShortCoder ByteCoder FastCoder LogicalType LogicalTypeCoder LogicalTypeCoderImpl RowCoderImpl
    SinglePrecisionFloatCoder VarInt32Coder named_tuple_from_schema schema_from_element_type
    """,
    "coders.typecoders": "FirstOf",
    "error": "PValueError PipelineError RunnerError TransformError",
    "io": """
    BigQueryDisposition BigQueryQueryPriority BigQuerySchemaUpdateOption BigQuerySink BigQuerySource
    FileBasedSink LexicographicKeyRangeTracker MultipleReadFromPubSub OffsetRangeTracker
    OrderedPositionRangeTracker PubSubSourceDescriptor PubsubMessage ReadAllFromAvroContinuously
    ReadAllFromBigQuery ReadAllFromTFRecord ReadAllFromTextContinuously ReadFromBigQuery ReadFromBigQueryRequest
    ReadFromMongoDB ReadFromParquetBatched ReadFromPubSub ReadFromTFRecord ReadStringsFromPubSub Sink
    TableRowJsonCoder UnsplittableRangeTracker WriteResult WriteStringsToPubSub WriteToBigQuery WriteToMongoDB
    WriteToParquetBatched WriteToPubSub WriteToTFRecord Writer
    """,
    "io.avroio": """
    ReadAllFromAvroContinuously avro_dict_to_beam_row avro_schema_to_beam_schema avro_type_to_beam_type
    avro_union_type_to_beam_type avro_value_to_beam_value beam_row_to_avro_dict beam_schema_to_avro_schema
    beam_type_to_avro_type beam_value_to_avro_value unnest_primitive_type
    """,
    "io.fileio": "PollFn PollResult TerminationCondition Watch never",
    "io.filesystem": "BeamPlugin CompressedFile FileSystem",
    "io.filesystems": "BlobStorageFileSystem FileSystem HadoopFileSystem Lineage LocalFileSystem S3FileSystem",
    "io.iobase": """
    BoundedSource DisplayDataItem HasDisplayData RangeTracker SDFBoundedSourceReader Sink SourceBase
    SourceBundle WriteImpl Writer
    """,
    "io.kafka": """
    BeamJarExpansionService ExternalTransform NamedTupleBasedPayloadBuilder ReadFromKafkaSchema
    WriteToKafkaSchema default_io_expansion_service
    """,
    "io.parquetio": "RangeTracker ReadFromParquetBatched WriteToParquetBatched",
    "io.restriction_trackers": "OffsetRangeTracker",
    "io.textio": "DisplayDataItem ReadAllFiles ReadAllFromTextContinuously append_pandas_args",
    "metrics.cells": """
    AbstractMetricCell BoundedTrieCell BoundedTrieData CounterCell DistributionCell DistributionData GaugeCell
    GaugeData Histogram HistogramCell HistogramCellFactory HistogramData HistogramResult MetricCell
    MetricCellFactory StringSetCell StringSetData
    """,
    "metrics.execution": """
    BoundedTrieCell CounterCell DistributionCell GaugeCell HistogramCellFactory HistogramData MetricUpdater
    MetricUpdates MetricsContainer MetricsEnvironment PROCESS_WIDE_METRICS_CONTAINER StringSetCell StringSetData
    """,
    "metrics.metric": "BoundedTrie Histogram HistogramCellFactory Lineage MetricUpdater",
    "metrics.metricbase": "BoundedTrie Histogram",
    "options.pipeline_options": """
    HasDisplayData JobServerOptions KafkaStreamsRunnerOptions OptionsContext PipelineOptionsT PrismRunnerOptions
    TestDataflowOptions additional_option_ptransform_fn enable_all_additional_type_checks
    """,
    "pipeline": """
    ComponentIdMap DisplayData ExternalTransformFinder HasDisplayData PTransformOverride
    PipelineOptionsValidator PipelineRunner alter_label_if_ipython create_runner encode_annotations
    get_sideinput_index is_in_ipython merge_resource_hints resource_hints_from_options scoped_pipeline_options
    transform_annotations
    """,
    "pvalue": "SideInputData T TagType ValueType",
    "runners": "DataflowRunner PipelineRunner TestDataflowRunner TestDirectRunner create_runner",
    "runners.interactive.interactive_beam": """
    AsyncComputationResult ClusterMetadata Clusters DataprocClusterManager DeferredBase Options Recordings
    clusters compute deferred_df_to_pcollection elements_to_df evict_recorded_data find_pcoll_name options
    progress_indicated recordings show_graph visualize visualize_computed_pcoll watch
    """,
    "runners.runner": "PipelineRunner create_runner group_by_key_input_visitor",
    "runners.sdf_utils": "NoOpWatermarkEstimatorProvider SplitResultPrimary SplitResultResidual",
    "testing.test_stream": """
    Event OutputFormat PairWithTiming ReverseTestStream TimingInfo WindowedValueHolder WindowedValueHolderMeta
    """,
    "testing.test_utils": """
    LCGenerator PullResponseMessage cleanup_subscriptions cleanup_topics create_pull_response patch_retry
    """,
    "testing.util": """
    AssertThat PANE_INFO_UNKNOWN SortLists contains_in_any_order has_at_least_one row_namedtuple_equals_fn
    """,
    "transforms": """
    AnnotationBasedPayloadBuilder BeamJarExpansionService DataclassBasedPayloadBuilder
    DataflowDistributionCounter ExpansionAndArtifactRetrievalStub ExplicitSchemaTransformPayloadBuilder
    ExternalTransform GcpHsmGeneratedSecret GcpSecret GroupByEncryptedKey ImplicitSchemaPayloadBuilder
    JavaClassLookupPayloadBuilder JavaExternalTransform JavaJarExpansionService ManagedReplacement
    ManagedTransforms NamedTupleBasedPayloadBuilder PayloadBuilder Read SchemaAwareExternalTransform
    SchemaBasedPayloadBuilder SchemaTransformPayloadBuilder SchemaTransformsConfig Secret UnionConstraint Write
    annotate_yaml convert_to_typing_type instance_to_type iter_urns memoize named_fields_to_schema
    named_tuple_from_schema named_tuple_to_schema typing_from_runner_api
    """,
    "transforms.combiners": """
    CombinerWithoutDefaults ConcatListCombineFn DisplayDataItem K LiftedCombinePerKey PhasedCombineFnExecutor T
    V curry_combine_fn
    """,
    "transforms.core": """
    BatchConverter CallableWrapperCombineFn CallableWrapperDoFn CallableWrapperPartitionFn CombineValuesDoFn
    DeadLetter DisplayDataItem DoFnContext DoFnInfo DoFnProcessContext ExceptionInfo HasDisplayData K
    NoSideInputsCallableWrapperCombineFn PTransformWithSideInputs PickledDoFnInfo ProcessContinuation
    StatelessDoFnInfo T TypeConstraint V WindowIntoFn element_type get_function_args_defaults
    get_function_arguments get_sideinput_index get_signature identity is_consistent_with visit_inner_types
    """,
    "transforms.deduplicate": "K V",
    "transforms.periodicsequence": "ImpulseSeqGenDoFn ImpulseSeqGenRestrictionProvider",
    "transforms.ptransform": """
    DisplayDataItem HasDisplayData InputT OutputT PTransformT PTransformWithSideInputs T annotate_yaml
    get_named_nested_pvalues get_signature getcallargs_forhints instance_to_type validate_composite_type_param
    """,
    "transforms.stats": "DisplayDataItem",
    "transforms.timeutil": """
    DependsOnlyOnWindow OutputAtEarliestInputTimestampImpl OutputAtEarliestTransformedInputTimestampImpl
    OutputAtEndOfWindowImpl OutputAtLatestInputTimestampImpl TimestampCombinerImpl
    """,
    "transforms.trigger": """
    BatchGlobalTriggerDriver CombiningTriggerDriver DataLossReason GeneralTriggerDriver InMemoryUnmergedState
    MergeableStateAdapter NestedContext SimpleState TIME_GRANULARITY TriggerContext TriggerDriver UnmergedState
    create_trigger_driver
    """,
    "transforms.userstate": """
    AccumulatingRuntimeState BaseTimer CallableT RuntimeState Timer UserStateContext get_dofn_specs
    is_stateful_dofn validate_stateful_dofn
    """,
    "transforms.util": """
    GcpHsmGeneratedSecret GcpSecret GroupByEncryptedKey K Secret ShardedKeyType SharedKey T TypedWindowedValue U
    V WithLengthBucketKey WithSharedKey fn_takes_side_inputs get_signature load_shared_key
    reify_metadata_custom_window reify_metadata_default_window restore_metadata_custom_window
    restore_metadata_default_window
    """,
    "transforms.window": "V",
    "typehints": "BatchConverter TypeVariable WindowedValue",
    "typehints.decorators": """
    CompositeTypeHintError GeneratorWrapper SimpleTypeHintError T WithTypeHintsT check_constraint
    convert_to_beam_type get_signature getcallargs_forhints validate_composite_type_param
    """,
    "typehints.row_type": """
    GeneratedClassRowTypeConstraint SchemaTypeRegistry match_dataclass_for_row match_is_named_tuple
    """,
    "typehints.typehints": """
    ABCSequenceTypeConstraint AnyTypeConstraint CollectionHint CollectionTypeConstraint CompositeTypeHint
    CompositeTypeHintError DictConstraint DictHint FrozenSetHint FrozenSetTypeConstraint GeneratorHint
    GetitemConstructor IndexableTypeConstraint IterableHint IterableTypeConstraint IteratorHint
    IteratorTypeConstraint KVHint ListConstraint ListHint Mapping MappingHint MappingTypeConstraint OptionalHint
    SequenceHint SequenceTypeConstraint SetHint SetTypeConstraint SimpleTypeHintError TupleConstraint TupleHint
    TupleSequenceConstraint TypeConstraint TypeVariable UnionConstraint UnionHint WindowedTypeConstraint
    WindowedValue bind_type_variables check_constraint coerce_to_kv_type get_concrete_type_from_nullable
    get_yielded_type is_consistent_with is_nullable is_typing_generic key_value_types match_type_variables
    normalize regex_consistency validate_composite_type_param visit_inner_types
    """,
    "utils.timestamp": "TIME_GRANULARITY",
    "utils.windowed_value": "HomogeneousWindowedBatch WindowedBatch create",
}
"""Path of a module of Beam -> its names that the module of this path does not have here."""
