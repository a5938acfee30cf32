# ray        the wheel of the build python, under Ray
folders[ray]=python
results_at[ray]=$work/ray/tests

# Uses Debian's PyTorch, because PyPI's PyTorch includes CUDA (3 GB).
build_ray() {
    step 'ray: environment' 600 sh -c "
        rm -rf '$work/ray/venv' &&
        /usr/bin/python3 -m venv --without-pip --system-site-packages \
            '$work/ray/venv' &&
        /usr/bin/python3 -m pip --disable-pip-version-check \
            --python '$work/ray/venv' install -q \
            -r '$top/tests/python/requirements-ray.txt' \
            '$work'/python/wheel/*.whl" &&
        run_python 'ray: tests' 600 test_ray
}
