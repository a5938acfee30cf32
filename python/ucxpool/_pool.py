"""Pools, channels and messages for asyncio programs.

An event loop watches the pool's file descriptor. When it becomes readable, the
loop calls the pool's progress function for up to half a millisecond, delivers
the completions and events, and arms the descriptor again. There is no
background thread and no timer.
"""
import asyncio
import atexit
import collections
import threading
import time
import types

from ._library import library

# This loads the libraries that the extension is linked with: the chosen
# libucxpool and the UCX that it needs.
library()

from . import _core  # noqa: E402
from ._errors import (ClosedError, Error, TimedOutError,  # noqa: E402
                      TruncatedError)
from ._log import logger  # noqa: E402

_ALL_BITS = 0xFFFFFFFFFFFFFFFF

atexit.register(_core.close_all)


def _match(tag, mask):
    """Return the tag and the mask as numbers, for recv(tag, mask)."""
    if tag is None:
        if mask is not None:
            raise ValueError("a mask needs a tag: pass both, or neither to "
                             "receive any message")
        return 0, 0
    return tag, _ALL_BITS if mask is None else mask


class Operation:
    """An operation that the caller awaits, or runs with wait(). It starts only
    when it is awaited or run. It can be awaited once. It is a coroutine, so
    asyncio.create_task() accepts it."""

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

    # The coroutine protocol, for asyncio.create_task().
    def send(self, value):
        return self._begin().send(value)

    def throw(self, *error):
        return self._begin().throw(*error)

    def close(self):
        if self._coroutine is not None:
            self._coroutine.close()

    # Allows annotations such as Operation[Channel].
    __class_getitem__ = classmethod(types.GenericAlias)

    def wait(self, timeout=None):
        """Run the operation without an event loop, from any thread. Returns
        its result, or raises TimedOutError after `timeout` seconds (None: no
        timeout). In the thread of the event loop that drives the pool, this
        call blocks the loop."""
        return self._wait(timeout)


class Transfer(_core.Request):
    """A send, receive or flush that has been posted: await it, or call wait().
    asyncio.gather() and ensure_future() accept it like any other awaitable.

    The buffers stay referenced until the transfer has ended, even if the
    program keeps no reference to the transfer. Canceling a task that awaits a
    transfer cancels the transfer; the task continues when the transfer no
    longer uses its buffers. A transfer raises PeerLostError if the peer dies,
    RefusedError if the receiver refuses the message, TruncatedError if the
    buffers are too short, TimedOutError after its timeout, and CanceledError
    if the transfer or its message is canceled, or if the channel or pool is
    closed before the transfer has ended."""

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
                    pass  # already canceled
            raise

    def _woken(self):
        """Return a future that is set when the transfer ends."""
        future = self._pool._use_loop().create_future()
        self._add_callback(_Wake(future))
        if self.done and not future.done():
            # Another thread has ended the transfer in the meantime.
            self._on_done = None
            future.set_result(None)
        return future

    def _add_callback(self, call):
        """Call `call` when the transfer ends, after the functions that were
        added earlier."""
        with _adding:
            before = self._on_done
            self._on_done = call if before is None else _Both(before, call)

    def wait(self, timeout=None):
        """Wait without an event loop, from any thread. Raises TimedOutError
        after `timeout` seconds (None: no timeout); the transfer then
        continues."""
        if not self.done and not self._pool._is_driven_elsewhere():
            self._wait_done(timeout)
        elif not self.done:
            ended = threading.Event()
            self._add_callback(ended.set)
            if self.done:
                ended.set()
            ended.wait(timeout)
        if not self.done:
            raise TimedOutError(f"not done after {timeout} s: the transfer "
                                "continues; call cancel() to end it")
        return self.outcome()


# Held while a function is added: several threads may wait for one transfer.
_adding = threading.Lock()


class _Both:
    """Calls two functions, one after the other."""

    __slots__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __call__(self):
        self.first()
        self.second()


