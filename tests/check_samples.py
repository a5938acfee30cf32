#!/usr/bin/python3
"""Checks the code samples of README.md and the guide.

Samples in C, C++, Python and Java, and Dask's configuration, are parts of files
that tests run. Samples of other kinds cannot be run in tests:

  sh    installs packages or needs other hosts, root or a program of the reader.
        It is parsed, and its programs and options exist.
  yaml  of containers needs Docker or Kubernetes. It is parsed.
  ini   of systemd needs systemd. It is parsed.
  c++   needs the headers of PyTorch with CUDA. The names of libucxpool exist.

The lines of a sample of CMake are in tests/test_install.sh. An indented sample
is shell."""
import configparser
import os
import pathlib
import re
import subprocess
import sys
import textwrap

try:
    import yaml
except ImportError:
    print("python3-yaml is not installed")
    sys.exit(77)

TOP = pathlib.Path(os.environ["top_srcdir"])
BUILT = pathlib.Path(os.environ["top_builddir"])
PACKAGE = TOP / "python" / "ucxpool"
PYTHON = TOP / "python" / "examples"
NOT_PART = "it is not part of an example"


def samples(text):
    """Yield the language and the text of each sample."""
    fenced = r"^```([\w+]*)\n(.*?)^```$"
    for language, sample in re.findall(fenced, text, re.M | re.S):
        yield language, sample
    text = re.sub(fenced, "", text, flags=re.M | re.S)
    for sample in re.findall(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+", text):
        yield "sh", textwrap.dedent(sample)


def output(*command, **how):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **how)


def help_of(program):
    """Return the help text of a program of this project, or None."""
    name = program.rpartition("/")[2]
    if name == "configure":
        return output(TOP / name, "--help").stdout
    for path in (BUILT / "tools" / name, TOP / name):
        if re.match("ucxpool_|run-|quickstart", name) and path.exists():
            return output(path, "--help").stdout
    return None


def check_sh(sample):
    parsed = output("bash", "-n", input=sample)
    if parsed.returncode != 0:
        yield parsed.stdout.strip()
    for command in re.split(r"[\n;|&]+", sample.replace("\\\n", " ")):
        words = re.sub(r"\s#.*", "", command).split()
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if not words:
            continue
        if words[0].startswith("examples/"):
            if not (TOP / f"{words[0]}.c").exists():
                yield f"no {words[0]}"
            continue
        text = help_of(words[0])
        if text is None:
            if re.match(r"ucxpool_|\./", words[0]) and not (
                    TOP / words[0]).exists():
                yield f"no {words[0]}"
            continue
        for option in words[1:]:
            name = re.match(r"\[?(--?[a-z][a-z-]*)", option)
            if name and not re.search(rf"(?<![\w-]){name[1]}(?![\w-])", text):
                yield f"{words[0]} has no option {name[1]}"


def check_yaml(sample):
    try:
        found = yaml.safe_load(sample)
    except yaml.YAMLError as error:
        yield str(error)
        return
    if "distributed" not in found:
        return
    yield from check_part(sample, *PYTHON.glob("*.yaml"))
    keys = found["distributed"]["comm"]["ucxpool"]
    known = output(BUILT / "tools" / "ucxpool_info", "-c").stdout
    for key in keys:
        setting = "UCXPOOL_" + key.upper().replace("-", "_")
        if (not re.search(rf"^{setting}\b", known, re.M)
                and f'"{key}"' not in (PACKAGE / "dask.py").read_text()
                + (PACKAGE / "_dask_gpu.py").read_text()):
            yield f"no setting {key}"


def check_python(sample):
    return check_part(sample, *PYTHON.glob("*.py"), PACKAGE / "cupy.py")


def check_cpp(sample):
    return check_part(sample, *(TOP / "examples").glob("*.cpp"),
                      TOP / "tests" / "cpp" / "test_rmm.cpp")


def check_names(sample):
    text = "".join(path.read_text() for path in
                   (TOP / "include" / "ucxpool").glob("*.h"))
    for name in re.findall(r"\bucxpool_\w+", sample):
        if not re.search(rf"\b{name}\b", text):
            yield f"no {name}"


def check_ini(sample):
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(sample)
    except configparser.Error as error:
        yield str(error)


def check_part(sample, *paths):
    texts = (textwrap.dedent(path.read_text()) for path in paths)
    # The file may have the sample with more indentation.
    if not any(textwrap.indent(sample, depth * " ", str.strip) in text
               for text in texts for depth in (0, 4, 8, 12)):
        yield NOT_PART


def check_java(sample):
    return check_part(sample, *(TOP / "examples").glob("*.java"))


def check_c(sample):
    return check_part(sample, *(TOP / "examples").glob("*.c"))


def check_cmake(sample):
    """The test of the installation has these lines, with other values."""
    text = (TOP / "tests" / "test_install.sh").read_text()
    for line in sample.splitlines():
        line = re.sub(r" \d+\.\d+ ", " ${VERSION} ", line)
        if line not in text.splitlines():
            yield f"tests/test_install.sh does not have: {line}"


CHECKS = {"sh": check_sh, "yaml": check_yaml, "python": check_python,
          "cpp": check_cpp, "c++": check_names, "ini": check_ini, "java": check_java,
          "c": check_c, "cmake": check_cmake, "text": lambda _: ()}


def faults(text):
    for language, sample in samples(text):
        if language not in CHECKS:
            yield f"unknown language '{language}'", sample
            continue
        for fault in CHECKS[language](sample):
            yield fault, sample


# Samples, each with the faults that must be found in it.
PLANTED = [("Text:\n\n    ucxpool_info --nonsense\n", "has no option")] + [
    (f"```{language}\n{sample}\n```\n", *expected)
    for language, sample, *expected in (
        ("sh", "if true", "syntax error"),
        ("sh", "examples/nonsense", "no examples/nonsense"),
        ("sh", "./nonsense", "no ./nonsense"),
        ("sh", "./configure --nonsense", "has no option"),
        ("yaml", "a: [b", "while parsing"),
        ("yaml", "distributed: {comm: {ucxpool: {wire: 1}}}", NOT_PART),
        ("yaml", "distributed: {comm: {ucxpool: {nonsense: 1}}}", NOT_PART,
         "no setting nonsense"),
        ("python", "nonsense()", NOT_PART), ("cpp", "nonsense();", NOT_PART),
        ("c++", "ucxpool_nonsense()", "no ucxpool_nonsense"),
        ("ini", "nonsense", "File contains no section headers"),
        ("java", "nonsense();", NOT_PART), ("c", "nonsense();", NOT_PART),
        ("cmake", "nonsense()", "does not have"),
        ("nonsense", "", "unknown language"))]


def main():
    for planted, *expected in PLANTED:
        found = [fault for fault, _ in faults(planted)]
        if len(found) != len(expected) or not all(
                map(str.__contains__, found, expected)):
            print(f"not {expected}, but {found} in:\n{planted}")
            return 1
    count = status = 0
    for page in (TOP / "README.md", *sorted((TOP / "docs/guide").glob("*.md"))):
        text = page.read_text()
        count += len(list(samples(text)))
        for fault, sample in faults(text):
            print(f"{page.relative_to(TOP)}: {fault}:\n{sample}")
            status = 1
    print(f"{count} samples")
    return status or count < 60


if __name__ == "__main__":
    sys.exit(main())
