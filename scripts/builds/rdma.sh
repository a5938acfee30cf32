# rdma       the programs of the build gcc in a virtual machine with a software
#            RDMA device: see ./run-rdma-tests --help
folders[rdma]=tree
results_at[rdma]=$work/rdma/tests
[ "$(uname -m)" != x86_64 ] || packages_of[rdma]=$packages_rdma

# Counts as one skipped test if the machine cannot be created.
build_rdma() {
    "$top/run-rdma-tests" --built "$work/tree" | sed -u '1d; s/^[^ ]/  &/'
    return "${PIPESTATUS[0]}"
}
