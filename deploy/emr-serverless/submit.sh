#!/bin/sh
# Tried: sh -n, and its arguments by Amazon's command line, which took them, without an account. No application has
# run it: the names of settings, the mode of streaming jobs and how they are retried follow from Amazon's
# documentation.
#
# APPLICATION=… ROLE=arn:aws:iam::…:role/… BUCKET=… SERVERS=… sh submit.sh
set -eu

: "${APPLICATION:?the id of an application of EMR Serverless, release emr-7.1.0 or newer}"
: "${ROLE:?the execution role; it may read and write the bucket, so no keys are needed}"
: "${BUCKET:?the bucket of program, environment, checkpoint and output}"
: "${SERVERS:?bootstrap servers of Kafka}"

here=$(dirname "$0")
aws s3 cp "$here/../clicks.py" "s3://$BUCKET/app/clicks.py"
aws s3 cp "$here/../../out/environment.tar.gz" "s3://$BUCKET/app/environment.tar.gz"

python=./environment/bin/python
settings="--conf spark.archives=s3://$BUCKET/app/environment.tar.gz#environment"
settings="$settings --conf spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=$python"
settings="$settings --conf spark.emr-serverless.driverEnv.PYSPARK_PYTHON=$python"
settings="$settings --conf spark.executorEnv.PYSPARK_PYTHON=$python"
settings="$settings --conf spark.executor.cores=2 --conf spark.executor.memory=4g"
# Records, state and user code are in Python's memory.
settings="$settings --conf spark.executor.memoryOverhead=4g"
# State stores and shuffles.
settings="$settings --conf spark.emr-serverless.executor.disk=100g"
settings="$settings --conf spark.dynamicAllocation.minExecutors=2 --conf spark.dynamicAllocation.maxExecutors=8"
settings="$settings --conf spark.dynamicAllocation.shuffleTracking.timeout=60s"

aws emr-serverless start-job-run \
  --application-id "$APPLICATION" \
  --execution-role-arn "$ROLE" \
  --name clicks \
  --mode STREAMING \
  --retry-policy maxFailedAttemptsPerHour=5 \
  --job-driver "{\"sparkSubmit\": {
    \"entryPoint\": \"s3://$BUCKET/app/clicks.py\",
    \"entryPointArguments\": [
      \"--checkpoint=s3://$BUCKET/checkpoint\", \"--servers=$SERVERS\", \"--output=s3://$BUCKET/counts/clicks\"],
    \"sparkSubmitParameters\": \"$settings\"}}"
