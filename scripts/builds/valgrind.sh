# valgrind   the unit tests of the build gcc, under valgrind
folders[valgrind]=tree
results_at[valgrind]=$work/tree/valgrind

# Runs with a lower priority, because this build always uses the CPU,
# while other builds sometimes wait.
build_valgrind() {
    step "valgrind: make check-valgrind" 1200 nice -n 10 \
        make -C "$work/tree" -j"$tests_at_once" check-valgrind && return 0
    failed_tests "$work/tree/valgrind"
    return 1
}
