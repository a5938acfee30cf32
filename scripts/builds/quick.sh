# quick      the build gcc without its longest tests, each repeated less
folders[quick]=tree

build_quick() {
    check quick check-quick
}