class _Wake:
    """Sets a future, from any thread."""

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
    """Many pieces of one buffer, in any order, treated as one array. They can
    be the source of a send or of a write to a window, or the target of a
    receive or of a read from a window. The buffer is held as long as this
    object exists. `places` has the form that RemoteWindow describes, and is
    copied. Raises ValueError for a piece beyond the buffer's end."""

    def __init__(self, buffer, places, length=None):
        """The arguments are handled by __cinit__()."""

    def __repr__(self):
        where = "a GPU" if self.is_cuda else "the host"
        return (f"<ucxpool.Pieces, {self.count} of {where}, "
                f"{self.length} bytes together>")


class Message(_core.Message):
    """A message that has arrived but has not been received yet: its data is
    still in the sender's memory or in blocks. Receive it with into() or
    frames(), or refuse it; a message is refused when no variable refers to it
    anymore. Receiving a message twice raises ValueError."""

    def __repr__(self):
        state = ", received or refused" if self._is_taken else ""
        return (f"<ucxpool.Message, tag {self.tag}, {self.length} bytes in "
                f"{self.num_buffers} buffers{state}>")

    def into(self, buffers, timeout=None):
        """Receive the message into one or several writable buffers: `await
        message.into(array)`, or `.into(array).wait()`. The buffers need
        not be split like the sender's, and their total length may be larger. If
        they are too short, the call raises TruncatedError at once, and the
        message can still be received. timeout is in seconds (None: the setting
        REQUEST_TIMEOUT)."""
        return self._pool._started(self._post_into(buffers, timeout))

    def frames(self, allocator=None, timeout=None, *, apart=False):
        """Receive the message into new memory, split like the sender's
        buffers. Awaiting the transfer returns a list of writable memoryviews.
        All frames of up to 64 KiB share one allocation, which is kept as long
        as any of them exists; each longer frame has its own allocation. Use
        apart=True if some frames are kept longer than others: each frame of
        more than 4 KiB then has its own allocation, and shorter ones share
        allocations of up to 64 KiB.

        If given, allocator(length) allocates each frame of `length` bytes
        (numpy.empty with dtype="u1", cupy.empty, ...), and the list contains
        the objects that it returned. timeout is in seconds (None: the setting
        REQUEST_TIMEOUT)."""
        if allocator is None:
            return self._pool._started(self._post_frames(timeout, apart))
        frames = [allocator(length) for length in self.lengths]
        transfer = self._post_into(frames, timeout)
        transfer._result = frames
        return self._pool._started(transfer)


