"""GPU frames of Dask's messages, sent through a pool in GPU memory.

A comm's messages are sent through the host's pool. If a message has frames in
GPU memory, these frames follow in a separate message. The sender opens a
channel for it, once per comm, from its GPU's pool to the peer's. The message
on the host's channel names that channel, and begins with a bitmap of the
frames that are on the GPU.
"""
import asyncio
import importlib.util
import secrets

import dask
from dask.utils import parse_timedelta
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.utils import ensure_memoryview

from . import Error, Heap, ProtocolError

# The key in Dask's handshake that tells a peer where to send GPU frames.
KEY = "ucxpool-gpu"

_TOKEN_BYTES = 16


def which(frames):
    """Return for each frame whether it is on a GPU; an empty list if no frame
    is."""
    found = [hasattr(frame, "__cuda_array_interface__") for frame in frames]
    return found if any(found) else []


def sendable(frame):
    """Return a host frame in the form that a channel accepts."""
    return frame if isinstance(frame, bytes) else ensure_memoryview(frame)


def check_number(message, expected):
    """Check that this is the next message of its comm."""
    if message.tag != expected:
        raise ProtocolError(
            f"message {expected} of this comm was lost, and message "
            f"{message.tag} follows it: the sender gave up a message that was "
            "not received in time, or runs another version of ucxpool")


def _allocator(name, device):
    """Return a function that allocates memory for frames of given lengths."""
    if name is None:
        name = "cupy" if importlib.util.find_spec("cupy") else "heap"
    if name == "cupy":
        import cupy

        def allocate(lengths):
            with cupy.cuda.Device(device):
                return [cupy.empty(length, "u1") for length in lengths]
    elif name == "rmm":
        import rmm

        def allocate(lengths):
            return [rmm.DeviceBuffer(size=length) for length in lengths]
    elif name == "heap":
        heap = Heap.of_frameworks(device)

        def allocate(lengths):
            return [heap.buffer(length) for length in lengths]
    else:
        raise ValueError("distributed.comm.ucxpool.device-allocator is "
                         f"{name!r}; it must be cupy, rmm or heap")
    return allocate


class Gpu:
    """The GPU state that all comms of this process share."""

    def __init__(self, pool, device, allocator):
        self.pool = pool
        self.allocate = _allocator(allocator, device)
        self._listeners = {}
        self._opened = {}  # token: future of the channel that a peer opened

    def address(self, host):
        """Return where peers send GPU frames, at this address of the host."""
        listener = self._listeners.get(host)
        if listener is None or listener.closed:
            listener = self._listeners[host] = self.pool.listen(
                unparse_host_port(host, 0), self._on_channel)
        return unparse_host_port(host, listener.port)

    def _opened_by(self, token):
        if token not in self._opened:
            self._opened[token] = asyncio.get_running_loop().create_future()
        return self._opened[token]

    async def _on_channel(self, channel):
        try:
            message = await channel.recv()
        except Error:
            channel.abort()
            return
        # Remove the channels of comms that ended before they read anything.
        for token, future in list(self._opened.items()):
            if future.done() and future.result().ended:
                del self._opened[token]
        self._opened_by(message.metadata).set_result(channel)

    async def open(self, where):
        """Open a channel to a peer's pool. Returns the channel and its
        token."""
        channel = await self.pool.connect(where)
        token = secrets.token_bytes(_TOKEN_BYTES)
        channel.send(b"", metadata=token)
        return channel, token

    async def opened(self, token):
        """Return the channel that a peer has opened with this token."""
        limit = parse_timedelta(
            dask.config.get("distributed.comm.timeouts.connect"), "seconds")
        try:
            async with asyncio.timeout(limit):
                return await self._opened_by(token)
        finally:
            self._opened.pop(token, None)


class Frames:
    """The GPU frames of one comm."""

    def __init__(self, gpu):
        self._gpu = gpu
        self._out = None
        self._token = b""
        self._in = None

    async def open(self, where):
        """Open the channel, before the first frames are sent."""
        if self._out is None:
            self._out, self._token = await self._gpu.open(where)

    def send(self, channel, frames, on_gpu, number):
        """Send host and GPU frames as the message with this number. Returns
        the transfers in progress."""
        host = [sendable(frame)
                for frame, there in zip(frames, on_gpu) if not there]
        there = [frame for frame, there in zip(frames, on_gpu) if there]
        return [channel.send([bytes(on_gpu), *host], number,
                             metadata=self._token),
                self._out.send(there, number)]

    async def merge(self, token, host, number):
        """Receive the GPU frames of the message with this number. Returns all
        its frames in order."""
        if self._in is None:
            self._in = await self._gpu.opened(token)
        message = await self._in.recv()
        check_number(message, number)
        there = self._gpu.allocate(message.lengths)
        await message.into(there)
        on_gpu = memoryview(host[0]).cast("B")
        parts = (iter(host[1:]), iter(there))
        return [next(parts[one]) for one in on_gpu]

    def outgoing(self):
        """Return the channels on which frames are sent."""
        return [] if self._out is None else [self._out]

    def close(self, at_once=False):
        for channel in (self._out, self._in):
            if channel is not None:
                channel.abort() if at_once else channel.close()
        self._out = self._in = None


def host_of(address):
    return parse_host_port(address)[0]
