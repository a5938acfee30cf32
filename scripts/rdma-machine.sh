# The virtual machine of ./run-rdma-tests: its kernel, the first programs that
# run in it, and how it is started. Sourced by bash after setup.sh.

machine=$work/rdma/machine
PATH=$PATH:/usr/sbin:/sbin

# The kernel modules that the machine needs, in addition to their dependencies.
machine_modules='virtio_pci 9p 9pnet_virtio overlay crc32_generic crc32c_generic
    dummy ib_uverbs rdma_ucm rdma_rxe'

# machine_missing - print what prevents the machine from running, if anything.
machine_missing() {
    local program
    if [ "$(uname -m)" != x86_64 ]; then
        echo "the machine is for x86_64, and this is $(uname -m)"
        return
    fi
    for program in qemu-system-x86_64 busybox cpio flock modprobe \
        rdma ibv_rc_pingpong setpriv; do
        if ! command -v $program >/dev/null; then
            echo "$program was not found (packages: $(echo $packages_rdma))"
            return
        fi
    done
    # The initramfs contains no shared libraries.
    if ldd "$(command -v busybox)" >/dev/null 2>&1; then
        echo 'busybox is linked dynamically (package: busybox-static)'
    fi
}

# machine_fetch DIR - unpack Debian's newest kernel into DIR.
machine_fetch() {
    local package
    package=$(apt-cache depends linux-image-amd64 2>/dev/null |
        awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
    if [ -z "$package" ]; then
        machine_why='apt-cache knows no linux-image-amd64'
        return 1
    fi
    # Downloads by a user need a directory of that user.
    rm -rf "$1" && mkdir -p "$1" &&
        step "fetch $package" 600 env -C "$1" apt-get -q \
            -o Acquire::Retries=3 download "$package" &&
        step "unpack $package" 300 sh -c '
            dpkg -x "$1"/linux-image-*.deb "$1" && rm "$1"/linux-image-*.deb
            ' sh "$1" && return 0
    machine_why="$package could not be fetched"
    return 1
}

# machine_pick DIR - copy the files that the machine needs from a kernel's tree.
machine_pick() {
    local image release file
    image=$(ls -v "$1"/boot/vmlinuz-* 2>/dev/null | tail -n 1)
    release=${image##*/vmlinuz-}
    if [ -z "$image" ] || [ ! -d "$1/lib/modules/$release" ]; then
        machine_why="$1 has no boot/vmlinuz-* with its lib/modules"
        return 1
    fi
    [ -f "$1/lib/modules/$release/modules.dep" ] ||
        depmod -b "$1" "$release" || return 1
    for module in $machine_modules; do
        # Modules built into the kernel have no file.
        modprobe -d "$1" -S "$release" --show-depends $module ||
            echo "missing $module"
    done >"$machine/modules" 2>&1
    if grep -qE '^(missing|modprobe:)' "$machine/modules"; then
        machine_why="$release lacks modules: $(sed -n 's/^missing //p' \
            "$machine/modules" | paste -s -d ' ')"
        return 1
    fi
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$machine/modules" |
        nl -n rz -w 3 | while read -r number file; do
        case $file in
        *.xz) xz -dc "$file" ;;
        *.zst) zstd -dcq "$file" ;;
        *.gz) gzip -dc "$file" ;;
        *) cat "$file" ;;
        esac >"$machine/root/modules/$number" || exit 1
    done && cp "$image" "$machine/kernel"
}

# machine_make KERNEL INSTALL - create the kernel and the initramfs. KERNEL is
# the tree to use; by default an existing one is used, or one is fetched.
# Returns 1 if there is no kernel, with the reason in $machine_why.
machine_make() {
    local from=$1
    machine_why=''
    if [ -n "$from" ] || [ ! -f "$machine/kernel" ]; then
        rm -rf "$machine" && mkdir -p "$machine/root/modules" || return 1
        if [ -z "$from" ]; then
            if [ "$2" = no ]; then
                machine_why='none was fetched before, and --no-install forbids'
                return 1
            fi
            from=$work/rdma/kernel
            machine_fetch "$from" || return 1
        fi
        machine_pick "$from" || return 1
        rm -rf "$work/rdma/kernel"
    fi
    mkdir -p "$machine/root/bin" &&
        cp "$(command -v busybox)" "$machine/root/bin/busybox" &&
        cp "$top/tests/rdma/init" "$machine/root/init" &&
        chmod +x "$machine/root/init" &&
        (cd "$machine/root" && find . | sort |
            cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$machine/new.$$" &&
        mv "$machine/new.$$" "$machine/initramfs"
}

# machine_boot LIMIT RESULTS BUILD COMMAND [TEST...] - run the tests, or the
# command, in the machine for at most LIMIT seconds, as scripts/end-hung counts
# them, and print the output. The machine writes only to the directory RESULTS.
# Returns the status of the command, or 125 if the machine did not end by
# itself.
machine_boot() {
    local limit=$1 results=$2 build=$3 command=$4
    shift 4
    rm -f "$results/status"
    {
        printf 'top_srcdir=%q\ntop_builddir=%q\n' "$top" "$build"
        printf 'command=%q\ntests=%q\n' "$command" "$*"
    } >"$results/job"
    # KVM is not used: inside another virtual machine, it may be available but
    # hang. On a busy host, the kernel would panic because the timer does not
    # pass its check (no_timer_check). A comma in a directory's name must be
    # doubled.
    "$top/scripts/end-hung" "$limit" qemu-system-x86_64 -accel tcg,thread=multi \
        -cpu max -smp 2 -m 2048 -nodefaults -display none -no-reboot \
        -kernel "$machine/kernel" -initrd "$machine/initramfs" \
        -append 'console=ttyS0 quiet panic=-1 oops=panic no_timer_check' \
        -serial "file:${results//,/,,}/console.log" -serial stdio \
        -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=${results//,/,,},mount_tag=results,security_model=none" \
        </dev/null | sed -u 's/\r$//'
    [ -s "$results/status" ] || return 125
    return "$(cat "$results/status")"
}
