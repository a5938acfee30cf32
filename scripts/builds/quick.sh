# quick      the build gcc without its longest tests, with fewer repetitions
folders[quick]=tree

build_quick() {
    check quick check-quick
}
