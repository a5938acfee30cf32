"""Pools, channels and messages that asyncio programs await.

An event loop watches the pool's descriptor. When it is readable, a turn of the
pool moves what can move, for half a millisecond at most, and hands over what
has ended; then the pool is armed again. There is no thread and no timer.
"""
import asyncio
import atexit
import collections
import threading
import time
import types

from ._library import library

# What the extension is linked with is loaded here: the library that was named,
# and the UCX that is to be.
library()

from . import _core  # noqa: E402
from ._errors import (ClosedError, Error, TimedOutError,  # noqa: E402
                      TruncatedError)
from ._log import logger  # noqa: E402

ANY = _core.ANY

atexit.register(_core.close_all)


class Operation:
    """What is awaited, or waited for by wait(). It begins then, and not before:
    one that is dropped has done nothing. It is a coroutine for
    asyncio.create_task(), and can be awaited once."""

    __slots__ = ("_start", "_wait", "_coroutine")

    def __init__(self, start, wait):
        self._start = start
        self._wait = wait
        self._coroutine = None

    def __repr__(self):
        return ("<ucxpool.Operation, not begun>" if self._coroutine is None
                else f"<ucxpool.Operation, {self._coroutine!r}>")

    def _begin(self):
        if self._coroutine is None:
            self._coroutine = self._start()
        return self._coroutine

    def __await__(self):
        return self._begin().__await__()

    # As a coroutine, for asyncio.create_task().
    def send(self, value):
        return self._begin().send(value)

    def throw(self, *error):
        return self._begin().throw(*error)

    def close(self):
        if self._coroutine is not None:
            self._coroutine.close()

    # Operation[Channel], for annotations.
    __class_getitem__ = classmethod(types.GenericAlias)

    def wait(self, timeout=None):
        """The same without an event loop, from any thread: the result, or
        TimedOutError after so many seconds (None: as long as it takes). In the
        thread of the event loop that drives the pool it blocks the loop."""
        return self._wait(timeout)


class Transfer(_core.Request):
    """A send, a receive or a flush, under way since it was asked for: await
    it, or wait(). For gather() and ensure_future() it is an awaitable as any
    other.

    Its buffers are held until it has ended, in whatever way, also where it is
    dropped. A task that is cancelled while it awaits one cancels it, and goes
    on when the memory is its own again. It ends with PeerLostError where the
    peer dies, RefusedError where the receiver refuses the message,
    TruncatedError where buffers are too short, TimedOutError after its timeout,
    CanceledError where it or its message was cancelled or the channel or pool
    was closed before its end."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __repr__(self):
        how = ("in progress" if not self.done else
               f"failed: {self.detail}" if self.status != 0 else
               f"done, {self.length} bytes")
        return f"<ucxpool.Transfer, {how}>"

    def __await__(self):
        if not self.done:
            yield from self._wait_in_loop().__await__()
        return self.outcome()

    async def _wait_in_loop(self):
        try:
            await self._woken()
        except asyncio.CancelledError:
            self.cancel()
            while not self.done:
                self._pool._kick()
                try:
                    await self._woken()
                except asyncio.CancelledError:
                    pass  # once is enough
            raise

    def _woken(self):
        """A future that is done when the transfer is."""
        future = self._pool._use_loop().create_future()
        self._tell_also(_Wake(future))
        if self.done and not future.done():
            # Another thread has ended it meanwhile.
            self._on_done = None
            future.set_result(None)
        return future

    def _tell_also(self, call):
        """When it has ended; several may wait."""
        before = self._on_done
        self._on_done = call if before is None else _Both(before, call)

    def wait(self, timeout=None):
        """Wait for it without an event loop, from any thread. TimedOutError
        after so many seconds (None: as long as it takes), and it goes on."""
        if not self.done and not self._pool._is_driven_elsewhere():
            self._wait_done(timeout)
        elif not self.done:
            ended = threading.Event()
            self._tell_also(ended.set)
            if self.done:
                ended.set()
            ended.wait(timeout)
        if not self.done:
            raise TimedOutError(f"not done after {timeout} s: it goes on; "
                                "cancel() ends it")
        return self.outcome()


class _Both:
    """Call one, and then another."""

    __slots__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __call__(self):
        self.first()
        self.second()


class _Wake:
    """Set a future, of whatever thread's loop it is."""

    __slots__ = ("future",)

    def __init__(self, future):
        self.future = future

    def _set(self):
        if not self.future.done():
            self.future.set_result(None)

    def __call__(self):
        loop = self.future.get_loop()
        if asyncio._get_running_loop() is loop:
            self._set()
        else:
            loop.call_soon_threadsafe(self._set)