class Channel(_core.Channel):
    """The connection to one peer's pool, created by Pool.connect() or
    Listener.accept(). Messages arrive in the order in which they were sent. A
    channel is closed when no variable refers to it anymore. It is also a
    context manager. Any thread may use it."""

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
        """The pool that the channel belongs to."""
        return self._pool

    @property
    def ended(self):
        """True if this side has closed the channel. If the peer has closed it,
        or it has failed: True once no message is left to receive."""
        return self.closed or (
            self._state_number > _core.OPEN and not self._kept)

    def send(self, buffers, tag=0, metadata=b"", timeout=None):
        """Send one buffer, or an iterable of buffers, as one message.

        Buffers support Python's buffer protocol or __cuda_array_interface__;
        they may have any length, and each must be contiguous. They are held,
        and must not change, until the transfer has ended. tag has 64 bits.
        metadata is copied and sent ahead of the data; the setting MAX_METADATA
        limits its length. timeout is in seconds, after which the send ends
        with TimedOutError (None: the setting REQUEST_TIMEOUT).

        A send of up to EAGER_SIZE bytes (a setting) ends when its bytes have
        been copied. A longer send ends when the receiver has received the
        message. send() itself raises ValueError for a strided buffer, or if
        the pool is on the host and a buffer is on a GPU; TypeError for an
        object that is not a buffer; OverflowError for a tag of more than 64
        bits; LimitError for metadata that is too long; ClosedError for a
        channel that has ended."""
        return self._pool._started(
            self._post_send(buffers, tag, metadata, timeout))

    def recv(self, tag=None, mask=None):
        """Wait for the next message: any message, or with `tag`, a message
        with this tag. If `mask` is given, only the bits of the tag that are
        set in the mask are compared. The result is a Message, which still has
        to be received. Several waiting calls get messages in the order in
        which they started to wait. Canceling the call loses no message.
        Raises ClosedError if the peer has closed the channel and no message is
        left, PeerLostError if the peer has died, ValueError for a mask without
        a tag."""
        tag, mask = _match(tag, mask)
        return Operation(lambda: self._recv(tag, mask),
                         lambda timeout: self._recv_wait(tag, mask, timeout))

    def recv_into(self, buffers, tag=None, mask=None, timeout=None):
        """Receive the next message that matches, as in recv(), into writable
        buffers. Returns a Transfer, whose length is the number of bytes in the
        message. If the buffers are too short, the transfer ends with
        TruncatedError and the message is lost; its sender also gets an
        error."""
        match = _match(tag, mask)
        return self._pool._started(self._receive(
            self._recv_op(buffers, *match, timeout), *match))

    def flush(self, timeout=None):
        """Return a Transfer that ends when all earlier sends have ended.
        timeout is in seconds (None: the setting REQUEST_TIMEOUT). Raises
        ClosedError at once if the peer has closed the channel."""
        return self._pool._started(self._post_flush(timeout))

    def import_window(self, blob):
        """Return a peer's window as a RemoteWindow, from the blob that its
        owner exported. Returns at once: reads and writes wait until the owner
        has answered. Raises ValueError if `blob` is not a window's blob."""
        remote = self._post_import(blob)
        self._pool._kick()
        return remote

    def close(self):
        """Close the channel after the posted operations have ended, or after
        the setting CLOSE_TIMEOUT. This call does not wait: to be sure that
        sends have arrived, await flush() first. Waiting recv() calls raise
        ClosedError. Calling close() again has no effect."""
        self._end(ClosedError("this channel is closed"))
        if not self.closed:
            self._release()
            self._pool._kick()

    def abort(self):
        """Close the channel at once; operations in progress end with
        CanceledError."""
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
        """Return the oldest kept message that matches, or None. A message is
        kept if no recv() was waiting for it when it arrived. Several threads
        may call this method at the same time."""
        for message in list(self._kept):
            if (message.tag ^ tag) & mask == 0:
                try:
                    self._kept.remove(message)
                except ValueError:
                    continue
                return message
        return None

    def _keeps(self, tag, mask):
        """Return whether a kept message matches."""
        return any((message.tag ^ tag) & mask == 0
                   for message in list(self._kept))

    def _take(self, tag, mask):
        """Return the channel's oldest message that matches, or None."""
        message = self._take_kept(tag, mask)
        return self._probe(tag, mask) if message is None else message

    def _receive(self, op, tag, mask):
        """Receive the next message that matches, as `op` says. Returns the
        transfer."""
        message = self._take(tag, mask)
        if message is None:
            return self._post_recv(op)
        try:
            return message._post_op(op)
        except TruncatedError as error:
            message.refuse(str(error))
            return self._pool._failed(error)
        except BaseException:
            if not message._is_taken:
                self._return(message)
            raise

    async def _recv(self, tag, mask):
        pool = self._pool
        pool._use_loop()
        self._fail_if_closed()
        # Kept messages match none of the waiting calls. A message that is
        # still in the library may match one, and then belongs to that call.
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
                # This call got a message in the same turn: put it back.
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
        """Give a message to the first recv() that waits for its tag, or keep
        it."""
        for entry in self._waiting:
            future, tag, mask = entry
            if (message.tag ^ tag) & mask == 0 and not future.done():
                self._waiting.remove(entry)
                future.set_result(message)
                return
        self._kept.append(message)

    def _return(self, message):
        """The same as _put_back(), in any thread."""
        if self._pool._is_driven_elsewhere():
            self._pool._loop.call_soon_threadsafe(self._put_back, message)
        else:
            self._put_back(message)

    def _put_back(self, message):
        """Return a message that was not received to the front of the queue."""
        if not self.closed:
            self._kept.appendleft(message)
            self._hand_over()

    def _hand_over(self):
        """Give kept messages to the recv() calls that wait for them."""
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
            message = self._probe(0, 0)
            while message is not None:
                self._keep(message)
                message = self._probe(0, 0)
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
    """Accepts connections from peers. It is an asynchronous iterator of their
    channels, which ends when the listener is closed, and also a context
    manager. The pool holds a reference to the listener until the listener is
    closed.

    handler  a coroutine function, or None. For each accepted channel,
             handler(channel) runs as a task. The pool holds the task until
             it has ended. The task's exceptions go to the event loop's
             exception handler"""

    def __init__(self):
        self._accepted = collections.deque()
        self._waiting = collections.deque()
        self.handler = None

    def __repr__(self):
        return ("<ucxpool.Listener, closed>" if self.closed
                else f"<ucxpool.Listener, port {self.port}>")

    @property
    def pool(self):
        """The pool that the accepted channels belong to."""
        return self._pool

    def accept(self):
        """Wait for the channel of the next peer: await it, or call wait().
        Canceling the call loses no peer. Raises ClosedError if the listener
        is closed."""
        return Operation(self._accept, self._accept_wait)

    def close(self):
        """Stop listening. Accepted channels stay open. A waiting accept()
        raises ClosedError. Calling close() again has no effect."""
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
            else self._take_channel(), timeout, "no peer has connected")

    def _on_event(self, kinds):
        channel = self._take_next()
        while channel is not None:
            self._give(channel)
            channel = self._take_next()

    def _take_next(self):
        """Return the channel of the next peer, or None. A channel that cannot
        be created does not prevent other peers from connecting."""
        while not self.closed:
            try:
                return self._take_channel()
            except Error as error:
                logger.warning("cannot accept a peer: %s", error)
        return None

    def _give(self, channel):
        if self.handler is not None:
            task = self._pool._use_loop().create_task(self.handler(channel))
            self._pool._tasks.add(task)
            task.add_done_callback(self._pool._tasks.discard)
        elif not self._give_to_waiter(channel):
            self._accepted.append(channel)

    def _give_to_waiter(self, channel):
        """Give the channel to the first waiting accept(), if any. Returns
        whether one was waiting."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(channel)
                return True
        return False

    def _put_back(self, channel):
        """Return a channel that was not accepted to the front of the queue."""
        if not self._give_to_waiter(channel):
            self._accepted.appendleft(channel)


class Window(_core.Window):
    """Memory of this process that peers can read and write directly, created
    by Pool.window(). The pool holds the buffer until the window is closed: by
    close(), `await aclose()`, leaving the context manager, or closing the
    pool."""

    def __repr__(self):
        if self.closed:
            return "<ucxpool.Window, closed>"
        return (f"<ucxpool.Window {self.name or 'without a name'}, "
                f"{self.length} bytes, {self.peers} peers>")

    @property
    def pool(self):
        """The pool that the window was created in."""
        return self._pool

    def revoke(self):
        """Revoke the peers' access: from now on imports are refused, and reads
        and writes fail with CanceledError at the peers. The operation ends when
        no peer accesses the memory. If the window is on a GPU, or a peer
        accesses it over RDMA, the peer must make progress. If it does not, the
        operation ends only when the peer's channel or process ends."""
        return Operation(self._revoke, self._revoke_wait)

    def close(self):
        """Revoke the window and release the buffer. Blocks the thread while a
        peer accesses the window, for at most the setting CLOSE_TIMEOUT. If an
        event loop in another thread drives the pool, this call waits without a
        limit. Calling close() again has no effect."""
        if not self.closed:
            if self._pool._is_driven_elsewhere():
                self._revoke_wait(None)
            self._release()

    async def aclose(self):
        """Revoke the window, wait until no peer accesses it, and release the
        buffer. To limit the wait, use asyncio.timeout() and then close()."""
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
                                  "a peer still accesses the window")


