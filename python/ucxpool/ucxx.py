"""UCXX's interface on a pool. A program written for `ucxx` needs to change
only one import.

    import ucxpool.ucxx as ucxx

    listener = ucxx.create_listener(handler, port=0)
    endpoint = await ucxx.create_endpoint("127.0.0.1", listener.port)
    await endpoint.send_multi(buffers)

This module behaves like UCXX, except for three differences. send_multi() sends
one message, not one for each buffer. Endpoints always handle errors, at no
cost. Without a secret (ucxpool's setting SECRET_FILE) a listener accepts only
processes on this host, and get_address() returns the loopback address; UCXX
accepts any peer that reaches it.
"""
import asyncio
import inspect
import os
import socket
import sys

from . import (CanceledError, ClosedError, Error, PeerLostError, Pool,
               TimedOutError, TruncatedError, _address, ucx_version)

UCXError = Error
UCXCanceled = CanceledError
UCXCloseError = ClosedError
UCXConnectionResetError = PeerLostError
UCXMessageTruncatedError = TruncatedError
UCXTimedOutError = TimedOutError

__all__ = ["Endpoint", "Listener", "UCXCanceled", "UCXCloseError",
           "UCXConnectionResetError", "UCXError", "UCXMessageTruncatedError",
           "UCXTimedOutError", "create_endpoint", "create_listener",
           "get_address", "get_ucx_version", "init", "progress", "reset",
           "stop_notifier_thread"]

# The upper bits of a message's tag select the kind of call.
_PLAIN, _ACTIVE, _MULTI = 0, 1 << 62, 2 << 62
_TAGGED = 1 << 61

_pool = None
_settings = {}


def _tag(kind, tag):
    """Return the tag of a message. UCXX accepts any hashable object; an
    integer, or a tuple of integers, has the same hash in each process."""
    if tag is None:
        return kind
    value = getattr(tag, "value", tag)
    return kind | _TAGGED | (hash(value) & (_TAGGED - 1))


def _has_secret():
    return "secret" in _settings or any(
        key in os.environ for key in ("UCXPOOL_SECRET_FILE",
                                      "UCXPOOL_LISTEN_WITHOUT_SECRET"))


def _get_pool():
    global _pool
    if _pool is None or _pool.closed:
        _pool = Pool(name="ucxx", **_settings)
    return _pool


def init(options=None, **settings):
    """Create the pool with settings of ucxpool. Without this call the pool is
    created when it is needed. options are settings of UCX itself. Each option is
    set as UCX_* in the environment, unless it is set there already."""
    if _pool is not None and not _pool.closed:
        raise RuntimeError("the pool exists already: call reset() first")
    for key, value in (options or {}).items():
        os.environ.setdefault(f"UCX_{key}", str(value))
    _settings.clear()
    _settings.update(settings)
    _get_pool()


def reset():
    """Close the pool. The next call creates a new one."""
    global _pool
    closing, _pool = _pool, None
    if closing is not None:
        closing.close()


def stop_notifier_thread():
    """Does nothing: this module has no such thread."""


def progress():
    """Does nothing: the event loop makes progress."""


def get_ucx_version():
    """Return the version of the UCX in use, as (1, 21, 0)."""
    return ucx_version()[0]


def get_address(ifname=None):
    """Return the address of this host at which peers reach a listener. Without
    a secret the address is 127.0.0.1, because then only processes on this host
    can connect. With a secret it is the address of the network interface
    `ifname`, or of the default route. If `ifname` is None and the environment
    variable LIBUCXPOOL_LISTEN is set, this variable determines the address."""
    if ifname is None and _address.chosen():
        return _address.chosen()
    if not _has_secret():
        return "127.0.0.1"
    if ifname is not None:
        return _address.of_interface(ifname)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 1))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return one.getsockname()[0]


def create_listener(callback_func, port=None, endpoint_error_handling=True,
                    connect_timeout=30.0, *, address=None):
    """Listen. callback_func(endpoint), a function or a coroutine function, is
    called for each peer. To stop listening, close the Listener or drop it.

    address  an address or a network interface of this host to listen on. None:
             the environment variable LIBUCXPOOL_LISTEN; if that is not set,
             all addresses if there is a secret, otherwise 127.0.0.1"""
    named = _address.chosen(address)
    host = named or ("" if _has_secret() else "127.0.0.1")
    return Listener(_get_pool(), _address.at(host, port or 0), callback_func,
                    named or None)


