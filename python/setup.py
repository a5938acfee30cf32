"""Build libucxpool, and the extension that is linked with it.

The library comes from the checkout around this folder, or from the build tree
that the variable LIBUCXPOOL_BUILD names. UCX is the wheel's (libucx-cu13), or the
one that LIBUCXPOOL_WITH_UCX names as configure's --with-ucx does.

With the variable LIBUCXPOOL_SYSTEM set, as a distribution's package has it, there
is no library in the package: it is the system's, and so is UCX, and the
extension is for the Python that builds it."""
import os
import pathlib
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
LIBRARIES = ("libucxpool.so.0", "libucxpool-framework.so.0")
SYSTEM = bool(os.environ.get("LIBUCXPOOL_SYSTEM"))


def run(*command, cwd):
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


def finish(file, path):
    """Without debugging information, and nothing looked for where it was
    built: others may write there."""
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
    """Build it from the checkout."""
    if not (TOP / "configure.ac").exists():
        raise SystemExit(
            f"{TOP} is no checkout of libucxpool: name a build tree of it in "
            "the variable LIBUCXPOOL_BUILD")
    if not (TOP / "configure").exists():
        run("./autogen.sh", cwd=TOP)
    # pip puts UCX into a new folder each time, and takes the last one away.
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
        """Put the library beside the extensions."""
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
    """One for all versions of Python from 3.11 on."""
    # ucxpool._library loads the library first, so that a program may name
    # another one.
    return {"packages": ["ucxpool", "ucxpool.lib"],
            "package_data": {"ucxpool.lib": ["*.so.*"]},
            "install_requires": ["libucx-cu13>=1.19"],
            "options": {"bdist_wheel": {"py_limited_api": "cp311"}}}


ENTRY_POINTS = {
    "distributed.comm.backends": ["ucxpool = ucxpool.dask:UcxPoolBackend"],
    # A system has the library's own program of this name.
    "console_scripts": [] if SYSTEM else ["ucxpool_info = ucxpool.info:main"]}

setup(cmdclass={"build_ext": BuildExt},
      ext_modules=[extension("_core", libraries=["ucxpool"],
                             depends=["ucxpool/_log.h"]),
                   extension("_cupy")],
      entry_points=ENTRY_POINTS,
      **{"packages": ["ucxpool"]} if SYSTEM else wheel())