class RemoteWindow(_core.Remote):
    """A window of a peer, created by Channel.import_window(). It is closed
    when no variable refers to it anymore. It is also a context manager.

    Reads and writes take a list of ranges in the window, called places. Each
    place is given as a row of (offset, length). The rows are any sequence of
    pairs, or an array of 64-bit integers (a NumPy array, or any object with
    Python's buffer protocol). An array is used without a copy and must not
    change until the transfer has ended. If the keyword length is given, the
    rows are offsets only, and each place has that length. This form is faster
    for many short places."""

    def __repr__(self):
        if self.closed:
            return "<ucxpool.RemoteWindow, closed>"
        return (f"<ucxpool.RemoteWindow, {self.length} bytes, to "
                f"{self.access}, way {self.way}>")

    def opened(self):
        """Wait until the window's owner has answered; the result is this
        window. Await the operation, or call wait(). Raises RefusedError if the
        owner has refused, CanceledError if the window has been revoked, or the
        error with which the channel has ended."""
        return Operation(self._opened, self._opened_wait)

    def read(self, places, into, *, length=None, notify=None, metadata=b"",
             timeout=None):
        """Read the places, one after the other, into a writable buffer,
        several buffers, or Pieces of a buffer. The buffers need not be split
        like the places, and their total length may be larger.

        If notify is given, the owner gets a message without data when
        everything has been read. notify is the tag of this message, and
        metadata its metadata. timeout is in seconds, after which the read ends
        with TimedOutError (None: the setting REQUEST_TIMEOUT).

        read() itself raises ValueError for a place beyond the window's end,
        for buffers that are too short, or for metadata without notify;
        NotPermittedError if the blob does not allow reading. The transfer ends
        with RefusedError if the owner refuses, CanceledError if the owner has
        revoked the window, and PeerLostError if the owner dies; the buffers
        may then contain part of the data."""
        return self._pool._started(self._post(
            False, places, into, length, notify, metadata, timeout))

    def write(self, places, data, *, length=None, notify=None, metadata=b"",
              timeout=None):
        """Write a buffer, several buffers, or Pieces of a buffer into the
        places, one after the other. The data must be exactly as long as all
        places together. When the transfer has ended, the bytes are in the
        window; a notification arrives after the bytes. In all other respects,
        write() behaves like read()."""
        return self._pool._started(self._post(
            True, places, data, length, notify, metadata, timeout))

    def close(self):
        """Release the window after the posted operations have ended. Calling
        close() again has no effect."""
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


