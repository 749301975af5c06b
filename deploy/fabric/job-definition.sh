#!/bin/sh
# Tried: sh -n, and that the definition is JSON. No workspace has run it: the interface and the fields of a Spark job
# definition follow from Microsoft's documentation. Retries of a job without an end are set in the item's settings.
#
# WORKSPACE=… ENVIRONMENT=… LAKEHOUSE=… SERVERS=… CHECKPOINT=abfss://… sh job-definition.sh
# CREDENTIALS=module:function names a function that gives keys of the storage; its module is in the environment.
set -eu

: "${WORKSPACE:?id of the workspace}" "${ENVIRONMENT:?id of the environment with environment.yml}"
: "${LAKEHOUSE:?id of a lakehouse, which a job definition must have}"
: "${SERVERS:?bootstrap servers of Kafka}"
: "${CHECKPOINT:?object storage that driver and executors reach, such as abfss://container@account…/clicks}"

arguments="--checkpoint=$CHECKPOINT --servers=$SERVERS --output=${OUTPUT:-$CHECKPOINT-counts/clicks}"
arguments="$arguments${CREDENTIALS:+ --credentials=$CREDENTIALS}"
definition="{\"executableFile\": \"clicks.py\", \"language\": \"Python\", \"mainClass\": \"\",
 \"commandLineArguments\": \"$arguments\", \"defaultLakehouseArtifactId\": \"$LAKEHOUSE\",
 \"additionalLakehouseIds\": [], \"additionalLibraryUris\": [], \"retryPolicy\": null,
 \"environmentArtifactId\": \"$ENVIRONMENT\"}"

encoded() { base64 | tr -d '\n'; }

payload() { printf '{"path": "%s", "payloadType": "InlineBase64", "payload": "%s"}' "$1" "$2"; }
settings=$(payload SparkJobDefinitionV1.json "$(printf %s "$definition" | encoded)")
program=$(payload Main/clicks.py "$(encoded < "$(dirname "$0")/../clicks.py")")

az rest --method post --resource https://api.fabric.microsoft.com \
  --url "https://api.fabric.microsoft.com/v1/workspaces/$WORKSPACE/sparkJobDefinitions" \
  --body "{\"displayName\": \"clicks\", \"definition\": {\"format\": \"SparkJobDefinitionV2\", \"parts\": [$settings, $program]}}"
