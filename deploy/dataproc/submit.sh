#!/bin/sh
# Tried: sh -n, and that gcloud has its flags. No project has run it: versions and the longest life of a batch follow
# from Google's documentation.
#
# A batch ends when its time is over, also in mid-epoch: start it again, for instance by a scheduler, with the same
# checkpoint. PROJECT=… REGION=… BUCKET=… SERVERS=… IMAGE=… sh submit.sh
set -eu

: "${PROJECT:?}" "${REGION:?}"
: "${BUCKET:?the bucket of program, checkpoint and output; the batch runs as a service account that may write it}"
: "${SERVERS:?bootstrap servers of Kafka}"
: "${IMAGE:?the image of the Dockerfile beside this script}"

settings="spark.executor.cores=4;spark.executor.memory=8g;spark.executor.memoryOverhead=4g"
# Executors that come and go, up to a number.
settings="$settings;spark.dynamicAllocation.minExecutors=2;spark.dynamicAllocation.maxExecutors=8"
settings="$settings;spark.dynamicAllocation.shuffleTracking.timeout=60s"

gcloud dataproc batches submit pyspark "$(dirname "$0")/../clicks.py" \
  --project="$PROJECT" --region="$REGION" --version=2.3 --container-image="$IMAGE" --ttl=7d \
  --deps-bucket="gs://$BUCKET" \
  --properties="^;^$settings" \
  -- --checkpoint="gs://$BUCKET/checkpoint" --servers="$SERVERS" --output="gs://$BUCKET/counts/clicks"