class Batch:
    """Operations on any channels and remote windows of one pool, created by
    Pool.batch(). One call posts them, which is faster for many short messages.
    The methods take the same arguments, and raise the same exceptions for
    them, as the methods of Channel and RemoteWindow. post() posts the
    operations. Only one thread may use a batch at a time."""

    def __init__(self, pool):
        self._pool = pool
        self._entries = []  # (operation, (channel, tag, mask) of a receive)
        self._transfers = []

    def __len__(self):
        return len(self._entries)

    def __repr__(self):
        return f"<ucxpool.Batch, {len(self)} operations to post>"

    @property
    def transfers(self):
        """If post() raised an exception: the transfers of the operations
        before the refused one, followed by the refused operation's transfer,
        which has failed with the same error. Otherwise empty."""
        return list(self._transfers)

    def send(self, channel, buffers, tag=0, metadata=b"", timeout=None):
        """Add a send: see Channel.send()."""
        self._entries.append(
            (channel._send_op(buffers, tag, metadata, timeout), None))

    def recv_into(self, channel, buffers, tag=None, mask=None, timeout=None):
        """Add a receive: see Channel.recv_into()."""
        match = _match(tag, mask)
        self._entries.append((channel._recv_op(buffers, *match, timeout),
                              (channel, *match)))

    def read(self, window, places, into, *, length=None, notify=None,
             metadata=b"", timeout=None):
        """Add a read of a remote window: see RemoteWindow.read()."""
        self._entries.append((window._op(
            False, places, into, length, notify, metadata, timeout), None))

    def write(self, window, places, data, *, length=None, notify=None,
              metadata=b"", timeout=None):
        """Add a write to a remote window: see RemoteWindow.write()."""
        self._entries.append((window._op(
            True, places, data, length, notify, metadata, timeout), None))

    def post(self):
        """Post the operations, in order. Returns their transfers as a list,
        and empties the batch.

        If an operation is refused, this raises its error. The operations
        before it are in progress; `transfers` has their transfers. The refused
        operation is removed, and the batch keeps the operations after it.
        Calling post() again continues with them, and then returns all
        transfers, including that of the refused operation."""
        error = None
        try:
            while self._entries and error is None:
                error = self._post_some()
        finally:
            self._pool._kick()
        if error is not None:
            error.add_note(
                f"operation {len(self._transfers) - 1} of the batch was "
                f"refused; the {len(self)} after it were not posted")
            raise error
        transfers, self._transfers = self._transfers, []
        return transfers

    def _post_some(self):
        """Post the operations before the first receive of a kept message, or
        this receive. Returns the error of a refused operation, or None."""
        num = next((i for i, (_, receive) in enumerate(self._entries)
                    if receive is not None and receive[0].pool is self._pool
                    and receive[0]._keeps(*receive[1:])),
                   len(self._entries))
        if num > 0:
            ops = [op for op, _ in self._entries[:num]]
            num, error = self._pool._post_batch(ops)
            transfers = [op.request for op in ops[:num + (error is not None)]]
        else:
            op, (channel, *match) = self._entries[0]
            try:
                transfers, error = [channel._receive(op, *match)], None
            except Error as reason:
                error = reason
                transfers = [self._pool._failed(error)]
        self._transfers += transfers
        del self._entries[:len(transfers)]
        return error


