"""Tests that the library logs through `logging`. Each test runs in a new
process."""
import os
import subprocess
import sys
import unittest

BEGIN = """
import logging
import os
import sys
import threading
import time
import ucxpool

class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    def texts(self):
        return [record.getMessage() for record in self.records]

logger = logging.getLogger("ucxpool")
kept = Kept()

def say(number):
    # An error that is logged at level info, and stays pending.
    from ucxpool._library import library
    library()._library.ucxpool_config_modify(None, b"%d" % number, b"")

def tell():
    # A forked child creates no pool here: it might wait for a lock in UCX.
    from ucxpool._pool import _core
    _core.tell_log()

def connect(pool, where="nowhere"):
    try:
        pool.connect(where).wait()
    except ucxpool.InvalidParameterError as error:
        return str(error)
"""


class Log(unittest.TestCase):
    def run_python(self, text, **variables):
        """Run code in a new process, and return its stdout and stderr."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("UCXPOOL_LOG")}
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + text], text=True,
            capture_output=True, timeout=1800, env={**environment, **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def passes(self, text, **variables):
        """Run code that checks its own results and prints nothing."""
        self.assertEqual(self.run_python(text, **variables), ("", ""))

    def test_message_becomes_a_log_record(self):
        self.passes("""
logger.addHandler(kept)
before = time.time()
ucxpool.Pool(comm_size="8m").close()
[record] = kept.records
assert record.name == "ucxpool" and record.levelno == logging.WARNING
assert "BLOK_SIZE" in record.getMessage(), record
assert before <= record.created <= time.time(), record.created
assert record.process == os.getpid()
""", UCXPOOL_BLOK_SIZE="64k")

    def test_without_a_handler_warnings_go_to_stderr(self):
        out, err = self.run_python("""
ucxpool.Pool(comm_size="8m").close()
""", UCXPOOL_BLOK_SIZE="64k")
        self.assertEqual(out, "")
        self.assertRegex(err, r"^.*BLOK_SIZE.*\n$")
        self.assertNotIn("ucxpool[", err)

    def test_library_uses_the_loggers_level(self):
        self.passes("""
logger.addHandler(kept)
with ucxpool.Pool(comm_size="8m") as pool:
    connect(pool)
    assert not kept.records
    logger.setLevel(logging.INFO)
    said = connect(pool)
    assert [record.levelno for record in kept.records] == [logging.INFO]
    assert kept.texts() == [said], kept.texts()
    logger.setLevel(logging.NOTSET)
    logging.getLogger().setLevel(logging.INFO)
    connect(pool)
    assert kept.texts() == [said] * 2, kept.texts()
    logging.disable(logging.INFO)
    connect(pool)
    logging.disable(logging.NOTSET)
    logger.setLevel(logging.CRITICAL)
    connect(pool)
    assert kept.texts() == [said] * 2, kept.texts()
""")

    def test_messages_of_heaps_become_log_records(self):
        self.passes("""
logger.addHandler(kept)
logger.setLevel(logging.INFO)
with ucxpool.Heap(memory_limit="64m") as heap:
    [warning] = kept.records
    assert "BLOK_SIZE" in warning.getMessage(), kept.texts()
    try:
        heap.alloc(1 << 40)
    except ucxpool.OutOfMemoryError as error:
        assert kept.records[-1].levelno == logging.INFO
        assert kept.texts()[-1] in str(error), (kept.texts(), str(error))
""", UCXPOOL_BLOK_SIZE="64k")

    def test_pool_setting_overrides_the_loggers_level(self):
        self.passes("""
logger.addHandler(kept)
logger.setLevel(logging.INFO)
with ucxpool.Pool(comm_size="8m", log_level="warn") as pool:
    connect(pool)
    assert not kept.records
""")

    def test_variable_logs_to_stderr(self):
        out, err = self.run_python("""
logger.addHandler(kept)
logger.setLevel(logging.DEBUG)
with ucxpool.Pool(comm_size="8m") as pool:
    print(connect(pool))
