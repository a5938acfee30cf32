# valgrind   the programs of gcc, the unit tests under valgrind
folders[valgrind]=tree
results_at[valgrind]=$work/tree/valgrind

# It uses the processor all the time, while other builds wait at times.
build_valgrind() {
    step "valgrind: make check-valgrind" 1200 nice -n 10 \
        make -C "$work/tree" -j"$tests_at_once" check-valgrind && return 0
    failed_tests "$work/tree/valgrind"
    return 1
}