class Pieces(_core.Pieces):
    """Many pieces of one buffer, in any order, as one array would be: to send,
    to receive into, and to read into or write from at windows. The buffer is
    held as long as they are; places are as those of a RemoteWindow, and are
    copied. ValueError for one beyond the buffer's end."""

    def __init__(self, buffer, places, length=None):
        """By __cinit__()."""

    def __repr__(self):
        where = "a GPU" if self.is_cuda else "the host"
        return (f"<ucxpool.Pieces, {self.count} of {where}, "
                f"{self.length} bytes together>")


class Message(_core.Message):
    """A message that has arrived, and is not received yet: its bytes are
    still the sender's, or in blocks. It is received by into() or frames(), or
    refused; one that is dropped is refused. ValueError where it is received a
    second time."""

    def __repr__(self):
        state = ", received or refused" if self._is_taken else ""
        return (f"<ucxpool.Message, tag {self.tag}, {self.length} bytes in "
                f"{self.num_buffers} buffers{state}>")

    def into(self, buffers, timeout=None):
        """Receive it into one writable buffer or several, which need not be
        cut as the sender's were, and may be longer: `await
        message.into(array)`, or `.into(array).wait()`. TruncatedError, at once,
        where they are too short, and the message is still there. timeout is in
        seconds (None: the setting REQUEST_TIMEOUT)."""
        return self._pool._started(self._post_into(buffers, timeout))

    def frames(self, allocator=None, timeout=None, *, apart=False):
        """Receive it into new memory, cut as the sender's buffers: awaited, a
        list of writable memoryviews. All of up to 64 KiB lie in one piece of
        memory, which is kept as long as one of them is; each longer one has its
        own. With apart=True, for frames of which some are kept for longer than
        others, each of more than 4 KiB has its own, and shorter ones lie in
        pieces of up to 64 KiB.

        allocator(length) makes the memory where it is given, of a length in
        bytes (numpy.empty with dtype="u1", cupy.empty, ...); the list is then
        of what it returned. timeout is in seconds (None: the setting
        REQUEST_TIMEOUT)."""
        if allocator is None:
            return self._pool._started(self._post_frames(timeout, apart))
        frames = [allocator(length) for length in self.lengths]
        transfer = self._post_into(frames, timeout)
        transfer._result = frames
        return self._pool._started(transfer)


