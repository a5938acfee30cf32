"""run.py [--in DIR] RESULTS MODULE... - run test modules of this directory, or
of another one, each in its own process. The results are in RESULTS/MODULE.log
and .trs, as for other tests. scripts/end-hung ends a test that hangs, so the
limits in the tests themselves are long."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
END_HUNG = HERE.parent.parent / "scripts" / "end-hung"

# Defaults that a busy machine reaches.
LIMITS = {"UCXPOOL_HANDSHAKE_TIMEOUT": "10m"}


def run(module):
    """Run one module in this process, and print the line that
    scripts/count-tests counts."""
    import faulthandler
    import signal
    import unittest
    # Print where it hangs when it is terminated.
    faulthandler.register(signal.SIGTERM, chain=True)
    program = unittest.main(module=module, argv=[module, "-v"], exit=False)
    result = program.result
    failed = len(result.failures) + len(result.unexpectedSuccesses)
    print(f"{0 if failed or result.errors else 100}%: "
          f"Checks: {result.testsRun - len(result.skipped)}, "
          f"Failures: {failed}, Errors: {len(result.errors)}", flush=True)
    return 0 if result.wasSuccessful() else 1


def start(folder, results, module):
    """Run one module in its own process."""
    log = results / f"{module}.log"
    with open(log, "wb") as said:
        status = subprocess.run(
            [END_HUNG, "600", sys.executable, "-X", "faulthandler", "-X", "dev",
             "-W", "ignore::ResourceWarning", __file__, "--inside", module],
            cwd=folder, env={**os.environ, **LIMITS}, stdout=said,
            stderr=subprocess.STDOUT).returncode
    log.with_suffix(".trs").write_text(
        f":test-result: {'FAIL' if status else 'PASS'}\n")
    print(f"{module}: {'FAILED' if status else 'ok'}")
    if status:
        sys.stdout.write("".join(
            open(log, errors="replace").readlines()[-100:]))
    return status


def main():
    if sys.argv[1] == "--inside":
        sys.path.insert(0, str(pathlib.Path.cwd()))
        return run(sys.argv[2])
    folder, arguments = HERE, sys.argv[1:]
    if arguments[0] == "--in":
        folder, arguments = pathlib.Path(arguments[1]), arguments[2:]
    results = pathlib.Path(arguments[0]).resolve()
    results.mkdir(parents=True, exist_ok=True)
    return max([start(folder, results, module) for module in arguments[1:]])


if __name__ == "__main__":
    sys.exit(main())
