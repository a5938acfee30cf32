"""The parts of an agent of ucxpool.nixl: registered memory by address, the
pools of this process, and the peers with their windows."""
import ctypes
import json
import logging
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy

from . import _address
from ._errors import Error
from ._pool import Pool, _core

_log = logging.getLogger("ucxpool.nixl")

# The tags of messages between agents.
HELLO, NOTIFY, METADATA, FETCH, FORGET = range(1, 6)
HOST = -1
MAGIC = b"ucxpool.nixl 1 "
# A notification up to this length is sent as the metadata of its message.
SHORT_NOTE = 1024
# A notification is sent on at most this many channels, one after the other.
MAX_TRIES = 3
# A GPU's list of at least PARTED_MIN entries is looked up in parts, while the
# GPU copies the previous part. The first part has FIRST_BYTES, which take 0.2
# ms to copy. The second part has NEXT_PART entries, which take less time to
# look up. Each later part has PART_GROWTH times as many entries as the part
# before it.
PARTED_MIN = 16384
FIRST_BYTES = 64 << 20
FIRST_MIN, FIRST_MAX = 1024, 16384
NEXT_PART = 65536
PART_GROWTH = 4
# A GPU itself reads lists of at least this many entries, from memory that it
# can access.
LIST_MIN = 4096


# --- memory -------------------------------------------------------------------

@dataclass(eq=False)
class Region:
    """Registered memory, of this agent or of a peer."""
    kind: str
    device: int  # HOST, or the number of the GPU
    start: int
    length: int
    blob: bytes = b""
    side: Any = None
    window: Any = None

    def key(self):
        return self.kind, self.device, self.start, self.length


def device_of(kind, number):
    """Return the device of a descriptor. NIXL also numbers host memory."""
    return HOST if kind == "DRAM" else int(number)


class Regions:
    """Regions by address. Addresses are unique in a process, also across
    GPUs."""

    def __init__(self):
        self._all = []
        self._tables = {}

    def __iter__(self):
        return iter(self._all)

    def add(self, region):
        self._all.append(region)
        self._tables.clear()

    def remove(self, region):
        self._all.remove(region)
        self._tables.clear()

    def get(self, key):
        return next((one for one in self._all if one.key() == key), None)

    def _table(self, kind):
        if kind not in self._tables:
            regions = sorted((one for one in self._all if one.kind == kind),
                             key=lambda one: (one.start, one.length))
            self._tables[kind] = (
                regions,
                numpy.array([one.start for one in regions], "u8"),
                numpy.array([one.start + one.length for one in regions],
                            "u8"))
        return self._tables[kind]

    def find(self, kind, rows):
        """Return the regions, and for each row the index of its region, or one
        index for all. Raises LookupError for a row outside all regions."""
        regions, starts, ends = self._table(kind)
        first = rows[:, 0]
        last = first + rows[:, 1]
        if len(regions) == 0 or (last < first).any():
            raise LookupError
        numbers = numpy.searchsorted(starts, first, "right") - 1
        missing = (numbers < 0) | (last > ends[numbers])
        if missing.any():
            self._find_longer(first, last, numbers, missing, starts, ends)
        if (numbers == numbers[0]).all():
            return regions, int(numbers[0])
        return regions, numbers

    @staticmethod
    def _find_longer(first, last, numbers, missing, starts, ends):
        """Find rows that are in a longer region around the nearest one."""
        for number in range(len(starts)):
            fits = missing & (first >= starts[number]) & (last <= ends[number])
            numbers[fits] = number
            missing = missing & ~fits
        if missing.any():
            raise LookupError


class _OnGpu:
    def __init__(self, address, length):
        self.__cuda_array_interface__ = {
            "shape": (length,), "typestr": "|u1", "version": 3,
            "data": (address, False)}


def buffer_at(region):
    """Return the memory of a region as a buffer; the caller keeps it alive."""
    if region.kind == "DRAM":
        return (ctypes.c_char * region.length).from_address(region.start)
    return _OnGpu(region.start, region.length)


