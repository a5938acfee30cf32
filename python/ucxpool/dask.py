"""The protocol "ucxpool" for `distributed`, which runs Dask on the pool.

    LocalCluster(protocol="ucxpool")
    dask scheduler --protocol ucxpool
    dask worker ucxpool://HOST:PORT

`distributed` finds the protocol through an entry point of this package. A
process has one pool for each of its event loops. The pool is created on the
first listen or connect, and all comms share it. Its settings are in Dask's
configuration, under the library's names:

    distributed:
      comm:
        ucxpool:
          comm-size: 16MiB
          secret-file: /etc/dask/ucxpool.secret

`secret` is the secret itself, for secrets that are not in a file. A cluster on
several hosts needs a secret, because the library's listeners require one. The
secret authenticates peers. Nothing is encrypted; if Dask's configuration
requires encryption, comms are refused. `device: 0` sends frames in that GPU's
memory from GPU to GPU, between workers that each have a GPU.
"""
import asyncio
import collections
import contextlib
import inspect
import logging
import re
import sys
import threading

import dask
from dask.utils import parse_bytes, parse_timedelta
from distributed.comm.addressing import (get_address_host, parse_host_port,
                                         unparse_host_port)
from distributed.comm.core import (BaseListener, Comm, CommClosedError,
                                   Connector, FatalCommClosedError)
from distributed.comm.registry import Backend
from distributed.comm.utils import (ensure_concrete_host, from_frames,
                                    to_frames)
from distributed.core import Status
from distributed.utils import ensure_ip, get_ip, nbytes
from distributed.worker import Worker

from . import (ClosedError, Error, LimitError, NotPermittedError, Pool,
               ProtocolError, RefusedError, TimedOutError, UnsupportedError,
               _dask_gpu)

logger = logging.getLogger(__name__)

PREFIX = "ucxpool://"

# A worker has many peers, and those on its host map its blocks. With 8 MiB
# each, 16 peers stay below 256 MiB of resident memory. No application uses
# blocks here.
DEFAULTS = {"comm-size": "8MiB", "block-size": "256KiB", "send-share": 60,
            "recv-share": 39}

# The library's limit for peers that wait to be accepted.
MAX_ACCEPT_QUEUE = 4096

# The library's limits for a timeout, in milliseconds.
MIN_TIMEOUT, MAX_TIMEOUT = 1, 3600 * 1000

# The number of a comm's sends in progress before a write waits for the oldest.
MAX_WRITES = 32

# For the pool on a GPU, instead of the values above. Its blocks hold the data
# in transit to and from all peers.
GPU_DEFAULTS = {"comm-size": "256MiB", "block-size": "1MiB",
                "region-size": "32MiB"}

# The serializers of a worker with a GPU for a peer with a GPU.
GPU_SERIALIZERS = ("cuda", "dask", "pickle", "error")

_pools = []
_gpus = {}
_lock = threading.Lock()


def _configured():
    return {key.replace("_", "-"): value for key, value in
            (dask.config.get("distributed.comm.ucxpool", None) or {}).items()}


def _handshake_timeout():
    """Return Dask's limit for all attempts to connect: a single attempt may
    take as long."""
    seconds = parse_timedelta(
        dask.config.get("distributed.comm.timeouts.connect"), "seconds")
    return f"{min(max(round(seconds * 1000), MIN_TIMEOUT), MAX_TIMEOUT)}ms"


def settings(on_gpu=False):
    """Return Dask's configuration as keywords of a Pool."""
    said = _configured()
    device = said.pop("device", None)
    said.pop("device-allocator", None)
    gpu_size = said.pop("gpu-comm-size", GPU_DEFAULTS["comm-size"])
    backlog = int(dask.config.get("distributed.comm.socket-backlog"))
    said = {**DEFAULTS, "accept-queue": min(backlog, MAX_ACCEPT_QUEUE),
            "handshake-timeout": _handshake_timeout(), **said}
    if on_gpu:
        said = {**said, **GPU_DEFAULTS, "comm-size": gpu_size,
                "device": int(device)}
    for key, value in said.items():
        if isinstance(value, str) and re.fullmatch(r"[\d.]+ *[kKMGT]i?B", value):
            said[key] = parse_bytes(value)  # as Dask writes sizes
    secret = said.pop("secret", None)
    if isinstance(secret, str):
        secret = secret.encode()
    return {"name": "dask", "secret": secret,
            **{key.replace("-", "_"): value for key, value in said.items()
               if value is not None}}