async def create_endpoint(ip_address, port, endpoint_error_handling=True,
                          connect_timeout=30.0):
    """Connect to a listener within connect_timeout seconds. UCXX's default is
    5.0; many peers on a busy machine need longer."""
    return Endpoint(await _get_pool().connect(_address.at(ip_address, port),
                                              timeout=connect_timeout))


class Listener:
    """Accepts connections from peers until it is closed."""

    def __init__(self, pool, where, callback, address=None):
        # The pool keeps the handler, so the handler must not refer to this
        # object.
        async def on_channel(channel):
            result = callback(Endpoint(channel))
            if inspect.isawaitable(result):
                await result

        self._listener = pool.listen(where, on_channel)
        self._address = address

    def __del__(self, _is_finalizing=sys.is_finalizing):
        # When the interpreter exits, the pool closes the listener.
        if not _is_finalizing() and hasattr(self, "_listener"):
            self.close()

    @property
    def port(self):
        """The port of the listener."""
        return self._listener.port

    @property
    def ip(self):
        """The address that peers connect to."""
        return self._address or get_address()

    @property
    def closed(self):
        """True if the listener was closed."""
        return self._listener.closed

    def close(self):
        """Stop listening. Endpoints stay open."""
        if not self._listener.closed:
            self._listener.close()


class Endpoint:
    """The connection to a peer."""

    def __init__(self, channel):
        self._channel = channel
        self._left = None
        self._received = 0

    @property
    def channel(self):
        """The underlying channel, for functions that UCXX does not have."""
        return self._channel

    @property
    def alive(self):
        """True if the endpoint is not closed."""
        return not self.closed

    @property
    def closed(self):
        """True if this side has closed the endpoint. If the peer has closed
        it, or it has failed: True once no message is left to receive."""
        return self._channel.ended

    @property
    def uid(self):
        """A number that identifies the endpoint in this process."""
        return self._channel.number

    async def send(self, buffer, tag=None, force_tag=False):
        """Send one buffer."""
        await self._channel.send([buffer], _tag(_PLAIN, tag))

    async def recv(self, buffer, tag=None, force_tag=False):
        """Receive into one buffer. Raises UCXMessageTruncatedError if the
        buffer is too short."""
        await self._channel.recv_into([buffer], _tag(_PLAIN, tag))
        self._count()

    async def send_multi(self, buffers, tag=None, force_tag=False):
        """Send a list of buffers, as one message."""
        if not isinstance(buffers, (list, tuple)):
            raise ValueError("`buffers` must be a list or a tuple")
        await self._channel.send(buffers, _tag(_MULTI, tag))

    async def recv_multi(self, tag=None, force_tag=False):
        """Receive a message that was sent with send_multi(). Returns a list of
        memoryviews."""
        return await self._frames(_tag(_MULTI, tag))

    async def am_send(self, buffer):
        """Send one buffer; the peer need not know its length."""
        await self._channel.send([buffer], _ACTIVE)

    async def am_recv(self):
        """Receive a message of am_send()."""
        return (await self._frames(_ACTIVE))[0]

    async def send_obj(self, obj, tag=None):
        """Send a buffer to a peer that calls recv_obj()."""
        await self._channel.send([obj], _tag(_PLAIN, tag))

    async def recv_obj(self, tag=None, allocator=bytearray):
        """Receive a message of send_obj(), into memory from the allocator."""
        message = await self._channel.recv(_tag(_PLAIN, tag))
        obj = allocator(message.length)
        await message.into([obj])
        self._count()
        return obj

    async def _frames(self, tag):
        message = await self._channel.recv(tag)
        frames = await message.frames()
        self._count()
        return frames

    def close_after_n_recv(self, n, count_from_ep_creation=False):
        """Close the endpoint after n received messages."""
        wanted = n if count_from_ep_creation else n + self._received
        if self._left is not None:
            raise UCXError("close_after_n_recv() was already called")
        if wanted < self._received:
            raise UCXError(f"{self._received} messages were already received")
        self._left = wanted
        self._close_when_due()

    def _count(self):
        self._received += 1
        self._close_when_due()

    def _close_when_due(self):
        if self._left is not None and self._received >= self._left:
            self.abort()

    async def close(self, period=10**10, max_attempts=1):
        """Close the endpoint, after posted sends have arrived."""
        if not self._channel.closed:
            self._channel.close()
        await asyncio.sleep(0)

    def abort(self, period=10**10, max_attempts=1):
        """Close the endpoint at once."""
        if not self._channel.closed:
            self._channel.abort()
