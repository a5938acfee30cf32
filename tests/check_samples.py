#!/usr/bin/python3
"""Checks the code samples of README.md and the guide. Samples in C, C++ and
Java are parts of the examples. The others are parsed, and the options, settings and names
of libucxpool in them exist. An indented sample is shell."""
import ast
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
    keys = (found.get("distributed") or {}).get("comm", {}).get("ucxpool", {})
    known = output(BUILT / "tools" / "ucxpool_info", "-c").stdout
    for key in keys:
        setting = "UCXPOOL_" + key.upper().replace("-", "_")
        if (not re.search(rf"^{setting}\b", known, re.M)
                and f'"{key}"' not in (PACKAGE / "dask.py").read_text()
                + (PACKAGE / "_dask_gpu.py").read_text()):
            yield f"no setting {key}"


def defined(module):
    """Return the names that a module of the package defines or imports."""
    path = PACKAGE / f"{module}.pyi"
    path = path if path.exists() else path.with_suffix(".py")
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            names |= defined(node.module)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {one.asname or one.name for one in node.names}
        elif isinstance(node, ast.AnnAssign):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign):
            names |= {ast.unparse(one) for one in node.targets}
        else:
            names.add(getattr(node, "name", None))
    return names | {path.stem for path in PACKAGE.glob("*.py")
                    if module == "__init__"}


def check_python(sample):
    try:
        tree = compile(sample, "sample", "exec", ast.PyCF_ONLY_AST
                       | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        yield str(error)
        return
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            used |= {f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            used |= {one.name for one in node.names}
    for name in sorted(used):
        package, *parts = name.split(".")
        if package != "ucxpool" or not all(map(str.isidentifier, parts)):
            continue
        module = "__init__"
        for part in parts[:2]:
            if part not in defined(module):
                yield f"no {name}"
            if not (PACKAGE / f"{part}.py").exists():
                break
            module = part


def check_cpp(sample):
    return check_part(sample, *(TOP / "examples").glob("*.cpp"))


def check_names(sample):
    """Functions of libucxpool in C++ that needs headers that are not in
    Debian."""
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
        yield "it is not part of an example"


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


# Each check must find a planted fault.
PLANTED = ["Text:\n\n    ucxpool_info --nonsense\n"] + [
    f"```{language}\n{sample}\n```\n" for language, sample in (
        ("sh", "if true"), ("sh", "examples/nonsense"), ("sh", "./nonsense"),
        ("sh", "./configure --nonsense"), ("yaml", "a: [b"),
        ("yaml", "distributed: {comm: {ucxpool: {nonsense: 1}}}"),
        ("python", "if true"), ("python", "ucxpool.nonsense()"),
        ("python", "from ucxpool.rmm import nonsense"),
        ("cpp", "nonsense();"),
        ("c++", "ucxpool_nonsense()"), ("ini", "nonsense"),
        ("java", "nonsense();"), ("c", "nonsense();"),
        ("cmake", "nonsense()"), ("nonsense", ""))]


def main():
    for planted in PLANTED:
        if len(list(faults(planted))) != 1:
            print(f"the planted fault was not found:\n{planted}")
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
