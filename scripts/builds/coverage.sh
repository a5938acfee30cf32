# coverage   the unit tests in ucx122 reach each cleanup label of src/
folders[coverage]=ucx122
begins_after[coverage]=ucx122
# If ucx122 runs as well, its line counts the tests.
case $builds in
*' ucx122 '*) results_at[coverage]='' ;;
esac

build_coverage() {
    case "$builds $(uname -m)" in
    *' ucx122 '*x86_64) ;;
    *) check_covered check-programs || return 1 ;;
    esac
    step 'coverage: cleanup labels' 120 \
        "$top/scripts/unreached-labels" "$work/ucx122"
}
