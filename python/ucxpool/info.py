"""ucxpool_info prints the versions and files that this package uses, and its
settings; it also runs as `python -m ucxpool.info`. The library has a program
of the same name with a longer report; a wheel does not contain that
program."""
import argparse
import ctypes

import ucxpool

from ._library import library

# Flags of ucxpool_config_string(): values, meanings, defaults and sources.
PRINT_ALL = 0xf


def print_settings():
    """Print each setting with its value, default and meaning."""
    lib = library()
    config = ctypes.c_void_p()
    lib.check(lib.config_read(ctypes.byref(config)))
    try:
        print(lib.text(lib.config_string(config, PRINT_ALL)), end="")
    finally:
        lib.config_release(config)


def report():
    """Return versions, files, and properties of a pool created for this
    report."""
    numbers, ucx = ucxpool.ucx_version()
    found = {"package": ucxpool.__version__,
             "library": f"{ucxpool.version()}, {ucxpool.library_path()}",
             "UCX": f"{'.'.join(map(str, numbers))}, {ucx}"}
    with ucxpool.Pool(name="ucxpool_info") as pool:
        info = pool.info()
    for name in ("block_size", "region_size", "num_regions", "degraded"):
        found[name.replace("_", " ")] = info[name]
    return found


def main():
    parser = argparse.ArgumentParser(
        prog="ucxpool_info",
        description="Print the versions and files that ucxpool uses.")
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