class Pool(_core.Pool):
    """Blocks of memory that are mapped and registered once, and the channels
    that use them.

    device  the number of the GPU that holds the blocks and the buffers; None:
            host memory
    name    for logs and statistics; None: the first of "ucxpool", "ucxpool-2"
            and so on that no other pool of the process has as its default
    secret  bytes that listeners and the peers that connect to them must share

    Other keyword arguments are settings, as in Pool(comm_size="64m");
    `python -m ucxpool.info -c` lists them. Settings that are not given here
    come from the environment's UCXPOOL_* variables. Raises
    InvalidParameterError for an unknown setting or an invalid value,
    OutOfMemoryError if there is not enough memory.

    A pool belongs to the process that created it: after fork() its methods
    raise RuntimeError in the child. It also belongs to the first event loop in
    which one of its operations is awaited; other threads may use it with
    wait(). It is a context manager. It is closed by close(), by `await
    aclose()`, or when the interpreter exits.

    Creating the first pool of a process takes up to half a second, because UCX
    loads its modules and looks for devices. Use `await
    asyncio.to_thread(ucxpool.Pool, ...)`, with Pool's arguments in place of
    `...`, to keep the event loop running during that time."""

    def __init__(self, device=None, *, name=None, secret=None, **settings):
        self._channel_type = Channel
        self._listener_type = Listener
        self._message_type = Message
        self._request_type = Transfer
        self._window_type = Window
        self._remote_type = RemoteWindow
        self._looks = []
        self._tasks = set()  # tasks that run the listeners' handlers
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

    def connect(self, where, *, name=None, timeout=None, require=None):
        """Connect to the listener at "host:port": await it, or call wait().
        The result is an open channel. name is for logs and statistics. timeout
        is in seconds, after which the operation raises TimedOutError; the
        setting HANDSHAKE_TIMEOUT also limits the time. require names the paths
        that the channel may use: "map", "rma", "direct", "map,rma",
        "direct,rma" or "any" (default: the setting REQUIRE). Raises
        InvalidParameterError if `where` is not of the form "host:port",
        PeerLostError if no process listens there, NotPermittedError if the
        secrets differ, UnsupportedError if the channel cannot use a path that
        this side or the listener requires."""
        return Operation(
            lambda: self._connect(where, name, timeout, require),
            lambda limit: self._connect_wait(
                where, name, timeout if limit is None else limit, require))

    def listen(self, where="127.0.0.1:0", handler=None, *, require=None):
        """Listen at "host:port". Port 0 selects a free port (see
        Listener.port); an empty host means all addresses. If handler is given,
        handler(channel) runs for each peer as a task of the running event
        loop; without a running loop this raises RuntimeError. Without a
        handler, iterate: `async for channel in pool.listen(where)`. require
        names the paths that accepted channels may use, as for connect(). Raises
        AddressInUseError if the port is in use, NotPermittedError if other
        hosts could connect and no secret is set."""
        if handler is not None:
            self._use_loop()
        listener = self._create_listener(where, require)
        listener.handler = handler
        self._kick()
        return listener

    def window(self, buffer, name="", file=None):
        """Make a buffer available as a Window, which peers read and write
        directly. The buffer is held until the window is closed. name appears
        in error messages and in the log. file is the memory file that backs
        the buffer (made by os.memfd_create() and sealed with F_SEAL_SHRINK),
        as a descriptor or an object with fileno(). Peers on the same host then
        map the file; without a file, the kernel copies the data for these
        peers. Raises ValueError for an empty buffer, or one that does not map
        the file, and UnsupportedError for memory that the pool's GPU cannot
        access."""
        return self._create_window(buffer, name, file)

    def batch(self):
        """Return an empty Batch, which posts many operations in one call."""
        return Batch(self)

    def close(self):
        """Close all channels and free the memory. Blocks the thread while it
        waits for peers, for at most the setting CLOSE_TIMEOUT. Operations in
        progress end with CanceledError, and waiting recv() and accept() calls
        raise ClosedError. Calling close() again has no effect."""
        self._leave_loop()
        self._end_all()
        self._destroy()

    async def aclose(self):
        """Close the pool in another thread, while the event loop keeps
        running."""
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
        """Return the event loop that drives the pool: the loop in which one of
        the pool's operations was first awaited."""
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
        """Schedule a turn of progress in the event loop."""
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
        # Let the tasks that were just woken run first. They may post
        # operations, which would wake the descriptor that is armed here.
        if events or self._num_ended or (not self.closed and not self._arm()):
            self._kick()

    def _hand_out(self, events):
        """Deliver each event. An exception in one handler is reported, and the
        other events are still delivered: later turns do not deliver them
        again."""
        for one, kinds in events:
            try:
                one._on_event(kinds)
            except Exception as error:
                self._report(one, error)

    def _report(self, one, error):
        what = "a channel or listener failed while it handled an event"
        if self._loop is None or self._loop.is_closed():
            logger.error("%s: %r", what, one, exc_info=error)
        else:
            self._loop.call_exception_handler(
                {"message": f"ucxpool: {what}", "exception": error,
                 "of": one})

    async def _until(self, look):
        """Return the first result of look() that is not None. look() is called
        at once, and after each turn of progress."""
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
        """Return whether an event loop in another thread drives the pool."""
        return (self._loop is not None and not self._loop.is_closed()
                and self._thread != threading.get_ident())

    def _run_in_loop(self, coroutine, timeout, put_back=None):
        """Run the coroutine in the loop and return its result to this thread.
        If this thread has stopped waiting before the coroutine ends, the loop
        passes the result to put_back()."""
        # The coroutine takes this lock when it has a result. The thread takes
        # the lock when it gives up. Whichever takes the lock first owns the
        # result.
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
            raise TimedOutError(f"no result after {timeout} s") from None
        except BaseException:
            # The coroutine's own error, or an exception from a signal handler.
            if first.acquire(blocking=False):
                future.cancel()
            raise

    def _wait_until(self, look, timeout, what):
        """Make progress until look() returns a result other than None, and
        return this result."""
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

    async def _connect(self, where, name, timeout, require):
        loop = self._use_loop()
        channel = self._connect_channel(where, require)
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

    def _connect_wait(self, where, name, timeout, require):
        if self._is_driven_elsewhere():
            return self._run_in_loop(
                self._connect(where, name, timeout, require), None)
        channel = self._connect_channel(where, require)
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