assert not kept.records
""", UCXPOOL_LOG_LEVEL="info")
        self.assertRegex(err, r"(?m)^ucxpool\[\d+\] INFO: " + out)

    def test_handler_may_use_the_pool_from_many_threads(self):
        self.passes("""
class Busy(Kept):
    def emit(self, record):
        pool.stats()
        connect(pool, "elsewhere")
        super().emit(record)

pool = ucxpool.Pool(comm_size="8m")
kept = Busy()
logger.addHandler(kept)
logger.setLevel(logging.INFO)

def work():
    for _ in range(100):
        connect(pool)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
pool._progress()
num = sum("nowhere" in text for text in kept.texts())
assert num == 800, num
logger.removeHandler(kept)
pool.close()
""")

    def test_killed_peer_logs_a_warning(self):
        self.passes("""
import asyncio
import subprocess

logger.addHandler(kept)

async def main():
    async with ucxpool.Pool(comm_size="8m") as pool:
        listener = pool.listen()
        peer = subprocess.Popen([sys.executable, "-c", '''
import sys
import ucxpool
pool = ucxpool.Pool(comm_size="8m")
channel = pool.connect(sys.argv[1]).wait()
sys.stdin.read()
''', f"127.0.0.1:{listener.port}"], stdin=subprocess.PIPE)
        channel = await listener.accept()
        peer.kill()
        try:
            await channel.recv()
        except ucxpool.PeerLostError:
            pass
        else:
            raise AssertionError("the peer is not lost")
        peer.stdin.close()
        peer.wait()

asyncio.run(main())
# There is another one if the peer died before its memory was mapped.
assert 1 <= len(kept.records) <= 2, kept.texts()
assert {record.levelno for record in kept.records} == {logging.WARNING}
assert "has failed" in kept.texts()[-1], kept.texts()
""")

    def test_messages_pending_at_fork_belong_to_the_parent(self):
        self.passes("""
logger.addHandler(kept)
logger.setLevel(logging.INFO)
pool = ucxpool.Pool(comm_size="8m")
kept.records.clear()
say(1)
child = os.fork()
if child == 0:
    say(2)
    tell()
    os._exit(0 if len(kept.records) == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
assert not kept.records
pool._progress()
assert len(kept.records) == 1, kept.texts()
pool.close()
""")

    def test_child_forked_by_a_handler_can_log(self):
        self.passes("""
class Forking(Kept):
    def emit(self, record):
        super().emit(record)
        if len(self.records) == 1:
            self.child = os.fork()
            if self.child == 0:
                say(2)
                tell()
                os._exit(0 if len(self.texts()) == 2 else 1)

kept = Forking()
pool = ucxpool.Pool(comm_size="8m")
logger.addHandler(kept)
logger.setLevel(logging.INFO)
connect(pool)
assert os.waitpid(kept.child, 0)[1] == 0
""")

    def test_pending_messages_are_logged_at_exit(self):
        out, err = self.run_python("""
logging.basicConfig(stream=sys.stdout, level=logging.INFO,
                    format="%(name)s %(levelname)s")
ucxpool.Pool
say(1)
""")
        self.assertEqual((out, err), ("ucxpool INFO\n", ""))

    def test_lost_messages_are_counted(self):
        self.passes("""
logger.addHandler(kept)
logger.setLevel(logging.INFO)
with ucxpool.Pool(comm_size="8m") as pool:
    kept.records.clear()
    for number in range(1234):
        say(number)
    pool._progress()
    assert len(kept.records) == 1001, len(kept.records)
    assert kept.texts()[-1].startswith("234 "), kept.texts()[-1]
    assert kept.records[-1].levelno == logging.WARNING
    say(0)
    pool._progress()
    assert len(kept.records) == 1002, kept.texts()[1000:]
""")

    def test_failing_filter_does_not_fail_the_call(self):
        out, err = self.run_python("""
def fail(record):
    raise ValueError("this filter")

logger.addFilter(fail)
logger.setLevel(logging.INFO)
with ucxpool.Pool(comm_size="8m") as pool:
    print("nowhere" in connect(pool))
""")
        self.assertEqual(out, "True\n")
        self.assertIn("ValueError: this filter", err)


if __name__ == "__main__":
    unittest.main()
