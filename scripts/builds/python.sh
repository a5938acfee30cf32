# python     the Python package as a wheel, in an empty environment, and with
#            the frameworks that use it

# The wheel is built as a user builds it, with build dependencies from pip.
make_python() {
    step 'python: wheel' 900 nice -n 10 env CC="${cache}gcc" \
        sh -c 'rm -rf "$2" && "$1/scripts/make-wheel" "$2"' - \
        "$top" "$work/python/wheel" &&
        venv 'python: environment' "$work/python/venv" \
            "$work"/python/wheel/*.whl &&
        configure python CC="${cache}gcc" &&
        compile python "$stand_in"
}

# First run the tests in an environment that contains only UCX.
build_python() {
    run_python 'python: tests of the package' 900 \
        test_heap test_pool test_pool_loop test_window test_log test_gpu \
        test_cupy_malloc test_stress || return 1
    step 'python: engines' 600 python3 -m pip --disable-pip-version-check \
        --python "$work/python/venv" install -q \
        -r "$top/tests/python/requirements.txt" &&
        # The requirements of NIXL, without the optional PyTorch.
        step 'python: NIXL' 300 python3 -m pip --disable-pip-version-check \
            --python "$work/python/venv" install -q --no-deps \
            -r "$top/tests/python/requirements-no-deps.txt" &&
        run_python 'python: tests with engines' 1800 \
            test_pool_uvloop test_beside test_prometheus test_ucxx test_nixl \
            test_exit test_dask test_dask_conformance test_dask_cluster \
            test_dask_hosts test_dask_gpu test_demo test_examples test_types
}
