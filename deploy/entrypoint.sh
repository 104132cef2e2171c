#!/bin/sh
# Runs one process of the image: a penstock action, or a part of Spark from the package pyspark.
#
#   entrypoint.sh jobmanager …                an action of penstock, with its options
#   entrypoint.sh spark-master [options]      org.apache.spark.deploy.master.Master
#   entrypoint.sh spark-worker URL [options]  org.apache.spark.deploy.worker.Worker
#   entrypoint.sh executor                    what Spark's driver asks of a pod on Kubernetes
#
# PENSTOCK_REST_TOKEN is written to /data/token with mode 0600, for penstock.rest.token-file.
set -eu
if [ -n "${PENSTOCK_REST_TOKEN:-}" ]; then
    (umask 077 && printf '%s\n' "$PENSTOCK_REST_TOKEN" >"${PENSTOCK_DATA:-/data}/token")
    unset PENSTOCK_REST_TOKEN
fi
SPARK_HOME=$(python3 -c 'import pyspark; print(pyspark.__path__[0])')
export SPARK_HOME SPARK_SCALA_VERSION=2.13

case "${1:-}" in
spark-master)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "$@"
    ;;
spark-worker)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$@"
    ;;
executor)
    # Spark passes options of the JVM in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 …
    set --
    number=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$number+x}\" ]"; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
        number=$((number + 1))
    done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}:${SPARK_DIST_CLASSPATH:-}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec penstock "$@"
    ;;
esac