def pool(on_gpu=False):
    """Return the pool of the running event loop. The pool of a closed loop is
    reused."""
    loop = asyncio.get_running_loop()
    wanted = settings(on_gpu)
    with _lock:
        free = None
        for one, made_with in list(_pools):
            if one.closed:
                _pools.remove((one, made_with))
            elif one.is_cuda != on_gpu:
                continue
            elif one.driven_by is loop:
                return one
            elif (one.driven_by is None or one.driven_by.is_closed()) and (
                    made_with == wanted):
                free = one
        if free is None:
            free = Pool(**wanted)
            _pools.append((free, wanted))
        free._use_loop()
        return free


def _has_worker():
    """Return whether a worker runs in this process."""
    return any(one.status not in (Status.closed, Status.failed)
               for one in Worker._instances)


def gpu():
    """Return the state of the configured GPU that the comms of the running
    event loop share, or None. Only workers use a GPU: schedulers, clients and
    nannies read the same configuration, often on hosts without a GPU."""
    configured = _configured()
    device = configured.get("device")
    if device is None or not _has_worker():
        return None
    try:
        its_pool = pool(True)
    except Error as error:
        raise type(error)(
            f"distributed.comm.ucxpool.device is {device!r}, and this worker "
            f"cannot use that GPU: {error}. Set it to a GPU of this host, or "
            "leave it out in the configuration of workers without a GPU"
        ) from error
    loop = asyncio.get_running_loop()
    for one in [one for one in _gpus if one.is_closed()]:
        del _gpus[one]
    if loop not in _gpus:
        _gpus[loop] = _dask_gpu.Gpu(its_pool, int(device),
                                    configured.get("device-allocator"))
    return _gpus[loop]


