# spark      the plugin for Spark, on clusters of two executors, with it and
#            without it: equal results, fallback to Netty, failures

# Spark comes from pip. The plugin is compiled against its jars.
make_spark() {
    local venv=$work/spark/venv jars
    mkdir -p "$work/spark"
    venv 'spark: environment' "$venv" \
        -r "$top/tests/spark/requirements.txt" || return 1
    jars=$(echo "$venv"/lib/python3*/site-packages/pyspark/jars)
    configure spark CC="${cache}gcc" --enable-werror --with-java \
        --with-spark="$jars" &&
        compile spark libucxpool.la java-tests &&
        rm -f "$work/spark/classes.jsa" &&
        with_spark 'spark: archive of classes' '' \
            "$top/tests/spark/make_archive.py" "$work/spark/classes.jsa"
}

# with_spark NAME JAVA-OPTION SCRIPT... - run a script with Spark. The Java VMs
# run only for seconds, so their optimizing compiler would cost more time than
# it saves.
with_spark() {
    local name=$1 options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    options="$options -Xlog:cds*=off $2"
    shift 2
    step "$name" 1200 env LIBUCXPOOL_BUILD="$work/spark" \
        JAVA_TOOL_OPTIONS="$options" "$work/spark/venv/bin/python" "$@"
}

build_spark() {
    with_spark 'spark: tests on clusters' \
        "-XX:SharedArchiveFile=$work/spark/classes.jsa" \
        "$top/tests/python/run.py" \
        --in "$top/tests/spark" "$work/spark/tests" \
        test_java test_shuffle test_fallback test_failures test_examples test_claims \
        test_standalone test_hosts
}
