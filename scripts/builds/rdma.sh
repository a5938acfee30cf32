# rdma       the programs of gcc in a virtual machine with an RDMA device of
#            software: see ./run-rdma-tests --help
folders[rdma]=tree
results_at[rdma]=$work/rdma/tests

# One test is skipped if there can be no such machine.
build_rdma() {
    "$top/run-rdma-tests" --built "$work/tree" | sed -u '1d; s/^[^ ]/  &/'
    return "${PIPESTATUS[0]}"
}
