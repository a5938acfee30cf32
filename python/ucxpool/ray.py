"""The tensor transport "ucxpool" for Ray Direct Transport: sends Ray's PyTorch
tensors, on the host and on GPUs, through the pool.

    import ucxpool.ray
    ucxpool.ray.register()          # before the classes of the actors

    @ray.remote(enable_tensor_transport=True)
    class Producer:
        @ray.method(tensor_transport="ucxpool")
        def make(self):
            return {"weights": torch.ones(1 << 20)}

For Ray this is a one-sided transport: the process that has the tensors
listens, and other processes request an object by its ID. Settings come from
the environment (UCXPOOL_*).
"""
import asyncio
import atexit
import concurrent.futures
import ctypes
import itertools
import logging
import os
import threading
from dataclasses import dataclass

import ray
import torch
from ray.exceptions import RayDirectTransportError
from ray.experimental import (CommunicatorMetadata, TensorTransportManager,
                              TensorTransportMetadata,
                              register_tensor_transport)
from ray.experimental.rdt.tensor_transport_manager import FetchRequest
from ray.experimental.rdt.util import transport_manager_info

from . import (CanceledError, ClosedError, Error, PeerLostError, Pool,
               RefusedError)

NAME = "UCXPOOL"

_log = logging.getLogger("ucxpool.ray")


def register():
    """Register the transport "ucxpool" with Ray. Call this function in the
    process that creates the actors, before their classes name the transport.
    Ray registers the transport in the actors' processes."""
    if NAME not in transport_manager_info:
        register_tensor_transport(NAME, ["cpu", "cuda"], Transport,
                                  torch.Tensor)


@dataclass
class Metadata(TensorTransportMetadata):
    """The tensors of an object; address is the listener of the process that
    has them."""
    address: str | None = None


@dataclass
class Fetch(FetchRequest):
    """A fetch of an object in progress. The result of future is the object's
    tensors."""
    future: concurrent.futures.Future | None = None