class Channel(_core.Channel):
    """The connection to one peer's pool, of Pool.connect() or
    Listener.accept(). Messages arrive in the order in which they were sent. One
    that is dropped is closed; a context manager, too. Any thread may use it."""

    def __init__(self):
        self._kept = collections.deque()
        self._waiting = collections.deque()
        self._opening = None

    def __repr__(self):
        if self.closed:
            return f"<ucxpool.Channel {self.number}, closed>"
        return (f"<ucxpool.Channel {self.name}, {self.state}, "
                f"wire {self.wire}>")

    @property
    def pool(self):
        """The pool that it goes through."""
        return self._pool

    @property
    def ended(self):
        """Closed here or by the peer, or failed; and no message is left."""
        return self.closed or (
            self._state_number > _core.OPEN and not self._kept)

    def send(self, buffers, tag=0, metadata=b"", timeout=None):
        """Send one buffer, or an iterable of them, as one message.

        Buffers have Python's buffer protocol or __cuda_array_interface__, any
        number and length, each contiguous. They are held, and must not change,
        until the transfer has ended. tag has 64 bits; metadata are bytes
        that travel ahead, up to the setting MAX_METADATA, and are copied. timeout is in seconds, after which the
        send ends with TimedOutError (None: the setting REQUEST_TIMEOUT).

        Up to the setting EAGER_SIZE it has ended when its bytes are copied,
        above that when the receiver has taken it. At once: ValueError for a
        buffer that is strided or of a GPU in a pool of the host, TypeError for
        what is no buffer, OverflowError for a tag of more bits, LimitError for
        longer metadata, ClosedError for a channel that has ended."""
        return self._pool._started(
            self._post_send(buffers, tag, metadata, timeout))

    def recv(self, tag=0, mask=0):
        """The next message whose tag equals `tag` in the bits of `mask` (0:
        any message; ucxpool.ANY: this very tag), as a Message that is then
        received. Those who wait get messages in the order in which they began
        to. Cancelled, it loses no message. ClosedError where the peer has
        closed the channel and no message is left, PeerLostError where it has
        died."""
        return Operation(lambda: self._recv(tag, mask),
                         lambda timeout: self._recv_wait(tag, mask, timeout))

    def recv_into(self, buffers, tag=0, mask=0, timeout=None):
        """Receive the next message that matches, as in recv(), into writable
        buffers; a Transfer, whose length tells how many bytes the message had.
        It ends with TruncatedError where the buffers are too short, and the
        message is lost: its sender gets an error, too."""
        message = self._take(tag, mask)
        if message is None:
            return self._pool._started(
                self._post_recv(buffers, tag, mask, timeout))
        try:
            return message.into(buffers, timeout)
        except TruncatedError as error:
            message.refuse(str(error))
            return self._pool._failed(error)

    def flush(self, timeout=None):
        """A Transfer that ends when all sends before it have ended. timeout is
        in seconds (None: the setting REQUEST_TIMEOUT). ClosedError, at once,
        where the peer has closed the channel."""
        return self._pool._started(self._post_flush(timeout))

    def import_window(self, blob):
        """A window of the peer's, as a RemoteWindow, by the blob that its owner
        has exported. Returns at once: what is read and written waits until the
        owner has answered. ValueError for what is no window's blob."""
        remote = self._post_import(blob)
        self._pool._kick()
        return remote

    def close(self):
        """Close it, once what was posted has come to its end, for the setting
        CLOSE_TIMEOUT at most. Does not wait: await flush() before, to know. Who
        waits in recv() gets ClosedError. Twice is allowed."""
        self._end(ClosedError("this channel is closed"))
        if not self.closed:
            self._release()
            self._pool._kick()

    def abort(self):
        """Close it at once; what is under way ends with CanceledError."""
        self._end(ClosedError("this channel is closed"))
        if not self.closed:
            self._release(True)
            self._pool._kick()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    # --- messages

    def _take_kept(self, tag, mask):
        """The oldest message that matches, of those that were taken for nobody;
        or None. Threads may do so at the same time."""
        for message in list(self._kept):
            if (message.tag ^ tag) & mask == 0:
                try:
                    self._kept.remove(message)
                except ValueError:
                    continue
                return message
        return None

    def _take(self, tag, mask):
        """The oldest message here that matches, or None."""
        message = self._take_kept(tag, mask)
        return self._probe(tag, mask) if message is None else message

    async def _recv(self, tag, mask):
        pool = self._pool
        pool._use_loop()
        self._fail_if_closed()
        # What is kept was for none of those who wait. What is not taken yet may
        # be.
        message = (self._take_kept(tag, mask) if self._waiting
                   else self._take(tag, mask))
        if message is not None:
            return message
        error = self.ended_with()
        if error is not None:
            raise error
        future = pool._use_loop().create_future()
        entry = (future, tag, mask)
        self._waiting.append(entry)
        pool._num_waiting += 1
        pool._kick()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                # It was given a message in the same turn: back with that.
                if future.exception() is None:
                    self._put_back(future.result())
            elif entry in self._waiting:
                self._waiting.remove(entry)
            raise
        finally:
            pool._num_waiting -= 1

    def _recv_wait(self, tag, mask, timeout):
        self._fail_if_closed()
        pool = self._pool
        if pool._is_driven_elsewhere():
            return pool._run_in_loop(self._recv(tag, mask), timeout,
                                    self._put_back)

        def look():
            message = self._take(tag, mask)
            if message is None:
                error = self.ended_with()
                if error is not None:
                    raise error
            return message

        return pool._wait_until(look, timeout, "no message")

    def _fail_if_closed(self):
        if self.closed:
            raise self.ended_with()

    def _keep(self, message):
        """Give a message to the first that waits for such, or keep it."""
        for entry in self._waiting:
            future, tag, mask = entry
            if (message.tag ^ tag) & mask == 0 and not future.done():
                self._waiting.remove(entry)
                future.set_result(message)
                return
        self._kept.append(message)

    def _put_back(self, message):
        """A message that nobody takes after all comes before all others."""
        if not self.closed:
            self._kept.appendleft(message)
            self._hand_over()

    def _hand_over(self):
        """Give kept messages to those who wait for such."""
        kept, self._kept = self._kept, collections.deque()
        for message in kept:
            self._keep(message)

    def _end(self, error):
        waiting, self._waiting = self._waiting, collections.deque()
        for future, _, _ in waiting:
            if not future.done():
                future.set_exception(error)
        self._kept.clear()
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(None)

    # --- events

    def _on_event(self, kinds):
        if self.closed:
            return
        if kinds & _core.EVENT_MESSAGE:
            message = self._probe()
            while message is not None:
                self._keep(message)
                message = self._probe()
        if kinds & _core.EVENT_STATE:
            if (self._opening is not None and not self._opening.done()
                    and self._state_number != _core.CONNECTING):
                self._opening.set_result(None)
            error = self.ended_with()
            if error is not None:
                waiting, self._waiting = self._waiting, collections.deque()
                for future, _, _ in waiting:
                    if not future.done():
                        future.set_exception(error)


