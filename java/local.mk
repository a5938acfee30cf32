# make java: java/ucxpool.jar with the package org.ucxpool and its part in C;
# and if Spark's jars were found, also java/ucxpool-spark.jar with the plugin.
# make install installs the results of make java.

java_names = \
	Batch BounceBuffer BounceBufferManager Buffer Channel DataFile \
	Histogram Listener Message Native Pool Source Status Transfer UcxpoolException \
	package-info
java_sources = $(java_names:%=java/org/ucxpool/%.java)
spark_names = \
	BlockRange DriverSide ExecutorSide Fetch MapOutputs Obstacle Part Peer \
	PooledBlockStoreClient Protocol ReceivedBlock Server Settings \
	Statistics Transport UcxPoolPlugin UcxPoolShuffleManager package-info
spark_sources = $(spark_names:%=java/org/ucxpool/spark/%.java)
java_tests_names = BounceBufferTest PoolTest
java_tests = $(java_tests_names:%=tests/java/org/ucxpool/%.java)
spark_tests_names = \
	BlockRangeTest CountersOfExecutor DriverSideTest Ends ExecutorSideTest \
	FetcherIteratorTest MapOutputsTest PeerTest PooledBlockStoreClientTest \
	ReceivedBlockTest ServerTest StopOnce
spark_tests = $(spark_tests_names:%=tests/java/org/ucxpool/spark/%.java)
EXTRA_DIST += $(java_sources) $(spark_sources) $(java_tests) $(spark_tests)
EXTRA_DIST += java/benchmarks java/demo.py tests/spark

if HAVE_JAVA
EXTRA_LTLIBRARIES = java/libucxpool-jni.la
java_libucxpool_jni_la_SOURCES = \
	java/jni/library.c java/jni/library.h java/jni/native.c
java_libucxpool_jni_la_CPPFLAGS = \
	-I$(top_srcdir)/include -I$(top_builddir)/include \
	-I$(top_srcdir) -I$(top_builddir) $(JNI_CFLAGS)
# The JNI library opens libucxpool at run time: see java/jni/library.h.
java_libucxpool_jni_la_LIBADD = -ldl
java_libucxpool_jni_la_LDFLAGS = -module -avoid-version -shared \
	-rpath $(libdir)
if JNI_IN_JARS
# A JNI library that is unpacked from a jar must find the installed libucxpool.
java_libucxpool_jni_la_LDFLAGS += -Wl,-rpath,$(libdir)
add_jni = cp java/.libs/libucxpool-jni.so $@-classes/org/ucxpool/
else
add_jni = true
endif

# Declarations of the native functions, generated from the Java classes.
$(java_libucxpool_jni_la_OBJECTS): java/jni/org_ucxpool_Native.h
java/jni/org_ucxpool_Native.h: java/org/ucxpool/Native.java
	$(AM_V_GEN)$(MKDIR_P) java/jni $@-classes && \
	$(JAVAC) --release 17 -h java/jni -d $@-classes $< && \
	rm -rf $@-classes && touch $@

java_folder = $(abs_srcdir)/
AM_JAVACFLAGS = --release 17 -Werror \
	-Xlint:all,-classfile,-options,-path,-processing
doclint = -Xdoclint:all/public

java_jars = java/ucxpool.jar
if HAVE_SPARK
java_jars += java/ucxpool-spark.jar
endif

java: $(java_jars)

# compile_java is followed by the sources and the class path.
compile_java = rm -rf $@-classes && $(MKDIR_P) $@-classes && \
	$(JAVAC) $(AM_JAVACFLAGS) $(JAVACFLAGS) -d $@-classes
pack_java = rm -f $@ && $(JAR) cf $@-new -C $@-classes . && \
	mv $@-new $@ && rm -rf $@-classes

java/ucxpool.jar: $(java_sources) java/libucxpool-jni.la
	$(AM_V_GEN)$(compile_java) $(doclint) \
		$(java_sources:%=$(java_folder)%) && \
	$(add_jni) && $(pack_java)

java/ucxpool-spark.jar: $(java_sources) $(spark_sources) \
		java/libucxpool-jni.la
	$(AM_V_GEN)$(compile_java) $(doclint) -cp '$(SPARK_JARS)/*' \
		$(java_sources:%=$(java_folder)%) \
		$(spark_sources:%=$(java_folder)%) && \
	$(add_jni) && $(pack_java)

# As Debian's policy requires, jar names have the version, and there is a link
# without it.
javadir = $(datadir)/java
install-data-local:
	@for name in ucxpool ucxpool-spark; do \
	    test -f java/$$name.jar || continue; \
	    $(MKDIR_P) "$(DESTDIR)$(javadir)" && \
	    $(INSTALL_DATA) java/$$name.jar \
	        "$(DESTDIR)$(javadir)/$$name-$(VERSION).jar" && \
	    (cd "$(DESTDIR)$(javadir)" && \
	        $(LN_S) -f $$name-$(VERSION).jar $$name.jar) || exit 1; \
	done
install-exec-local:
	@if test -n "$(jnidir)" && test -f java/ucxpool.jar; then \
	    $(MKDIR_P) "$(DESTDIR)$(jnidir)" && \
	    $(INSTALL_DATA) java/.libs/libucxpool-jni.so \
	        "$(DESTDIR)$(jnidir)/"; \
	fi
uninstall-local:
	for name in ucxpool-$(VERSION) ucxpool ucxpool-spark-$(VERSION) \
	    ucxpool-spark; do \
	    rm -f "$(DESTDIR)$(javadir)/$$name.jar"; \
	done
	test -z "$(jnidir)" || rm -f "$(DESTDIR)$(jnidir)/libucxpool-jni.so"

# The tests of both jars, which tests/test_java.sh and tests/spark run.
if HAVE_JUNIT
java_tests_jars = java/ucxpool-tests.jar
if HAVE_SPARK
java_tests_jars += java/ucxpool-spark-tests.jar
endif
java-tests: java $(java_tests_jars)

java/ucxpool-tests.jar: java/ucxpool.jar $(java_tests)
	$(AM_V_GEN)$(compile_java) -cp '$<:$(JUNIT_JARS)' \
		$(java_tests:%=$(java_folder)%) && $(pack_java)
if HAVE_SPARK
java/ucxpool-spark-tests.jar: java/ucxpool-spark.jar $(spark_tests)
	$(AM_V_GEN)$(compile_java) \
		-cp '$<:$(JUNIT_JARS):$(SPARK_JARS)/*' \
		$(spark_tests:%=$(java_folder)%) && $(pack_java)
endif
else
java-tests:
	@echo 'JUnit was not found by configure (Debian: junit4)' >&2; exit 1
endif
CLEANFILES += java/jni/org_ucxpool_Native.h java/libucxpool-jni.la \
	java/ucxpool.jar java/ucxpool-spark.jar java/ucxpool-tests.jar \
	java/ucxpool-spark-tests.jar
else
EXTRA_DIST += java/jni/library.c java/jni/library.h java/jni/native.c
java java-tests:
	@echo 'no JDK was found by configure (Debian: default-jdk-headless)' >&2; \
	exit 1
endif
.PHONY: java java-tests
