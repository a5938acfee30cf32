"""ucxpool_info - what this package runs on, and its settings; also as
`python -m ucxpool.info`. The library's own program of this name, which a wheel does
not have, prints a longer report."""
import argparse
import ctypes

import ucxpool

from ._library import library

# What ucxpool_config_print() prints: values, meanings, defaults, sources.
PRINT_ALL = 0xf


def print_settings():
    """Each setting with its value, its default and its meaning."""
    lib = library()
    config = ctypes.c_void_p()
    lib.check(lib.config_read(ctypes.byref(config)))
    try:
        libc = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(libc, "stdout")
        lib.config_print(config, stdout, PRINT_ALL)
        libc.fflush(stdout)
    finally:
        lib.config_release(config)


def report():
    """Versions, files, and a pool that is made for this."""
    numbers, ucx = ucxpool.ucx_version()
    told = {"package": ucxpool.__version__,
            "library": f"{ucxpool.version()}, {ucxpool.library_path()}",
            "UCX": f"{'.'.join(map(str, numbers))}, {ucx}"}
    with ucxpool.Pool(name="ucxpool_info") as pool:
        info = pool.info()
    for name in ("block_size", "region_size", "num_regions", "degraded"):
        told[name.replace("_", " ")] = info[name]
    return told


def main():
    parser = argparse.ArgumentParser(
        prog="ucxpool_info", description="What ucxpool runs on.")
    parser.add_argument("-c", "--config", action="store_true",
                        help="print each setting with its value, its default "
                        "and its meaning")
    if parser.parse_args().config:
        print_settings()
        return
    for name, value in report().items():
        print(f"{name:12} {value}")


if __name__ == "__main__":
    main()