class Listener(_core.Listener):
    """Where peers connect to: an asynchronous iterator of their channels, which
    ends when it is closed; a context manager, too. Its pool keeps it until then.

    handler  a coroutine function that is run as a task with the channel of each
             peer, or None. The task is kept until it has ended; what it raises
             goes to the event loop's exception handler"""

    def __init__(self):
        self._accepted = collections.deque()
        self._waiting = collections.deque()
        self.handler = None

    def __repr__(self):
        return ("<ucxpool.Listener, closed>" if self.closed
                else f"<ucxpool.Listener, port {self.port}>")

    @property
    def pool(self):
        """The pool whose channels it makes."""
        return self._pool

    def accept(self):
        """The channel of the next peer, awaited or by wait(). Cancelled, it
        loses no peer. ClosedError where the listener is closed."""
        return Operation(self._accept, self._accept_wait)

    def close(self):
        """Stop listening; channels that were accepted stay. An accept()
        that waits ends with ClosedError. Twice is allowed."""
        self._release()
        waiting, self._waiting = self._waiting, collections.deque()
        for future in waiting:
            if not future.done():
                future.set_exception(ClosedError(
                    "this listener is closed"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self._accept()
        except ClosedError:
            raise StopAsyncIteration from None

    async def _accept(self):
        self._pool._use_loop()
        if self._accepted:
            return self._accepted.popleft()
        channel = self._take_channel()
        if channel is not None:
            return channel
        future = self._pool._use_loop().create_future()
        self._waiting.append(future)
        self._pool._kick()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                if future.exception() is None:
                    self._put_back(future.result())
            elif future in self._waiting:
                self._waiting.remove(future)
            raise

    def _accept_wait(self, timeout):
        if self._pool._is_driven_elsewhere():
            return self._pool._run_in_loop(self._accept(), timeout,
                                          self._put_back)
        return self._pool._wait_until(
            lambda: self._accepted.popleft() if self._accepted
            else self._take_channel(), timeout, "nobody has connected")

    def _on_event(self, kinds):
        channel = self._take_next()
        while channel is not None:
            self._give(channel)
            channel = self._take_next()

    def _take_next(self):
        """The channel of the next peer, or None. One that cannot have a channel
        does not end the wait for others."""
        while not self.closed:
            try:
                return self._take_channel()
            except Error as error:
                logger.warning("a peer is sent away: %s", error)
        return None

    def _give(self, channel):
        if self.handler is not None:
            task = self._pool._use_loop().create_task(self.handler(channel))
            self._pool._tasks.add(task)
            task.add_done_callback(self._pool._tasks.discard)
        elif not self._give_to_one(channel):
            self._accepted.append(channel)

    def _give_to_one(self, channel):
        """Give it to the first that waits; did one?"""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(channel)
                return True
        return False

    def _put_back(self, channel):
        """One that nobody takes after all comes before all others."""
        if not self._give_to_one(channel):
            self._accepted.appendleft(channel)


class Window(_core.Window):
    """Memory of this process that peers read and write by themselves, of
    Pool.window(). The pool holds the buffer until the window is closed: by
    close(), `await aclose()`, as a context manager, or with the pool."""

    def __repr__(self):
        if self.closed:
            return "<ucxpool.Window, closed>"
        return (f"<ucxpool.Window {self.name or 'without a name'}, "
                f"{self.length} bytes, {self.peers} peers>")

    @property
    def pool(self):
        """The pool that it was made in."""
        return self._pool

    def revoke(self):
        """Let no peer touch it any more: from now on imports are refused, and
        what peers read or write ends with CanceledError there. Awaited, or by
        wait(), it is done when no peer accesses the memory. On a GPU, and over
        RDMA, a peer must progress for that, or its channel or process end."""
        return Operation(self._revoke, self._revoke_wait)

    def close(self):
        """Revoke it, and release the buffer. Blocks the thread while a peer
        accesses the window, for the setting CLOSE_TIMEOUT at most; without a
        limit where an event loop of another thread drives the pool. Twice is
        allowed."""
        if not self.closed:
            if self._pool._is_driven_elsewhere():
                self._revoke_wait(None)
            self._release()

    async def aclose(self):
        """Revoke it, wait until no peer accesses it, and release the buffer. To
        bound the wait use asyncio.timeout(), and then close()."""
        if not self.closed:
            await self._revoke()
            self._release()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    def _look(self):
        return True if self._revoke_for(0) else None

    async def _revoke(self):
        await self._pool._until(self._look)

    def _revoke_wait(self, timeout):
        if self._pool._is_driven_elsewhere():
            self._pool._run_in_loop(self._revoke(), timeout)
        else:
            self._pool._wait_until(self._look, timeout,
                                  "a peer touches the window still")


class RemoteWindow(_core.Remote):
    """A window of a peer's, of Channel.import_window(). One that is dropped is
    closed; a context manager, too.

    Its places are rows of (offset, length): an array of integers of 64 bits, of
    NumPy or another with Python's buffer protocol, which is taken as it is and
    must not change until the transfer has ended; or any sequence of pairs. With
    the keyword length they are offsets alone, of places of that length: for
    many short ones that is quicker."""

    def __repr__(self):
        if self.closed:
            return "<ucxpool.RemoteWindow, closed>"
        return (f"<ucxpool.RemoteWindow, {self.length} bytes, to "
                f"{self.access}, way {self.way}>")

    def opened(self):
        """This window, awaited or by wait(), when its owner has answered.
        RefusedError where it has refused, CanceledError where the window is
        revoked, and what the channel has ended with."""
        return Operation(self._opened, self._opened_wait)

    def read(self, places, into, *, length=None, notify=None, metadata=b"",
             timeout=None):
        """Read places, one after the other, into a writable buffer, several, or
        Pieces of one, which may be cut otherwise, and may be longer.

        With notify, a tag, the owner gets a message without bytes when all is
        read, with that tag and the metadata. timeout is in seconds, after which
        it ends with TimedOutError (None: the setting REQUEST_TIMEOUT).

        At once: ValueError for a place beyond the window's end, buffers that are
        too short, or metadata without notify; NotPermittedError where the blob
        is not for reading. It ends with RefusedError where the owner refuses,
        CanceledError where it has revoked the window, PeerLostError where it
        dies; the buffers may have some of the bytes then."""
        return self._pool._started(self._post(
            False, places, into, length, notify, metadata, timeout))

    def write(self, places, data, *, length=None, notify=None, metadata=b"",
              timeout=None):
        """Write a buffer, several, or Pieces of one, which together are as long
        as the places, into these, one after the other. Ended, the bytes are in
        their places; a notification comes after them. Otherwise as read()."""
        return self._pool._started(self._post(
            True, places, data, length, notify, metadata, timeout))

    def close(self):
        """Let go of it, once what was posted has ended. Twice is allowed."""
        self._release()
        self._pool._kick()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _look(self):
        error = self.ended_with()
        if error is not None:
            raise error
        return self if self._is_answered() else None

    async def _opened(self):
        return await self._pool._until(self._look)

    def _opened_wait(self, timeout):
        if self._pool._is_driven_elsewhere():
            return self._pool._run_in_loop(self._opened(), timeout)
        return self._pool._wait_until(self._look, timeout,
                                     "the window's owner has not answered")


class Pool(_core.Pool):
    """Blocks that are mapped and registered once, and the channels that go
    through them.

    device  the GPU of the blocks and of the buffers, by number; None: the host
    name    for logs and statistics
    secret  bytes that peers on other hosts must know, too

    Further keywords are settings, as in Pool(comm_size="64m");
    `python -m ucxpool.info -c` lists them. The environment's UCXPOOL_* count
    where nothing is said here.
    InvalidParameterError where there is no such setting or value,
    OutOfMemoryError where there is not so much memory.

    A pool belongs to the process that made it (after fork() a child gets
    RuntimeError), and to the first event loop in which something of it is
    awaited; other threads may use it, too, by wait(). It is a context manager;
    also closed by close(), by `await aclose()`, and at the interpreter's
    end.

    The first pool of a process takes up to half a second: UCX loads its modules
    and looks for devices. `await asyncio.to_thread(ucxpool.Pool)`, with its
    arguments after it, keeps the event loop running meanwhile."""

    def __init__(self, device=None, *, name="python", secret=None, **settings):
        self._channel_type = Channel
        self._listener_type = Listener
        self._message_type = Message
        self._request_type = Transfer
        self._window_type = Window
        self._remote_type = RemoteWindow
        self._looks = []
        self._tasks = set()  # handlers of its listeners
        self._loop = None
        self._fd = -1
        self._is_due = False
        self._thread = None
        self._create(device, name, secret,
                    {key.upper(): _setting(value)
                     for key, value in settings.items()})

    def __repr__(self):
        if self.closed:
            return "<ucxpool.Pool, closed>"
        info = self.info()
        where = ("the host" if info["device"] is None
                 else f"GPU {info['device']}")
        return (f"<ucxpool.Pool {info['name']} on {where}, "
                f"{info['channels']} channels>")

    def connect(self, where, *, name=None, timeout=None):
        """A channel to the listener at "host:port", awaited or by wait(), when
        it is open. name is for logs and statistics; timeout is in seconds, after
        which it ends with TimedOutError, at the latest after the setting
        HANDSHAKE_TIMEOUT. InvalidParameterError where `where` is no such text, PeerLostError where
        nobody listens, NotPermittedError where the secrets differ."""
        return Operation(
            lambda: self._connect(where, name, timeout),
            lambda limit: self._connect_wait(
                where, name, timeout if limit is None else limit))

    def listen(self, where="127.0.0.1:0", handler=None):
        """Listen at "host:port"; port 0 takes a free one (Listener.port), an
        empty host is all addresses. handler(channel) is run as a task for each
        peer of the running event loop, RuntimeError where there is none; without
        one, iterate: `async for channel in pool.listen(where)`. AddressInUseError where the port is
        taken, NotPermittedError where other machines could connect and there is
        no secret."""
        if handler is not None:
            self._use_loop()
        listener = self._create_listener(where)
        listener.handler = handler
        self._kick()
        return listener

    def window(self, buffer, name="", file=None):
        """Make a buffer known as a Window, which peers read and write by
        themselves. It is held until the window is closed. name is for errors
        and the log. file is the memory file (os.memfd_create(), sealed by
        F_SEAL_SHRINK) that the buffer is a mapping of, as its descriptor or
        with a fileno(): peers of the host map it then, in place of being copied
        to by the system. ValueError for an empty buffer, or one that is no
        mapping of the file, UnsupportedError for memory that the pool's GPU
        does not reach."""
        return self._create_window(buffer, name, file)

    def close(self):
        """Close all channels, and give the memory back. Waits for peers, for
        the setting CLOSE_TIMEOUT at most, and blocks the thread. What is under
        way ends with CanceledError, and a recv() or accept() that waits with
        ClosedError. Twice is allowed."""
        self._leave_loop()
        self._end_all()
        self._destroy()

    async def aclose(self):
        """The same in another thread, while the event loop goes on."""
        if not self.closed:
            self._leave_loop()
            self._end_all()
            await asyncio.get_running_loop().run_in_executor(
                None, self._destroy)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    # --- the event loop

    @property
    def driven_by(self):
        """The event loop that drives the pool, or None."""
        return self._loop

    def _use_loop(self):
        """The event loop that drives the pool: the running one, from the first
        await on."""
        running = asyncio._get_running_loop()
        if self._loop is not None:
            if self._loop is running or running is None:
                return self._loop
            if not self._loop.is_closed():
                raise RuntimeError(
                    "this pool is driven by another event loop: use .wait(), "
                    "or a pool for each loop")
            self._leave_loop()
        if running is None:
            raise RuntimeError("no event loop is running: use .wait()")
        self._fd = self._fileno()
        self._loop = running
        self._thread = threading.get_ident()
        running.add_reader(self._fd, self._turn)
        self._kick()
        return running

    def _kick(self):
        """See to it that there is a turn soon."""
        if self._loop is None or self._loop.is_closed() or self._is_due:
            return
        if self._thread == threading.get_ident():
            self._is_due = True
            self._loop.call_soon(self._turn)
        else:
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self):
        self._is_due = False
        if self.closed:
            return
        events = self._progress()
        self._hand_out(events)
        self._look()
        # Those who were told something have the next word, and what they post
        # would only wake what is armed now.
        if events or self._num_ended or (not self.closed and not self._arm()):
            self._kick()

    def _hand_out(self, events):
        """Tell each of its event. What one fails with is reported, and the
        others are told all the same: no turn tells them again."""
        for one, kinds in events:
            try:
                one._on_event(kinds)
            except Exception as error:
                self._report(one, error)

    def _report(self, one, error):
        what = "a channel or listener has failed in its part of a turn"
        if self._loop is None or self._loop.is_closed():
            logger.error("%s: %r", what, one, exc_info=error)
        else:
            self._loop.call_exception_handler(
                {"message": f"ucxpool: {what}", "exception": error,
                 "of": one})

    async def _until(self, look):
        """What look() finds, which is asked after each turn; None: nothing."""
        future = self._use_loop().create_future()
        found = look()
        if found is not None:
            return found
        entry = (look, future)
        self._looks.append(entry)
        self._num_waiting += 1
        self._kick()
        try:
            return await future
        finally:
            self._num_waiting -= 1
            if entry in self._looks:
                self._looks.remove(entry)

    def _look(self):
        for entry in list(self._looks):
            look, future = entry
            try:
                found = look()
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
                continue
            if found is not None and not future.done():
                future.set_result(found)

    def _leave_loop(self):
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None
        self._is_due = False

    def _end_all(self):
        error = ClosedError("this pool is closed")
        for channel in self.channels():
            channel._end(error)
        for listener in self.listeners():
            listener.close()
        for _, future in self._looks:
            if not future.done():
                future.set_exception(error)

    def _started(self, transfer):
        if not transfer.done:
            self._kick()
        return transfer

    # --- without an event loop

    def _is_driven_elsewhere(self):
        """Does an event loop of another thread move things?"""
        return (self._loop is not None and not self._loop.is_closed()
                and self._thread != threading.get_ident())

    def _run_in_loop(self, coroutine, timeout, put_back=None):
        """Its result, for a thread. What it finds when the thread has gone,
        put_back() gets, in the loop."""
        # Who is first, the result or the thread that goes, has it.
        first = threading.Lock()

        async def run():
            found = await coroutine
            if not first.acquire(blocking=False) and put_back is not None:
                put_back(found)
            return found

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.done() or not first.acquire(blocking=False):
                return future.result()  # or its own error
            future.cancel()
            raise TimedOutError(f"nothing after {timeout} s") from None
        except BaseException:
            # Its own error, or a signal's handler has raised.
            if first.acquire(blocking=False):
                future.cancel()
            raise

    def _wait_until(self, look, timeout, what):
        """Progress until look() finds something; what it has found."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            found = look()
            if found is not None:
                return found
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimedOutError(f"{what} after {timeout} s")
            self._hand_out(self._wait_some(left))

    # --- connecting

    async def _connect(self, where, name, timeout):
        loop = self._use_loop()
        channel = self._connect_channel(where)
        if name is not None:
            channel.name = name
        channel._opening = loop.create_future()
        self._kick()
        try:
            async with asyncio.timeout(timeout):
                while channel._state_number == _core.CONNECTING:
                    await channel._opening
                    if channel.closed:
                        raise channel.ended_with()
        except TimeoutError:
            channel.abort()
            raise TimedOutError(
                f"no answer from {where} within {timeout} s") from None
        except BaseException:
            channel.abort()
            raise
        return self._opened(channel)

    def _connect_wait(self, where, name, timeout):
        if self._is_driven_elsewhere():
            return self._run_in_loop(self._connect(where, name, timeout), None)
        channel = self._connect_channel(where)
        if name is not None:
            channel.name = name
        try:
            self._wait_until(
                lambda: True if channel._state_number != _core.CONNECTING
                else None, timeout, f"no answer from {where}")
        except BaseException:
            channel.abort()
            raise
        return self._opened(channel)

    def _opened(self, channel):
        error = channel.ended_with()
        if error is not None:
            channel.abort()
            raise error
        return channel


def _setting(value):
    if isinstance(value, bool):
        return "y" if value else "n"
    return str(value)