class _OnGpu:
    """A contiguous tensor as a buffer of bytes."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": (_size(tensor),), "typestr": "|u1", "version": 3,
            "data": (tensor.data_ptr(), False)}


def _size(tensor):
    return tensor.numel() * tensor.element_size()


def _device(tensor):
    return tensor.device.index if tensor.is_cuda else None


def _buffer(tensor):
    """Return the tensor's memory as a buffer, without a copy. The buffer holds
    the tensor. This function does not use NumPy, which lacks some of PyTorch's
    types."""
    if tensor.is_cuda:
        return _OnGpu(tensor)
    buffer = (ctypes.c_char * _size(tensor)).from_address(tensor.data_ptr())
    buffer.tensor = tensor
    return buffer


def _buffers(tensors):
    return [_buffer(tensor) for tensor in tensors if _size(tensor) > 0]


async def _answered(transfer):
    """Wait for a send. If it fails, the receiver gets an error."""
    try:
        await transfer
    except (CanceledError, ClosedError, PeerLostError, RefusedError):
        pass  # the peer is lost, or no longer needs the object
    except Error as error:
        _log.error("cannot send an object: %s", error)


class _Side:
    """A pool of this process, and its channels to the processes from which it
    fetches. All methods run in the event loop."""

    def __init__(self, device, objects):
        self._objects = objects
        self._channels = {}  # address: task that connects
        self._numbers = itertools.count(1)
        self._tasks = set()
        self.pool = Pool(device, name="ray")
        # Without a secret, a listener accepts only processes on this host.
        host = (ray.util.get_node_ip_address()
                if os.environ.get("UCXPOOL_SECRET_FILE") else "127.0.0.1")
        port = self.pool.listen(f"{host}:0", self._serve).port
        self.address = f"{host}:{port}"

    def _begin(self, awaitable):
        """Start a task and keep it until it has ended."""
        task = asyncio.ensure_future(awaitable)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, channel):
        """Serve a peer: answer a message with an object's ID by a message with
        its tensors and the same tag."""
        try:
            while True:
                asked = channel.recv_into([])
                await asked
                name = (asked.metadata or b"").decode(errors="replace")
                tensors = self._objects.get(name)
                self._begin(_answered(
                    channel.send([], asked.tag, b"gone") if tensors is None
                    else channel.send(_buffers(tensors), asked.tag)))
        except Error:
            channel.abort()  # the peer is lost

    async def _channel(self, address):
        task = self._channels.get(address)
        if task is None or (task.done() and (
                task.exception() or task.result().ended)):
            task = self._channels[address] = self._begin(
                self.pool.connect(address, name=address))
        # Aborting one fetch must not end the channel for the others.
        return await asyncio.shield(task)

    async def fetch(self, obj_id, address, tensors):
        channel = await self._channel(address)
        number = next(self._numbers)
        try:
            await channel.send([], number, obj_id.encode())
            answer = await channel.recv(number)
        except asyncio.CancelledError:
            # Otherwise the answer's sender would wait forever.
            self._begin(self._refuse(channel, number))
            raise
        if answer.metadata:
            raise RayDirectTransportError(
                f"object {obj_id} is not at {address} anymore")
        await answer.into(_buffers(tensors))
        return tensors

    async def _refuse(self, channel, number):
        try:
            answer = await channel.recv(number)
            answer.refuse("the fetch was aborted")
        except Error:
            pass  # there is no answer, or the peer is lost


class Transport(TensorTransportManager):
    """The transport, which Ray creates once in each process that needs it. It
    has a thread with an event loop, a pool for tensors on the host, and a pool
    for each GPU. Each pool is created when it is first needed."""

    def __init__(self):
        self._objects = {}  # ID: tensors that peers may fetch
        self._fetches = {}  # ID: futures
        self._sides = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        name="ucxpool-ray", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _end(self):
        self._run(self._close())
        self._thread.join()

    # --- runs in the event loop

    async def _close(self):
        for side in self._sides.values():
            side.pool.close()
        self._loop.stop()

    async def _side(self, device):
        if device not in self._sides:
            self._sides[device] = _Side(device, self._objects)
        return self._sides[device]

    async def _fetch(self, obj_id, metadata, tensors):
        if tensors is None:
            tensors = [torch.empty(shape, dtype=dtype,
                                   device=metadata.tensor_device)
                       for shape, dtype in metadata.tensor_meta]
        if not any(map(_size, tensors)):
            return tensors
        devices = {_device(tensor) for tensor in tensors}
        if len(devices) > 1:
            raise ValueError("the target buffers are on several devices; they "
                             "must be on one")
        side = await self._side(devices.pop())
        return await side.fetch(obj_id, metadata.address, tensors)

    # --- called by Ray

    def tensor_transport_backend(self):
        return NAME

    @staticmethod
    def is_one_sided():
        return True

    @staticmethod
    def can_abort_transport():
        return True

    def actor_has_tensor_transport(self, actor):
        return True  # otherwise registration would have failed there

    def extract_tensor_transport_metadata(self, obj_id, rdt_object):
        if not rdt_object:
            return Metadata([])
        devices = {tensor.device for tensor in rdt_object}
        if len(devices) > 1:
            raise ValueError("the tensors of one object are on several "
                             f"devices: {sorted(map(str, devices))}; they must "
                             "be on one")
        tensors = [tensor.contiguous() for tensor in rdt_object]
        if tensors[0].is_cuda:
            torch.cuda.synchronize(tensors[0].device)
        self._objects[obj_id] = tensors
        side = self._run(self._side(_device(tensors[0]))).result()
        return Metadata([(tensor.shape, tensor.dtype) for tensor in tensors],
                        tensors[0].device.type, side.address)

    def get_communicator_metadata(self, src_actor, dst_actor, backend=None):
        return CommunicatorMetadata()

    def fetch_multiple_tensors(self, obj_id, tensor_transport_metadata,
                               communicator_metadata, target_buffers=None):
        future = self._run(self._fetch(obj_id, tensor_transport_metadata,
                                       target_buffers))
        with self._lock:
            self._fetches.setdefault(obj_id, set()).add(future)
        future.add_done_callback(lambda _: self._forget(obj_id, future))
        return Fetch(obj_id, [], future)

    def _forget(self, obj_id, future):
        with self._lock:
            self._fetches[obj_id].discard(future)
            if not self._fetches[obj_id]:
                del self._fetches[obj_id]

    def wait_fetch_complete(self, fetch_request, timeout=-1):
        try:
            return fetch_request.future.result(
                None if timeout < 0 else timeout)
        except concurrent.futures.CancelledError:
            raise RayDirectTransportError(
                f"the fetch of object {fetch_request.obj_id} was aborted"
            ) from None
        except Error as error:
            raise RayDirectTransportError(
                f"object {fetch_request.obj_id} did not arrive: {error}"
            ) from error

    def recv_multiple_tensors(self, *args, **kwargs):
        return self.wait_fetch_complete(
            self.fetch_multiple_tensors(*args, **kwargs))

    def send_multiple_tensors(self, tensors, tensor_transport_metadata,
                              communicator_metadata):
        raise NotImplementedError("the transport is one-sided: the receiver "
                                  "fetches the tensors")

    def garbage_collect(self, obj_id, tensor_transport_meta, tensors):
        self._objects.pop(obj_id, None)

    def abort_transport(self, obj_id, communicator_metadata):
        with self._lock:
            futures = list(self._fetches.get(obj_id, ()))
        for future in futures:
            future.cancel()
