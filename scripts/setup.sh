# Shared by ./quickstart, ./run-tests and .ci/run: steps that report what they
# do, Debian's packages, and UCX 1.22 from PyPI. Sourced by bash, with $top set
# to the source tree.

# Settings in the user's environment must not affect the tests.
for variable in $(compgen -e | grep -E '^(UCX|UCXPOOL)_'); do
    unset "$variable"
done
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

work=$top/_build
logs=$work/logs
jobs=$(nproc 2>/dev/null || echo 2)

# Packages to compile the library and the tools.
packages_build='autoconf automake gcc libc6-dev libibverbs-dev libpmix-dev
    libssl-dev libtool libucx-dev make pkg-config'
# Additional packages for the tests.
packages_tests='abigail-tools binutils ccache check clang clang-format cmake
    doxygen furo g++ gnuplot-nox iproute2 libc6-dbg libclang-rt-dev lld llvm
    openmpi-bin procps python3 python3-breathe python3-dev python3-myst-parser
    python3-pip python3-sphinx python3-torch python3-venv python3-yaml util-linux
    valgrind xz-utils'
# Packages for the Java package and its tests.
packages_java='default-jdk-headless junit4'
# Additional packages to build Debian's packages, and to try them.
packages_deb='build-essential cython3 debhelper dh-python libibverbs-dev
    mmdebstrap python3-setuptools'
# Additional packages for the tests on Soft-RoCE; their kernel is downloaded.
packages_rdma='busybox-static cpio ibverbs-providers ibverbs-utils iproute2 kmod
    qemu-system-x86 util-linux xz-utils'
# Records for ./quickstart if no file is given: the WordNet database.
packages_quickstart='wordnet-base'

ucx_wheel='libucx-cu13==1.22.0'
ucx_dir=$top/.ucx/1.22.0
nvtx_wheel='nvidia-nvtx==13.0.85'
nvtx_dir=$top/.nvtx/13.0.85
rmm_wheel='librmm-cu13==26.10.0'
rmm_dir=$top/.rmm/26.10.0

# say TEXT... - print a line.
say() {
    printf '%s\n' "$*"
}

# die TEXT... - print the reason, and end.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# step NAME LIMIT COMMAND... - run a command with its output in a log file. The
# command is ended if it writes nothing for LIMIT seconds, as scripts/end-hung
# counts them. Prints the name, result and time of the step; if the command
# failed, also the command and the end of its output. With $step_whole set,
# nothing is printed before the command ends.
step() {
    local name=$1 limit=$2 log start status
    shift 2
    mkdir -p "$logs"
    log=$logs/$(printf '%s' "$name" | tr -c 'A-Za-z0-9.\n-' '_').log
    start=$SECONDS
    [ -n "${step_whole-}" ] || printf '  %-42s ' "$name"
    "$top/scripts/end-hung" "$limit" "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [ -n "${step_whole-}" ]; then
        name=$(printf '  %-42s ' "$name")
    else
        name=''
    fi
    if [ $status -eq 0 ]; then
        printf '%sok %5d s\n' "$name" $((SECONDS - start))
        return 0
    fi
    printf '%sFAILED %d s\n' "$name" $((SECONDS - start))
    if [ $status -eq 124 ]; then
        say "    it hung and was ended:"
    else
        say "    it ended with status $status:"
    fi
    say "    $*"
    say "    the end of $log:"
    tail -n 40 "$log" | sed 's/^/    | /'
    return $status
}

# Print the packages of the list that are not installed, on one line.
packages_missing() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || printf '%s ' "$package"
    done
}

# packages_install PACKAGE... - install the missing packages, as root or with
# sudo. On a system without apt-get, only print which packages are needed.
packages_install() {
    local as_root='' missing
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null
    then
        say "This is no Debian: the equivalents of these packages must be" \
            "there already:"
        say "  $(echo "$@")"
        return 0
    fi
    missing=$(packages_missing "$@")
    if [ -z "$missing" ]; then
        say "Packages: all that is needed is installed."
        return 0
    fi
    say "Packages to install: $missing"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            die "installing packages takes root: run this as root, install" \
                "sudo, or have these installed: $missing"
        as_root='sudo'
        if [ ! -t 0 ]; then
            as_root='sudo -n'
        fi
        $as_root true ||
            die "sudo refused: run this as root, or have these packages" \
                "installed: $missing"
        as_root="$as_root env DEBIAN_FRONTEND=noninteractive"
    fi
    step 'apt-get update' 600 $as_root apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update ||
        die "the lists of packages could not be fetched: is there a network," \
            "and does /etc/apt name a mirror?"
    step 'apt-get install' 1200 $as_root apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        install --no-install-recommends $missing ||
        die "the packages could not be installed: $missing"
    missing=$(packages_missing "$@")
    [ -z "$missing" ] || die "still not installed: $missing"
}

# wheel_fetch WHEEL REQUIREMENTS DIR FILE - download the wheels of
# scripts/REQUIREMENTS with pip, which checks their hashes, and unpack them to
# DIR, a directory that git ignores. Does nothing if this was done before. Fails
# if the wheels do not contain FILE of WHEEL.
wheel_fetch() {
    local wheel=$1 requirements=$2 dir=$3 file=$4 fetched=${3%/*}/wheel
    if [ -f "$dir/complete" ]; then
        return 0
    fi
    rm -rf "${dir%/*}"
    mkdir -p "$fetched"
    step "fetch $wheel" 900 python3 -m pip download --no-deps \
        --only-binary :all: --disable-pip-version-check --retries 5 \
        --require-hashes -r "$top/scripts/$requirements" \
        -d "$fetched" || return 1
    step "unpack $wheel" 300 python3 -c '
import sys, zipfile
for wheel in sys.argv[2:]:
    zipfile.ZipFile(wheel).extractall(sys.argv[1])
' "$dir" "$fetched"/*.whl || return 1
    [ -f "$dir/$file" ] || {
        say "  the wheel $wheel holds no $file"
        return 1
    }
    rm -rf "$fetched"
    touch "$dir/complete"
}

# Fetch UCX 1.22 into $ucx_dir.
ucx_fetch() {
    wheel_fetch "$ucx_wheel" ucx-wheel.txt "$ucx_dir" \
        libucx/include/ucp/api/ucp.h || return 1
    # zipfile does not restore the mode bits of programs.
    chmod +x "$ucx_dir"/libucx/bin/* 2>/dev/null
    return 0
}

# Fetch NVTX's headers into $nvtx_dir.
nvtx_fetch() {
    wheel_fetch "$nvtx_wheel" nvtx-wheel.txt "$nvtx_dir" \
        nvidia/cu13/include/nvtx3/nvToolsExt.h
}

# Fetch RMM, and the headers of CUDA that it needs, into $rmm_dir.
rmm_fetch() {
    wheel_fetch "$rmm_wheel" rmm-wheels.txt "$rmm_dir" \
        librmm/include/rmm/device_buffer.hpp
}

# Create ./configure if it is missing or older than its sources.
autotools() {
    if [ -f "$top/config.status" ]; then
        die "this tree was configured in place, which keeps other builds" \
            "out: run 'make distclean' first"
    fi
    if [ "$top/configure" -nt "$top/configure.ac" ] &&
        [ -f "$top/Makefile.in" ] &&
        [ -z "$(find "$top/Makefile.am" "$top"/*/local.mk \
            -newer "$top/Makefile.in")" ] &&
        [ -z "$(find "$top/m4" -name 'ucxpool_*' -newer "$top/configure")" ]
    then
        return 0
    fi
    step 'autoreconf' 300 sh -c "cd '$top' && autoreconf -fi"
}
