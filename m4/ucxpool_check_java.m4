# UCXPOOL_CHECK_JAVA
# ------------------
# Find what `make java` takes: a JDK, into JAVAC, JAR and JNI_CFLAGS; JUnit, into
# JUNIT_JARS, for its tests. --without-java leaves all out.
AC_DEFUN([UCXPOOL_CHECK_JAVA], [
  AC_ARG_WITH([java],
    [AS_HELP_STRING([--without-java], [no make java, though there is a JDK])],
    [], [with_java=check])
  have_java=no
  JNI_CFLAGS=
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
  junit=/usr/share/java/junit4.jar
  hamcrest=/usr/share/java/hamcrest.jar
  AS_IF([test $have_java = yes && test -f $junit && test -f $hamcrest],
    [JUNIT_JARS=$junit:$hamcrest])
  AC_SUBST([JNI_CFLAGS])
  AC_SUBST([JUNIT_JARS])
  AM_CONDITIONAL([HAVE_JAVA], [test $have_java = yes])
  AM_CONDITIONAL([HAVE_JUNIT], [test -n "$JUNIT_JARS"])
])
