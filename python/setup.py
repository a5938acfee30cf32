"""Build libucxpool, and the extension that is linked with it.

The library comes from the checkout around this folder, or from the build tree
that the variable UCXPOOL_BUILD names. UCX is the wheel's (libucx-cu13), or the
one that UCXPOOL_WITH_UCX names as configure's --with-ucx does."""
import os
import pathlib
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
LIBRARIES = ("libucxpool.so.0", "libucxpool-framework.so.0")


def run(*command, cwd):
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


def with_ucx():
    named = os.environ.get("UCXPOOL_WITH_UCX")
    if named is None:
        import libucx
        named = pathlib.Path(libucx.__file__).parent
    return named


def build_library(folder):
    """Build it from the checkout."""
    if not (TOP / "configure.ac").exists():
        raise SystemExit(
            f"{TOP} is no checkout of libucxpool: name a build tree of it in "
            "the variable UCXPOOL_BUILD")
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
        named = os.environ.get("UCXPOOL_BUILD")
        tree = (pathlib.Path(named).resolve() if named else
                build_library(pathlib.Path(self.build_temp).resolve()
                              / "libucxpool"))
        for extension in self.extensions:
            extension.include_dirs += [str(TOP / "include"),
                                       str(tree / "include")]
            extension.library_dirs.append(str(tree / ".libs"))
        super().run()
        target = pathlib.Path(self.get_ext_fullpath("ucxpool._core"))
        for name in LIBRARIES:
            place = target.parent / "lib" / name
            place.parent.mkdir(exist_ok=True)
            shutil.copy(tree / ".libs" / name, place)
            run("strip", "--strip-debug", place, cwd=HERE)


class Wheel(bdist_wheel):
    """One wheel for all versions of Python from 3.11 on."""

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


def extension(name, **words):
    return Extension(f"ucxpool.{name}", [f"ucxpool/{name}.pyx"],
                     py_limited_api=True,
                     define_macros=[("Py_LIMITED_API", "0x030B0000")], **words)


setup(
    ext_modules=[
        # The library lies beside it in the wheel; ucxpool._library loads it
        # first, so that a program may name another one.
        extension("_core", libraries=["ucxpool"],
                  extra_link_args=["-Wl,-rpath,$ORIGIN/lib"]),
        extension("_cupy")],
    cmdclass={"build_ext": BuildExt, "bdist_wheel": Wheel})
