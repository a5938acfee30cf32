"""Builds libucxpool, and the extension that is linked with it.

The library is built from the checkout around this directory, or taken from the
build tree that the variable LIBUCXPOOL_BUILD names. UCX comes from the wheel
(libucx-cu13), or from the place that LIBUCXPOOL_WITH_UCX names, in the form of
configure's --with-ucx.

With the variable LIBUCXPOOL_SYSTEM set, as for a distribution's package, the
package contains no library: it uses the system's libucxpool and UCX, and the
extension is for the Python that builds it."""
import os
import pathlib
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
LIBRARIES = ("libucxpool.so.1", "libucxpool-framework.so.1")
SYSTEM = bool(os.environ.get("LIBUCXPOOL_SYSTEM"))


def run(*command, cwd):
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


def finish(file, path):
    """Strip debugging information, and set the library path, so that no
    library is loaded from the build directory, where other users may write."""
    file = pathlib.Path(file).resolve()
    run("strip", "--strip-debug", file, cwd=HERE)
    run("patchelf", "--set-rpath", path, file, cwd=HERE)


def with_ucx():
    named = os.environ.get("LIBUCXPOOL_WITH_UCX")
    if named is None:
        import libucx
        named = pathlib.Path(libucx.__file__).parent
    return named


def build_library(folder):
    """Build the library from the checkout."""
    if not (TOP / "configure.ac").exists():
        raise SystemExit(
            f"{TOP} is not a checkout of libucxpool: set the variable "
            "LIBUCXPOOL_BUILD to a build tree of it")
    if not (TOP / "configure").exists():
        run("./autogen.sh", cwd=TOP)
    # pip installs UCX in a new directory each time, and removes the previous
    # one.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(TOP / "configure", "-q", f"--with-ucx={with_ucx()}", cwd=folder)
    run("make", "-s", f"-j{os.cpu_count()}", "libucxpool.la",
        "libucxpool-framework.la", cwd=folder)
    return folder


class BuildExt(build_ext):
    def run(self):
        named = os.environ.get("LIBUCXPOOL_BUILD")
        tree = (pathlib.Path(named).resolve() if named else
                build_library(pathlib.Path(self.build_temp).resolve()
                              / "libucxpool"))
        for extension in self.extensions:
            extension.include_dirs += [str(TOP / "include"),
                                       str(tree / "include")]
            extension.library_dirs.append(str(tree / ".libs"))
        super().run()
        if not SYSTEM:
            self.bundle(tree)

    def bundle(self, tree):
        """Put the library next to the extensions."""
        for extension in self.extensions:
            finish(self.get_ext_fullpath(extension.name), "$ORIGIN/lib")
        folder = pathlib.Path(self.get_ext_fullpath("ucxpool._core")).parent
        (folder / "lib").mkdir(exist_ok=True)
        for name in LIBRARIES:
            place = folder / "lib" / name
            shutil.copy(tree / ".libs" / name, place)
            finish(place, "$ORIGIN")


def extension(name, **words):
    if not SYSTEM:
        words.update(py_limited_api=True,
                     define_macros=[("Py_LIMITED_API", "0x030B0000")])
    return Extension(f"ucxpool.{name}", [f"ucxpool/{name}.pyx"], **words)


def wheel():
    """Return the arguments for one wheel for Python 3.11 and newer."""
    # ucxpool._library loads the library first, so that a program can choose
    # another one.
    return {"packages": ["ucxpool", "ucxpool.lib"],
            "package_data": {"ucxpool.lib": ["*.so.*"]},
            "install_requires": ["libucx-cu13>=1.19"],
            "options": {"bdist_wheel": {"py_limited_api": "cp311"}}}


ENTRY_POINTS = {
    "distributed.comm.backends": ["ucxpool = ucxpool.dask:UcxPoolBackend"],
    # The system has the library's own program of this name.
    "console_scripts": [] if SYSTEM else ["ucxpool_info = ucxpool.info:main"]}

setup(cmdclass={"build_ext": BuildExt},
      ext_modules=[extension("_core", libraries=["ucxpool"],
                             depends=["ucxpool/_log.h"]),
                   extension("_cupy")],
      entry_points=ENTRY_POINTS,
      **{"packages": ["ucxpool"]} if SYSTEM else wheel())
