# UCXPOOL_CHECK_JAVA
# ------------------
# Find the dependencies of `make java`: a JDK, into JAVAC, JAR and JNI_CFLAGS;
# Spark's jars, into SPARK_JARS, for its plugin; JUnit, into JUNIT_JARS, for
# tests. --with-spark=DIR names the directory of the jars, or one that has them
# in jars/ or pyspark/jars/. The default is SPARK_HOME. --without-java disables
# all of this.
#
# The native library is in the jars, unless --with-jnidir=DIR names a directory
# that the Java VM searches, such as a distribution's. Then make install puts it
# there.
AC_DEFUN([UCXPOOL_CHECK_JAVA], [
  AC_ARG_WITH([java],
    [AS_HELP_STRING([--without-java], [no make java, though there is a JDK])],
    [], [with_java=check])
  AC_ARG_WITH([spark],
    [AS_HELP_STRING([--with-spark=DIR],
      [make java has the plugin for the Spark under DIR, for example the
       directory pyspark of its wheel])],
    [], [with_spark=$SPARK_HOME])
  AC_ARG_WITH([jnidir],
    [AS_HELP_STRING([--with-jnidir=DIR],
      [where libucxpool-jni.so is installed, a directory of java.library.path;
       without it the jars have it in them])],
    [], [with_jnidir=no])
  AS_CASE([$with_jnidir],
    [no], [with_jnidir=],
    [/*], [],
    [AC_MSG_ERROR([--with-jnidir wants a whole path: --with-jnidir=/DIR])])
  have_java=no
  JNI_CFLAGS=
  SPARK_JARS=
  JUNIT_JARS=
  AS_IF([test "x$with_java" != xno], [
    AC_CHECK_PROGS([JAVAC], [javac])
    AC_CHECK_PROGS([JAR], [jar])
    AS_IF([test -n "$JAVAC" && test -n "$JAR"], [
      jdk=`readlink -f "\`command -v $JAVAC\`"`
      jdk=${jdk%/bin/*}
      AS_IF([test -f "$jdk/include/jni.h"],
        [have_java=yes
         JNI_CFLAGS="-I$jdk/include -I$jdk/include/linux"])])])
  AS_IF([test "x$with_java" = xyes && test $have_java = no],
    [AC_MSG_ERROR([no javac with its jni.h was found: install a JDK])])
  AS_CASE([$with_spark],
    [no|''], [],
    [yes], [AC_MSG_ERROR([--with-spark wants the folder: --with-spark=DIR])],
    [for dir in "$with_spark" "$with_spark/jars" "$with_spark/pyspark/jars"; do
       AS_IF([ls "$dir"/spark-core_*.jar >/dev/null 2>&1], [SPARK_JARS=$dir])
     done
     AS_IF([test -z "$SPARK_JARS"],
       [AC_MSG_ERROR([there is no spark-core_*.jar in $with_spark])])
     AS_IF([ls "$SPARK_JARS"/spark-core_*-4.*.jar >/dev/null 2>&1], [],
       [spark_core=`cd "$SPARK_JARS" && ls spark-core_*.jar`
        AC_MSG_ERROR([the plugin needs Spark 4, and $SPARK_JARS has $spark_core: name the jars of Spark 4.0 or newer, or leave the plugin out by --without-spark])])
     SPARK_JARS=`cd "$SPARK_JARS" && pwd`])
  junit=/usr/share/java/junit4.jar
  hamcrest=/usr/share/java/hamcrest.jar
  AS_IF([test $have_java = yes && test -f $junit && test -f $hamcrest],
    [JUNIT_JARS=$junit:$hamcrest])
  AC_SUBST([jnidir], [$with_jnidir])
  AC_SUBST([JNI_CFLAGS])
  AC_SUBST([SPARK_JARS])
  AC_SUBST([JUNIT_JARS])
  AM_CONDITIONAL([HAVE_JAVA], [test $have_java = yes])
  AM_CONDITIONAL([HAVE_SPARK],
    [test $have_java = yes && test -n "$SPARK_JARS"])
  AM_CONDITIONAL([JNI_IN_JARS], [test -z "$with_jnidir"])
  AM_CONDITIONAL([HAVE_JUNIT], [test -n "$JUNIT_JARS"])
])
