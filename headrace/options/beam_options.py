"""Options of Beam that have no effect in Headrace: options of other runners, cloud services and tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache

from headrace.options.option import Parser

_OPTIONS = """
allow_non_deterministic_key_coders? application_id artifact_endpoint artifact_port#0 artifacts_dir auto_unique_labels?
autoscaling_algorithm azure_connection_string azure_managed_identity_client_id beam_plugin/beam_plugins*
beam_services@{} blob_service_endpoint bootstrap_servers=localhost:9092 cloud_build_machine_type create_from_snapshot
dataflow_endpoint=https://dataflow.googleapis.com dataflow_job_file dataflow_kms_key
dataflow_service_option/dataflow_service_options* default_sdk_harness_log_level direct_embed_docker_python?
direct_num_workers#1 direct_runner_bundle_repeat#0 direct_running_mode=in_memory direct_test_splits@{}
disable_beartype? disk_provisioned_iops# disk_provisioned_throughput_mibps# disk_size_gb# docker_registry_push_url
dry_run@false element_processing_timeout_minutes# enable_artifact_caching? enable_bucket_read_metric_counter?
enable_bucket_write_metric_counter? enable_gcsio_blob_generation? enable_hot_key_logging? enable_streaming_engine?true
environment_cache_millis#0 environment_config environment_option/environment_options* environment_type
exclude_infer_dataclass_field_type? expansion_port#0 experiment/experiments* extra_package/extra_packages*
file_to_stage/files_to_stage* flexrs_goal flink_job_server_jar flink_master=[auto] flink_submit_uber_jar?
flink_version=2.2 force_cloudpickle_deterministic_coders? gbek gcp_oauth_scope/gcp_oauth_scopes*
gcs_custom_audit_entry/gcs_custom_audit_entries* hdfs_full_urls? hdfs_host hdfs_port hdfs_user
impersonate_service_account jar_cache_dir job_endpoint job_name job_port#0 job_server_java_launcher=java
job_server_jvm_property/job_server_jvm_properties*[] job_server_timeout#300 kafka_streams_job_server_jar label/labels*
worker_machine_type/machine_type maven_repository_url max_cache_memory_usage_mb#0 max_num_workers# max_parallelism#-1
min_cpu_platform network no_auth? no_direct_runner_use_stacked_bundle/direct_runner_use_stacked_bundle!
no_gcsio_throttling_counter? no_save_main_session? no_use_public_ips? no_wait_until_finish? num_workers#
number_of_worker_harness_threads# on_success_matcher output_executable_path parallelism#-1
performance_runtime_type_check? pickle_library=default prebuild_sdk_container_base_image
prebuild_sdk_container_engine prism_beam_version_override prism_location prism_log_kind=console prism_log_level=info
profile_cpu? profile_location profile_memory? profile_postprocess_interval_sec#600 profile_sample_rate#1.0
profile_temp_location profile_upload_interval_sec#300 profiler_agent profiler_extra_arg/profiler_extra_args*
profiler_extra_env_var/profiler_extra_env_vars* profiler_stop_after_crash? profiler_stop_after_sec#0 project
pubsub_root_url/pubsubRootUrl region requirements_cache requirements_cache_only_sources? requirements_file
resource_hint/resource_hints*[] s3_access_key_id s3_api_version s3_disable_ssl? s3_endpoint_url s3_region_name
s3_secret_access_key s3_session_token s3_verify sdk_container_image sdk_harness_container_image_overrides*
sdk_harness_log_level_overrides* sdk_location=default sdk_worker_parallelism#1 service_account_email setup_file
spark_job_server_jar spark_master_url=local[4] spark_rest_url spark_submit_uber_jar? spark_version=3 staging_location
subnetwork temp_location template_location transform_name_mapping@null type_check_additional=
type_check_strictness=DEFAULT_TO_ANY update? update_compatibility_version use_public_ips?null use_transform_service?
user_agent wait_until_finish_duration# worker_disk_type/disk_type worker_harness_container_image worker_region
worker_zone zone
"""
"""Each option as its names, the last of which has the value, its kind, and its default.

The kinds are `?` for a switch, `!` for a switch that is on by default, `*` for a list, `#` for a number, `@` for JSON,
and `=` or nothing for text. Defaults are JSON but for text; without one a switch has its own, and all else None.
"""
_OPTION = re.compile(r"([\w/]+)([?!*#@=]?)(\S*)")
_ACTIONS: Mapping[str, str] = {"?": "store_true", "!": "store_false", "*": "append"}
_DEFAULTS: Mapping[str, str] = {"?": "false", "!": "true"}
BEAM_OPTIONS = frozenset(name for names, _, _ in _OPTION.findall(_OPTIONS) for name in names.split("/"))
"""The options of Beam 2.77 that are ignored (`apache_beam.options.pipeline_options`), with underscores."""


def ignored_values(flags: Sequence[str]) -> dict[str, object]:
    """The values of Beam's options without effect, for programs that read them.

    Raises `ValueError` for a value of the wrong kind.

    >>> values = ignored_values(["--project=weather", "--experiment=a", "--experiment=b"])
    >>> values["project"], values["experiments"], values["num_workers"], values["update"]
    ('weather', ['a', 'b'], None, False)
    """
    return vars(_parser().known(flags)[0])


@cache
def _parser() -> Parser:
    parser = Parser()
    for text, kind, default in _OPTION.findall(_OPTIONS):
        names = text.split("/")
        flags, dest = [f"--{name}" for name in names], names[-1]
        value = default if kind == "=" else json.loads(default or _DEFAULTS.get(kind, "null"))
        if kind in _ACTIONS:
            parser.add_argument(*flags, dest=dest, default=value, action=_ACTIONS[kind])
        else:
            parser.add_argument(*flags, dest=dest, default=value, type=json.loads if kind in ("#", "@") else str)
    return parser