# --- this process -------------------------------------------------------------

class Side:
    """A pool, of the host or of one GPU, to which peers connect."""

    def __init__(self, device, host, handler):
        self.device = device
        self.pool = Pool(None if device == HOST else device, name="nixl")
        self.listeners = [self.pool.listen(_address.at(host, 0))]
        self.address = _address.at(host, self.listeners[0].port)
        self.inbound = []
        self._handle_events = weakref.WeakMethod(handler)
        self._stop = threading.Event()
        self._thread = None

    def start(self):
        """Make progress in a thread, as long as the agent exists."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._drive, args=(self.pool, self._stop,
                                          self._handle_events,
                                          weakref.ref(self)),
                daemon=True, name="ucxpool.nixl")
            self._thread.start()

    @staticmethod
    def _drive(pool, stop, handler, reference):
        while not stop.is_set():
            events = pool._drive()
            call, side = handler(), reference()
            if call is None or side is None:
                return
            call(side, events)
            del call, side

    def accepted(self):
        """Return the channels of new peers."""
        found = []
        for listener in self.listeners:
            while listener._accepted:
                found.append(listener._accepted.popleft())
        self.inbound = [one for one in self.inbound if not one.ended] + found
        return found

    def close(self):
        """Stop the thread and close the pool. Calling it again has no
        effect."""
        if self.pool.closed:
            return
        self._stop.set()
        if (self._thread is not None
                and self._thread is not threading.current_thread()):
            self._thread.join()
        self.pool.close()


# --- peers --------------------------------------------------------------------

def write_metadata(name, identity, sides, regions, are_all):
    """Return the metadata that a peer needs, as bytes."""
    return MAGIC + json.dumps({
        "name": name, "identity": identity, "all": are_all,
        "sides": {str(side.device): side.address for side in sides},
        "regions": [[*one.key(), one.blob.hex()] for one in regions],
    }).encode()


def read_metadata(metadata):
    """Parse metadata. Raises ValueError if it is invalid."""
    metadata = bytes(metadata)
    if not metadata.startswith(MAGIC):
        raise ValueError("this is not metadata of a ucxpool.nixl agent")
    try:
        parsed = json.loads(metadata[len(MAGIC):])
        name, identity = str(parsed["name"]), str(parsed["identity"])
        sides = {int(device): str(address)
                 for device, address in parsed["sides"].items()}
        regions = [Region(str(kind), int(device), int(start), int(length),
                          bytes.fromhex(blob))
                   for kind, device, start, length, blob in parsed["regions"]]
        if HOST not in sides:
            raise ValueError("it has no pool on the host")
        if any(one.device not in sides or one.start < 0 or one.length < 1
               or one.start + one.length >= 2**64 for one in regions):
            raise ValueError("a region has an invalid device or range")
    except (AttributeError, KeyError, OverflowError, RecursionError,
            TypeError, ValueError) as error:
        raise ValueError(f"damaged metadata: {error}") from None
    return name, identity, sides, regions, bool(parsed.get("all"))


@dataclass(eq=False)
class Note:
    """A notification that is being sent."""
    text: bytes
    request: Any = None
    num_tries: int = 0


class Peer:
    """A remote agent: its channels, which are created when they are needed,
    the notifications that are being sent to it, and its imported memory. Any
    thread may use a Peer."""

    def __init__(self, name, identity, own_name):
        self.name = name
        self.identity = identity
        self.sides = {}
        self.regions = Regions()
        self.is_removed = False
        self._own_name = own_name
        self._channels = {}
        self._imports = {}
        self._notes = []
        self._failed = []
        self._lock = threading.RLock()

    def update(self, sides, regions, are_all):
        """Update the peer from new metadata."""
        self.sides.update(sides)
        keys = {one.key() for one in regions}
        if are_all:
            for old in [one for one in self.regions if one.key() not in keys]:
                self.regions.remove(old)
        for region in regions:
            old = self.regions.get(region.key())
            if old is not None:
                self.regions.remove(old)
            self.regions.add(region)

    def channel(self, side, device):
        """Return the channel from a local pool to a pool of the peer."""
        key = (side.device, device)
        with self._lock:
            channel = self._channels.get(key)
            if channel is None or channel.ended_with() is not None:
                channel = side.pool._connect_channel(self.sides[device])
                channel.name = self.name[:31]
                channel.send([], tag=HELLO, metadata=self._own_name.encode())
                self._channels[key] = channel
            return channel

    def notify(self, side, text):
        """Send a notification. resend() retries it until it is sent."""
        with self._lock:
            self.resend(side)
            self._post(side, Note(text), "")

    def _send(self, side, text):
        channel = self.channel(side, HOST)
        if len(text) <= SHORT_NOTE:
            return channel.send([], tag=NOTIFY, metadata=text)
        return channel.send(text, tag=NOTIFY)

    def resend(self, side):
        """Send the notifications again whose channel has failed."""
        with self._lock:
            ended = [one for one in self._notes if one.request.done]
            self._notes = [one for one in self._notes if one not in ended]
            for note in ended:
                if note.request.status != 0 and not self.is_removed:
                    self._post(side, note, note.request.detail)

    def _post(self, side, note, reason):
        """Try to send a notification again. reason is why the last attempt
        failed."""
        while note.num_tries < MAX_TRIES and not side.pool.closed:
            note.num_tries += 1
            try:
                note.request = self._send(side, note.text)
                self._notes.append(note)
                return
            except Error as error:
                reason = str(error)
        if not side.pool.closed:
            _log.error("cannot send a notification to %s: %s", self.name,
                       reason)
        self._failed.append(reason)

    def is_connecting(self, side):
        """Return whether a notification waits for a peer that has not answered
        yet."""
        with self._lock:
            self.resend(side)
            return (bool(self._notes) and not side.pool.closed and
                    self.channel(side, HOST).state != "open")

    def take_failed(self):
        """Return the reason for each notification that could not be sent, and
        clear these reasons."""
        with self._lock:
            failed, self._failed = self._failed, []
            return failed

    def window(self, side, region):
        """Return a region of the peer as a window, for a local pool."""
        with self._lock:
            channel = self.channel(side, region.device)
            key = (side.device, region.blob)
            remote = self._imports.get(key)
            if remote is None or remote.channel is not channel:
                remote = channel.import_window(region.blob)
                self._imports[key] = remote
            return remote

    def remove(self):
        with self._lock:
            self.is_removed = True
            for remote in self._imports.values():
                remote.close()
            for channel in self._channels.values():
                channel.close()
            self._imports.clear()
            self._channels.clear()


class Inbox:
    """The messages of one channel, in the order in which they were sent."""

    def __init__(self):
        self.name = None
        self._waiting = deque()

    def is_empty(self):
        return not self._waiting

    def add(self, message):
        if message.length == 0:
            self._waiting.append((message.tag, message._post_into([]),
                                  message.metadata))
        else:
            buffer = bytearray(message.length)
            self._waiting.append((message.tag, message._post_into(buffer),
                                  buffer))

    def take(self):
        """Yield the received messages, as pairs of a tag and bytes."""
        while self._waiting and self._waiting[0][1].done:
            tag, request, what = self._waiting.popleft()
            if request.status == 0:
                yield tag, bytes(what)


# --- transfers ----------------------------------------------------------------

@dataclass(eq=False)
class Prepared:
    """A list of descriptors after their lookup."""
    peer: Any  # None: this agent
    kind: str
    firsts: Any  # local addresses, or offsets in the peer's windows
    step: int | None  # the constant difference of consecutive firsts, or None
    lengths: Any  # one for each, or one for all
    regions: list
    numbers: Any  # the index of each one's region, or one index for all

    def reader(self):
        """Return the GPU that will read the selection, or None."""
        if (self.peer is None and self.kind == "VRAM"
                and isinstance(self.numbers, int)):
            return self.regions[self.numbers].device
        return None

    def select(self, indices, reader):
        """Return the selected descriptors. Raises IndexError for an invalid
        index."""
        def of(values):
            return values if isinstance(values, int) else values[indices]
        # Memory() reuses freed memory: new memory causes page faults.
        firsts = numpy.frombuffer(
            _core.Memory(8 * len(indices),
                         reader if len(indices) >= LIST_MIN else None), "u8")
        _core.take(self.firsts, self.step, indices, firsts)
        return Prepared(self.peer, self.kind, firsts, None, of(self.lengths),
                        self.regions, of(self.numbers))


def indices_of(given):
    """Return indices as an array. A signed array of 32 or 64 bits is used as
    it is."""
    if isinstance(given, numpy.ndarray) and given.dtype.kind == "i" and (
            given.itemsize >= 4):
        return numpy.ascontiguousarray(given)
    return numpy.array(given, "i8")


def prepare(regions, kind, rows, peer):
    """Look up descriptors. Raises LookupError for a row that is in no
    region."""
    found, numbers = regions.find(kind, rows)
    lengths = rows[:, 1]
    lengths = (int(lengths[0]) if (lengths == lengths[0]).all()
               else lengths.copy())
    firsts = rows[:, 0].copy()
    if peer is not None:
        starts = numpy.array([one.start for one in found], "u8")
        firsts -= starts[numbers]
    return Prepared(peer, kind, firsts, _core.step_of(firsts), lengths, found,
                    numbers)


@dataclass(eq=False)
class Group:
    """The part of a transfer between one pool and one window."""
    side: Any
    region: Region
    places: Any
    each: int | None
    pieces: Any


def _together(firsts, lengths):
    return numpy.ascontiguousarray(numpy.stack([firsts, lengths], 1))


def _group(local, remote, ours, theirs, of):
    """Create a group. of selects the descriptors, as a slice or indices."""
    firsts, offsets = local.firsts[of], remote.firsts[of]
    each = local.lengths if isinstance(local.lengths, int) else None
    if each is None:
        lengths = local.lengths[of]
        firsts, offsets = _together(firsts, lengths), _together(offsets,
                                                               lengths)
    pieces = _core.pieces_at(firsts, each, None, local.kind == "VRAM")
    return Group(ours.side, theirs, offsets, each, pieces)


def groups_of(local, remote):
    """Split a transfer into groups. Both lists have the same lengths."""
    if isinstance(local.numbers, int) and isinstance(remote.numbers, int):
        return [_group(local, remote, local.regions[local.numbers],
                       remote.regions[remote.numbers], slice(None))]
    # Group by the pool and by the peer's region.
    devices = numpy.array([one.device + 1 for one in local.regions], "i8")
    keys = (numpy.broadcast_to(devices[local.numbers], len(local.firsts))
            * len(remote.regions) + remote.numbers)
    order = numpy.argsort(keys, kind="stable")
    ends = numpy.flatnonzero(numpy.diff(keys[order])) + 1
    groups = []
    for of in numpy.split(order, ends):
        number = local.numbers if isinstance(
            local.numbers, int) else local.numbers[of[0]]
        other = remote.numbers if isinstance(
            remote.numbers, int) else remote.numbers[of[0]]
        groups.append(_group(local, remote, local.regions[number],
                             remote.regions[other], of))
    return groups


def first_part(each):
    """Return the number of pieces of `each` bytes in the first part."""
    return min(max(FIRST_BYTES // max(each, 1), FIRST_MIN), FIRST_MAX)


def parts_of(count, each):
    """Yield slices of `count` pieces of `each` bytes."""
    yield slice(0, first_part(each))
    begin, num = first_part(each), NEXT_PART
    while begin < count:
        # A short rest is added to the last part.
        end = begin + num if begin + 2 * num <= count else count
        yield slice(begin, end)
        begin, num = end, num * PART_GROWTH


def same(ours, theirs):
    """Return whether lengths are equal; one number is the length of all."""
    if isinstance(ours, int) and isinstance(theirs, int):
        return ours == theirs
    return bool(numpy.all(numpy.equal(ours, theirs)))


def checked(indices, count):
    """Return a copy of the indices. Raises IndexError for an index out of
    range."""
    # A negative index is a large unsigned number.
    if (indices.view(f"u{indices.itemsize}") >= count).any():
        raise IndexError
    return indices.copy()


class Parts:
    """The groups of a long transfer between one GPU and one region. Each part
    is looked up and posted while the GPU copies the earlier ones."""

    @staticmethod
    def fit(local, remote, count):
        return (local.kind == "VRAM" and count >= PARTED_MIN
                and all(isinstance(one, int) for prepared in (local, remote)
                        for one in (prepared.numbers, prepared.lengths)))

    def __init__(self, local, remote, ours, theirs):
        self._sides = ((local, checked(ours, len(local.firsts))),
                       (remote, checked(theirs, len(remote.firsts))))
        self._reader = local.reader()
        self._slices = list(parts_of(len(ours), local.lengths))
        self._made = []

    def __len__(self):
        return len(self._slices)

    def length(self):
        """Return the number of bytes in all parts."""
        prepared, indices = self._sides[0]
        return prepared.lengths * len(indices)

    def __iter__(self):
        for number, of in enumerate(self._slices):
            if number == len(self._made):
                self._made += groups_of(*[
                    prepared.select(indices[of], self._reader)
                    for prepared, indices in self._sides])
            yield self._made[number]


@dataclass(eq=False)
class Transfer:
    """Reads from or writes to several windows, as one transfer."""
    is_write: bool
    peer: Peer
    groups: Any  # a list, or Parts
    note: bytes
    count: int
    host: Side  # the side that sends notifications
    requests: list = field(default_factory=list)
    error: Error | None = None
    was_posted: bool = False
    begun: int = 0
    posted_after: int = 0
    ended_after: int = 0
    _lock: Any = field(default_factory=threading.Lock)
    _is_ending: bool = False
    _is_over: bool = True

    def post(self):
        self.begun = time.time_ns()
        self.was_posted, self.error = True, None
        self._is_ending = self._is_over = False
        self.requests = []
        travels = len(self.groups) == 1 and len(self.note) <= SHORT_NOTE
        tag = NOTIFY if self.note and travels else None
        try:
            for group in self.groups:
                window = self.peer.window(group.side, group.region)
                self.requests.append(window._post(
                    self.is_write, group.places, group.pieces, group.each,
                    tag, self.note if tag else b"", None))
        except Error as error:
            self.error = error
        self.posted_after = time.time_ns() - self.begun
        for request in self.requests:
            request._on_done = self._look
        self._look()

    def _look(self):
        """Check whether the transfer has ended. If so, send the notification,
        unless it was sent with the data. The state is set last, because other
        threads may read it at any time."""
        with self._lock:
            if self._is_ending or not all(one.done for one in self.requests):
                return
            self._is_ending = True
        self.ended_after = time.time_ns() - self.begun
        for one in self.requests:
            if one.status != 0 and self.error is None:
                self.error = Error(one.detail, one.status)
        if self.error is None and self.note and (
                len(self.groups) > 1 or len(self.note) > SHORT_NOTE):
            try:
                self.peer.notify(self.host, self.note)
            except Error as error:
                self.error = error
        self._is_over = True

    def state(self):
        if not self._is_over:
            return "PROC"
        return "ERR" if self.error is not None else "DONE"

    def cancel(self):
        for request in self.requests:
            request.cancel()

    def length(self):
        if isinstance(self.groups, Parts):
            return self.groups.length()
        return sum(group.pieces.length for group in self.groups)