class UcxPool(Comm):
    """A comm over one channel. A message of Dask is a message of the channel,
    with its frames as buffers. The tag is the message's number in the comm. If
    a sender abandons a message, the next one has an unexpected number and ends
    the comm."""

    def __init__(self, channel, deserialize=True):
        super().__init__(deserialize)
        self._channel = channel
        self._local_addr = PREFIX + channel.local_address
        self._peer_addr = PREFIX + channel.remote_address
        self._writes = collections.deque()
        self._num_written = 0
        self._num_read = 0
        self._closing = None
        self._gpu_frames = None
        self._extra_info = {}

    @property
    def local_address(self):
        return self._local_addr

    @property
    def peer_address(self):
        return self._peer_addr

    @property
    def extra_info(self):
        """How data is transferred. While the channel is connecting, the wire
        is not known yet."""
        if self._channel is not None and not self._extra_info.get("wire"):
            self._extra_info = {"wire": self._channel.wire,
                                "wire_reason": self._channel.wire_reason}
        return self._extra_info

    def handshake_info(self):
        info = super().handshake_info()
        shared = gpu()
        if shared is not None:
            self._gpu_frames = _dask_gpu.Frames(shared)
            info[_dask_gpu.KEY] = shared.address(
                _dask_gpu.host_of(self._channel.local_address))
        return info

    @contextlib.contextmanager
    def _ends_if_it_fails(self):
        """End the comm if the body fails or is canceled, as over TCP.
        Otherwise the next read would get the reply to another caller's
        request."""
        try:
            yield
        except (Error, TimeoutError) as error:
            self.abort()
            raise CommClosedError(f"in {self!r}: {error}") from error
        except BaseException:
            self.abort()
            raise

    async def _read_frames(self):
        message = await self._channel.recv()
        _dask_gpu.check_number(message, self._num_read)
        self._num_read += 1
        # An object made from one frame may outlive the other frames.
        frames = await message.frames(apart=True)
        if message.metadata:
            frames = await self._gpu_frames.merge(message.metadata, frames,
                                                  message.tag)
        return frames

    async def read(self, deserializers=None):
        if self._channel is None:
            raise CommClosedError(f"{self!r} is closed")
        with self._ends_if_it_fails():
            frames = await self._read_frames()
        try:
            return await from_frames(
                frames, deserialize=self.deserialize,
                deserializers=deserializers, allow_offload=self.allow_offload)
        except EOFError:
            self.abort()
            raise CommClosedError("aborted on truncated data") from None

    async def write(self, msg, serializers=None, on_error="message"):
        if self._channel is None:
            raise CommClosedError(f"{self!r} is closed")
        peer_gpu = (self.remote_info.get(_dask_gpu.KEY)
                    if self._gpu_frames is not None else None)
        if peer_gpu is not None and serializers is None:
            serializers = GPU_SERIALIZERS
        frames = await to_frames(
            msg, allow_offload=self.allow_offload, serializers=serializers,
            on_error=on_error,
            context={"sender": self.local_info,
                     "recipient": self.remote_info, **self.handshake_options},
            frame_split_size=sys.maxsize)  # the pool splits long frames
        on_gpu = _dask_gpu.which(frames)
        if on_gpu and peer_gpu is None:
            raise TypeError(
                "cannot send GPU frames: one side has no GPU configured; set "
                "distributed.comm.ucxpool.device on both sides, or serialize "
                "without \"cuda\"")
        with self._ends_if_it_fails():
            if on_gpu:
                await self._gpu_frames.open(peer_gpu)
            if self._channel is None:
                raise CommClosedError(f"{self!r} is closed")
            # As over TCP, a write returns when the send has been posted.
            number = self._num_written
            self._writes.extend(
                self._gpu_frames.send(self._channel, frames, on_gpu, number)
                if on_gpu else
                [self._channel.send([_dask_gpu.sendable(frame)
                                     for frame in frames], number)])
            self._num_written += 1
            while self._writes and (self._writes[0].done
                                    or len(self._writes) > MAX_WRITES):
                await self._writes.popleft()
        return sum(map(nbytes, frames))

    async def _flush(self, channel):
        """Wait until all writes have arrived, or until none has arrived for as
        long as a peer may be silent."""
        limit = parse_timedelta(
            dask.config.get("distributed.comm.timeouts.tcp"), "seconds")
        left = None
        while True:
            before, left = left, sum(not one.done for one in self._writes)
            if left == before:
                logger.warning("%r: the peer received nothing for %s s; %d "
                               "messages are lost", self, limit, left)
                return
            try:
                await channel.flush(limit)
                return
            except TimedOutError:
                pass
            except Error as error:
                logger.debug("%r: %s", self, error)
                return

    async def close(self):
        # As over TCP, earlier writes arrive first.
        channel, self._channel = self._channel, None
        if channel is None:
            return
        self._closing = channel
        try:
            await self._flush(channel)
            if self._gpu_frames is not None:
                for one in self._gpu_frames.outgoing():
                    await self._flush(one)
        finally:
            self._closing = None
            channel.close()
            if self._gpu_frames is not None:
                self._gpu_frames.close()

    def abort(self):
        channel, self._channel = self._channel or self._closing, None
        if channel is not None:
            channel.abort()
        if self._gpu_frames is not None:
            self._gpu_frames.close(True)

    def closed(self):
        return self._channel is None or self._channel.ended


def _refuse_if_encryption_is_required(address, connection_args):
    if connection_args.get("require_encryption"):
        raise RuntimeError(
            "encryption required by Dask configuration, refusing communication "
            f"from/to {PREFIX + address!r}: ucxpool authenticates peers with "
            "a secret but encrypts nothing. Use protocol=\"tls\", or, on a "
            "trusted network, leave out distributed.comm.require-encryption "
            "and Security(require_encryption=True)")


