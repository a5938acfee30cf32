"""Tests that Ray's actors send tensors to each other through the pool."""
import asyncio
import contextlib
import io
import os
import pathlib
import runpy
import signal
import tempfile
import unittest
import unittest.mock

import ucxpool

# Limits that a busy machine does not reach. Ray reads its limit for a fetch
# when it is imported. By default its workers have niceness 15, and would
# hardly run next to other processes.
os.environ.update(RAY_rdt_fetch_fail_timeout_milliseconds="1800000",
                  RAY_worker_niceness="0")

try:
    import ray
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"Ray's transport takes Ray and PyTorch: {error}")

import ucxpool.ray
from ray._private.ray_constants import RDT_FETCH_FAIL_TIMEOUT_SECONDS
from ray.exceptions import RayDirectTransportError, RayTaskError
from ray.experimental.rdt.util import get_tensor_transport_manager

ucxpool.ray.register()

EXAMPLE = (pathlib.Path(__file__).resolve().parents[2] / "python" / "examples"
           / "ray_tensors.py")

# Larger than the blocks of a pool, so that it is never completely in transit.
LARGE = 256 << 20


def the_transport():
    return get_tensor_transport_manager("UCXPOOL")


def tensors(seed):
    """Return tensors with different memory layouts."""
    torch.manual_seed(seed)
    return {
        "numbers": torch.arange(seed, seed + 100_000),
        "halves": torch.randn(33, 7).to(torch.bfloat16),
        "flags": torch.rand(1001) < 0.5,
        "complex": torch.randn(5, 5, dtype=torch.complex64),
        "scalar": torch.tensor(float(seed)),
        "nothing": torch.empty(0, 3),
        "turned": torch.arange(seed, seed + 12).reshape(3, 4).T,
        "rows": [torch.full((17,), seed, dtype=torch.uint8)] * 3,
        "words": f"object {seed}",
    }


def difference(got, expected):
    """Return the first difference, or None."""
    for key, value in expected.items():
        pairs = (zip(got[key], value, strict=True) if isinstance(value, list)
                 else [(got[key], value)])
        for one, other in pairs:
            if not (torch.equal(one, other) and one.dtype == other.dtype
                    if isinstance(other, torch.Tensor) else one == other):
                return f"{key}: {one} is not {other}"
    return None


@ray.remote(enable_tensor_transport=True, num_cpus=0)
class Actor:
    @ray.method(tensor_transport="ucxpool")
    def make(self, seed):
        return tensors(seed)

    @ray.method(tensor_transport="ucxpool")
    def fill(self, length, value):
        self.kept = torch.full((length,), value, dtype=torch.uint8)
        return self.kept

    @ray.method(tensor_transport="ucxpool")
    def nothing(self):
        return {"words": "no tensor"}

    @ray.method(tensor_transport="ucxpool")
    def pass_on(self, got):
        return [part + 1 for part in got]

    def check(self, seed, got):
        return difference(got, tensors(seed))

    def checks(self, seeds, *objects):
        return [difference(one, tensors(seed))
                for seed, one in zip(seeds, objects, strict=True)]

    def get(self, references):
        return difference(ray.get(references[0]), tensors(1))

    def count(self, got, value):
        return int((got == value).sum())

    def put(self, seed):
        return [ray.put(tensors(seed), _tensor_transport="ucxpool")]

    def listens_at(self):
        return the_transport()._sides[None].address.rpartition(":")[0]

    def die_in_mid_transfer(self):
        """Die in the turn in which a part of a long object has been
        transferred."""
        pool = the_transport()._sides[None].pool
        turn = pool._progress

        def turn_and_die():
            events = turn()
            moved = sum(value for name, value in pool.stats().items()
                        if name.startswith(("sent_", "received_"))
                        and name.endswith("_bytes"))
            if moved >= 4 << 20:
                os.kill(os.getpid(), signal.SIGKILL)
            return events

        pool._progress = turn_and_die

    def limits(self):
        """Return the time limit of a fetch, and the niceness of this
        process."""
        return RDT_FETCH_FAIL_TIMEOUT_SECONDS, os.nice(0)

    def kept_after_the_end(self):
        """Return the number of objects that the transport keeps, after `kept`
        was released."""
        ray.experimental.wait_tensor_freed(self.kept, timeout=1800)
        return len(the_transport()._objects)