class UcxPoolConnector(Connector):
    prefix = PREFIX
    comm_class = UcxPool
    encrypted = False

    async def connect(self, address, deserialize=True, **connection_args):
        _refuse_if_encryption_is_required(address, connection_args)
        host, port = parse_host_port(address)
        try:
            channel = await pool().connect(
                unparse_host_port(ensure_ip(host), port))
        except (ClosedError, NotPermittedError, ProtocolError,
                UnsupportedError) as error:
            # Another attempt would not help, or the channel was open and then
            # closed.
            raise FatalCommClosedError(
                f"cannot connect to {PREFIX + address}: {error}") from error
        except (LimitError, RefusedError) as error:
            raise CommClosedError(
                f"cannot connect to {PREFIX + address}: {error}") from error
        return self.comm_class(channel, deserialize)


_SECRET = ("--host 127.0.0.1, or distributed.comm.ucxpool.secret-file in the "
           "configuration of scheduler, workers and clients")


def _host_for_scheduler(comm_handler):
    """Return the address at which the scheduler reaches the worker that owns
    this handler, or None. `distributed` passes it only to TCP's listeners, as
    default_host."""
    scheduler = getattr(getattr(comm_handler, "__self__", None), "scheduler",
                        None)
    address = getattr(scheduler, "address", None)
    return None if address is None else get_ip(get_address_host(address))


class UcxPoolListener(BaseListener):
    prefix = PREFIX
    comm_class = UcxPool
    encrypted = False

    def __init__(self, address, comm_handler, deserialize=True,
                 allow_offload=True, default_host=None, default_port=0,
                 **connection_args):
        super().__init__()
        _refuse_if_encryption_is_required(address, connection_args)
        host, self.port = parse_host_port(address, default_port)
        self.ip = ensure_ip(host) if host else ""
        self.default_host = default_host or _host_for_scheduler(comm_handler)
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self._listener = None

    async def start(self):
        where = unparse_host_port(self.ip, self.port)
        # A worker whose GPU cannot be used fails here, with the reason,
        # instead of in a handshake with a peer.
        gpu()
        try:
            self._listener = pool().listen(where, self._on_channel)
        except NotPermittedError as error:
            if self.ip:
                raise NotPermittedError(f"{error}. For Dask: {_SECRET}"
                                        ) from error
            # No host was given: without a secret, listen for this host only.
            logger.warning("Without a secret only processes on this host can "
                           "connect. For other hosts: %s", _SECRET)
            self.ip = "127.0.0.1"
            self._listener = pool().listen(
                unparse_host_port(self.ip, self.port), self._on_channel)
        self.port = self._listener.port

    def stop(self):
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    async def _on_channel(self, channel):
        if self._listener is None:
            channel.abort()
            return
        comm = self.comm_class(channel, self.deserialize)
        comm.allow_offload = self.allow_offload
        try:
            await self.on_connection(comm)
        except CommClosedError:
            logger.info("Connection from %s closed before handshake completed",
                        comm.peer_address)
            return
        except Exception:
            comm.abort()
            logger.warning("%s does not speak this version of Dask's protocol",
                           comm.peer_address, exc_info=True)
            return
        handled = self.comm_handler(comm)
        if inspect.isawaitable(handled):
            await handled

    def get_host_port(self):
        """Return the host and port of the listener."""
        if self._listener is None:
            raise ValueError("this listener has not been started")
        return self.ip or "0.0.0.0", self.port

    @property
    def listen_address(self):
        return PREFIX + unparse_host_port(self.ip or "0.0.0.0", self.port)

    @property
    def contact_address(self):
        host = ensure_concrete_host(self.ip, self.default_host)
        return PREFIX + unparse_host_port(host, self.port)


class UcxPoolBackend(Backend):
    _connector_class = UcxPoolConnector
    _listener_class = UcxPoolListener

    def get_connector(self):
        return self._connector_class()

    def get_listener(self, loc, handle_comm, deserialize, **connection_args):
        return self._listener_class(loc, handle_comm, deserialize,
                                    **connection_args)

    def get_address_host(self, loc):
        return parse_host_port(loc)[0]

    def get_address_host_port(self, loc):
        return parse_host_port(loc)

    def resolve_address(self, loc):
        host, port = parse_host_port(loc)
        return unparse_host_port(ensure_ip(host), port)

    def get_local_address_for(self, loc):
        return unparse_host_port(get_ip(ensure_ip(parse_host_port(loc)[0])))