def setUpModule():
    global folder
    # The name must be short, because Ray creates sockets in this directory.
    folder = tempfile.TemporaryDirectory(prefix="ray", dir="/tmp",
                                         ignore_cleanup_errors=True)
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    ucxpool.ray.register()  # a second call has no effect
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
             object_store_memory=100 << 20, _temp_dir=folder.name)


def tearDownModule():
    ray.shutdown()
    folder.cleanup()


class Actors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one, cls.two = Actor.remote(), Actor.remote()

    def test_limits_come_from_the_environment(self):
        self.assertEqual(RDT_FETCH_FAIL_TIMEOUT_SECONDS, 1800)
        self.assertEqual(ray.get(self.one.limits.remote(), timeout=1800),
                         (1800, os.nice(0)))

    def test_example(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            runpy.run_path(EXAMPLE, run_name="__main__")
        self.assertEqual(said.getvalue(), "3145728.0\n")

    def test_object_with_many_tensors(self):
        self.assertIsNone(ray.get(
            self.two.check.remote(7, self.one.make.remote(7)), timeout=1800))

    def test_many_objects_in_both_directions(self):
        seeds = range(100)
        said = [there.checks.remote(seeds, *[here.make.remote(seed)
                                             for seed in seeds])
                for here, there in ((self.one, self.two),
                                    (self.two, self.one))]
        self.assertEqual(ray.get(said, timeout=1800), [[None] * 100] * 2)

    def test_tensor_larger_than_the_blocks(self):
        got = self.one.fill.remote(LARGE, 5)
        self.assertEqual(
            ray.get(self.two.count.remote(got, 5), timeout=1800), LARGE)

    def test_driver_gets_and_puts(self):
        self.assertIsNone(difference(
            ray.get(self.one.make.remote(3), timeout=1800), tensors(3)))
        put = ray.put(tensors(4), _tensor_transport="ucxpool")
        self.assertIsNone(ray.get(self.two.check.remote(4, put), timeout=1800))

    def test_get_returns_many_objects(self):
        got = ray.get([self.one.make.remote(seed) for seed in range(20)],
                      timeout=1800)
        self.assertEqual([difference(one, tensors(seed))
                          for seed, one in enumerate(got)], [None] * 20)

    def test_actor_gets_objects_put_by_another(self):
        references = ray.get(self.one.put.remote(1), timeout=1800)
        self.assertIsNone(ray.get(self.two.get.remote(references),
                                  timeout=1800))

    def test_object_passes_through_several_actors(self):
        got = ray.put([torch.zeros(1000), torch.ones(3)],
                      _tensor_transport="ucxpool")
        for actor in (self.one, self.two) * 3:
            got = actor.pass_on.remote(got)
        zeros, ones = ray.get(got, timeout=1800)
        self.assertTrue(torch.equal(zeros, torch.full((1000,), 6.)))
        self.assertTrue(torch.equal(ones, torch.full((3,), 7.)))

    def test_tensors_arrive_in_target_buffers(self):
        mine = torch.empty(1000, dtype=torch.uint8)
        reference = self.one.fill.remote(1000, 9)
        ray.experimental.set_target_for_ref(reference, [mine])
        got = ray.get(reference, timeout=1800)
        self.assertEqual(got.data_ptr(), mine.data_ptr())
        self.assertTrue(bool((mine == 9).all()))

    def test_actors_with_a_secret_listen_on_the_node_address(self):
        with tempfile.NamedTemporaryFile(dir=folder.name) as secret:
            secret.write(os.urandom(32).hex().encode())
            secret.flush()
            environment = {"env_vars": {"UCXPOOL_SECRET_FILE": secret.name}}
            one, two = [Actor.options(runtime_env=environment).remote()
                        for _ in range(2)]
            got = one.make.remote(5)
            self.assertIsNone(ray.get(two.check.remote(5, got), timeout=1800))
            self.assertEqual(ray.get(one.listens_at.remote(), timeout=1800),
                             ray.util.get_node_ip_address())
            # The driver does not know the secret.
            with self.assertRaisesRegex(RayDirectTransportError,
                                        "did not arrive"):
                ray.get(got, timeout=1800)

    def test_object_without_tensors(self):
        self.assertEqual(ray.get(self.one.nothing.remote(), timeout=1800),
                         {"words": "no tensor"})

    def test_deleted_objects_are_released(self):
        actor = Actor.remote()
        reference = actor.fill.remote(1000, 1)
        self.assertEqual(
            ray.get(self.two.count.remote(reference, 1), timeout=1800), 1000)
        del reference
        self.assertEqual(
            ray.get(actor.kept_after_the_end.remote(), timeout=1800), 0)

    def test_killed_sender_fails_the_fetch(self):
        for receive in (lambda got: ray.get(got, timeout=1800),
                        lambda got: ray.get(self.two.count.remote(got, 1),
                                            timeout=1800)):
            victim = Actor.remote()
            got = victim.fill.remote(LARGE, 1)
            ray.get(victim.die_in_mid_transfer.remote(), timeout=1800)
            with self.assertRaises((RayDirectTransportError,
                                    RayTaskError)) as caught:
                receive(got)
            self.assertIn("did not arrive", str(caught.exception))
        # The other actors keep working.
        self.assertIsNone(ray.get(
            self.two.check.remote(1, self.one.make.remote(1)), timeout=1800))

    def test_killed_receiver_leaves_the_object_to_others(self):
        victim = Actor.remote()
        got = self.one.fill.remote(LARGE, 2)
        ray.get(self.two.count.remote(victim.fill.remote(10, 3), 3),
                timeout=1800)
        ray.get(victim.die_in_mid_transfer.remote(), timeout=1800)
        with self.assertRaises(ray.exceptions.RayActorError):
            ray.get(victim.count.remote(got, 2), timeout=1800)
        self.assertEqual(
            ray.get(self.two.count.remote(got, 2), timeout=1800), LARGE)


class Fetches(unittest.IsolatedAsyncioTestCase):
    """Tests the transport of this process. The test itself is the peer."""

    async def asyncSetUp(self):
        self.transport = the_transport()
        self.pool = ucxpool.Pool(comm_size="8m")
        listener = self.pool.listen()
        self.fetch = self.start(f"127.0.0.1:{listener.port}")
        self.channel = await listener.accept()
        self.asked = await self.channel.recv()
        await self.asked.into([])

    async def asyncTearDown(self):
        await self.pool.aclose()

    def start(self, address):
        return self.transport.fetch_multiple_tensors(
            "0badcafe", ucxpool.ray.Metadata(
                [(torch.Size([4]), torch.float32)], "cpu", address), None)

    def wait(self, timeout=1800):
        return asyncio.to_thread(self.transport.wait_fetch_complete,
                                 self.fetch, timeout)

    async def test_fetch_returns_the_tensors(self):
        self.assertEqual(self.asked.metadata, b"0badcafe")
        with self.assertRaises(TimeoutError):
            await self.wait(0)
        await self.channel.send(torch.ones(4).numpy(), self.asked.tag)
        [got] = await self.wait()
        self.assertTrue(torch.equal(got, torch.ones(4)))

    async def test_aborted_fetches_end_and_refuse_answers(self):
        self.transport.abort_transport("0badcafe", None)
        with self.assertRaisesRegex(RayDirectTransportError, "was aborted"):
            await self.wait()
        with self.assertRaisesRegex(ucxpool.RefusedError, "aborted"):
            await self.channel.send(bytes(1 << 20), self.asked.tag)

    async def test_fetch_fails_if_the_peer_ends(self):
        self.channel.abort()
        with self.assertRaisesRegex(RayDirectTransportError,
                                    "did not arrive"):
            await self.wait()

    async def test_fetch_of_a_deleted_object_fails(self):
        await self.channel.send([], self.asked.tag, b"gone")
        with self.assertRaisesRegex(RayDirectTransportError, "anymore"):
            await self.wait()
        mine = self.transport.extract_tensor_transport_metadata(
            "another", [torch.ones(4)])
        self.transport.garbage_collect("another", mine, [])
        self.fetch = self.start(mine.address)
        with self.assertRaisesRegex(RayDirectTransportError, "anymore"):
            await self.wait()

    async def test_fetch_fails_without_a_listener(self):
        self.fetch = self.start("127.0.0.1:1")
        with self.assertRaisesRegex(RayDirectTransportError,
                                    "did not arrive"):
            await self.wait()


class OnGpu:
    """The parts of a GPU tensor that the transport uses. The GPU may be the
    stand-in for the CUDA driver, and PyTorch may lack CUDA."""
    is_cuda = True
    device = torch.device("cuda", 0)
    dtype = torch.uint8

    def __init__(self, heap, length):
        self.memory = heap.buffer(length)
        self.shape = torch.Size([length])

    def contiguous(self):
        return self

    def numel(self):
        return self.shape[0]

    def element_size(self):
        return 1

    def data_ptr(self):
        return self.memory.__cuda_array_interface__["data"][0]


class GpuTensors(unittest.TestCase):
    def setUp(self):
        try:
            self.heap = ucxpool.Heap(0, memory_limit="64m")
        except ucxpool.Error as error:
            self.skipTest(f"no GPU: {error}")
        self.addCleanup(self.heap.close)
        self.addCleanup(os.environ.pop, "UCXPOOL_COMM_SIZE", None)
        os.environ["UCXPOOL_COMM_SIZE"] = "32m"

    def move(self, here, there):
        """Fetch an object with the transport of this process, from itself."""
        transport = the_transport()
        with unittest.mock.patch("torch.cuda.synchronize") as waited:
            metadata = transport.extract_tensor_transport_metadata(
                "00", here)
        self.assertEqual(waited.called, here[0].is_cuda)
        transport.recv_multiple_tensors("00", metadata, None, there)
        transport.garbage_collect("00", metadata, here)

    def test_tensors_move_between_gpus_and_host(self):
        lengths = (1, 5000, 3 << 20)
        host = [torch.randint(0, 256, (length,), dtype=torch.uint8)
                for length in lengths]
        one, two = [[OnGpu(self.heap, length) for length in lengths]
                    for _ in range(2)]
        back = [torch.empty_like(tensor) for tensor in host]
        self.move(host, one)
        self.move(one, two)
        self.move(two, back)
        for tensor, expected in zip(back, host, strict=True):
            self.assertTrue(torch.equal(tensor, expected))


class Answers(unittest.IsolatedAsyncioTestCase):
    async def fail(self, error):
        raise error("as the test says")

    async def test_local_error_is_logged(self):
        with self.assertLogs("ucxpool.ray", "ERROR") as logged:
            await ucxpool.ray._answered(self.fail(ucxpool.OutOfMemoryError))
        self.assertIn("as the test says", logged.output[0])

    async def test_lost_peer_is_not_logged(self):
        with self.assertNoLogs("ucxpool.ray"):
            await ucxpool.ray._answered(self.fail(ucxpool.PeerLostError))


class Refused(unittest.TestCase):
    def test_tensors_on_several_devices_are_rejected(self):
        with self.assertRaisesRegex(ValueError, "several devices: .*meta"):
            the_transport().extract_tensor_transport_metadata(
                "0", [torch.empty(1), torch.empty(1, device="meta")])


if __name__ == "__main__":
    unittest.main()
