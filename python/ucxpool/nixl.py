"""Implements NIXL's agent on the pool's windows. A program written for NIXL
1.5 needs to change only one import.

    from ucxpool.nixl import nixl_agent, nixl_agent_config

docs/guide/nixl.md lists the differences. Settings come from the environment
(UCXPOOL_*). Between hosts, each process needs UCXPOOL_SECRET_FILE.
"""
import atexit
import enum
import logging
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from . import _address, _nixl
from ._errors import Error
from .ucxx import get_address

__all__ = ["DEFAULT_COMM_PORT", "nixlBackendError", "nixlInvalidParamError",
           "nixlMismatchError", "nixlNoTelemetryError", "nixlNotFoundError",
           "nixlNotPostedError", "nixlNotSupportedError", "nixlRegDList",
           "nixlRepostActiveError", "nixlXferDList", "nixlXferTelemetry",
           "nixl_agent", "nixl_agent_config", "nixl_backend_handle",
           "nixl_prepped_dlist_handle", "nixl_thread_sync_t",
           "nixl_xfer_handle"]

DEFAULT_COMM_PORT = 8888
nixl_backend_handle = int

_log = logging.getLogger("ucxpool.nixl")
_BACKEND = "UCX"
_KINDS = {"DRAM": "DRAM", "VRAM": "VRAM", "cpu": "DRAM", "cuda": "VRAM"}
_MEM_TYPES = ["DRAM_SEG", "VRAM_SEG"]
# The time in seconds for a peer to release deregistered memory, and for a
# released transfer to end.
_LET_GO = 10.0
# The pause between two checks while a thread makes progress, in seconds.
_PAUSE = 0.0002


# --- exceptions ---------------------------------------------------------------

class nixlNotFoundError(Error, LookupError):
    """The memory is not registered, or the agent is unknown."""


class nixlInvalidParamError(Error, ValueError):
    """Lists do not match, or an index is out of range."""


class nixlMismatchError(Error, ValueError):
    """The metadata is invalid."""


class nixlNotPostedError(Error):
    """The transfer was not posted."""


class nixlRepostActiveError(Error):
    """The transfer is in progress."""


class nixlNoTelemetryError(Error):
    """The agent's configuration does not set capture_telemetry."""


class nixlNotSupportedError(Error, NotImplementedError):
    """This agent does not support the call."""


class nixlBackendError(Error):
    """The library failed; the text contains the reason."""


# --- descriptors --------------------------------------------------------------

class _Descriptors:
    _width = 3

    def __init__(self, mem_type: str, descs: Any = ()) -> None:
        self._kind = _kind_of(mem_type)
        self._rows = _rows_of(descs)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        address, length, device = map(int, self._rows[number])
        return (address, length, device, b"")[:self._width]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return (type(self) is type(other) and isinstance(other, _Descriptors)
                and self._kind == other._kind
                and numpy.array_equal(self._rows, other._rows))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} in {self._kind}>"

    def descCount(self) -> int:
        """Return the number of descriptors."""
        return len(self)

    def isEmpty(self) -> bool:
        """Return whether the list is empty."""
        return len(self) == 0

    def getType(self) -> str:
        """Return "DRAM" or "VRAM"."""
        return self._kind

    def append(self, desc: tuple[Any, ...]) -> None:
        """Add a descriptor."""
        self._rows = numpy.concatenate([self._rows, _rows_of([desc])])

    addDesc = append

    def index(self, desc: tuple[Any, ...]) -> int:
        """Return the position of a descriptor, or -1."""
        found = numpy.flatnonzero((self._rows == _rows_of([desc])).all(1))
        return int(found[0]) if len(found) else -1

    def remDesc(self, number: int) -> None:
        """Remove the descriptor at this position."""
        self._rows = numpy.delete(self._rows, number, 0)

    def clear(self) -> None:
        """Remove all descriptors."""
        self._rows = self._rows[:0]


class nixlXferDList(_Descriptors):
    """Descriptors of a transfer, created by get_xfer_descs(): (address,
    length, device)."""


class nixlRegDList(_Descriptors):
    """Descriptors of memory to register, created by get_reg_descs(): (address,
    length, device, b"")."""

    _width = 4

    def trim(self) -> nixlXferDList:
        """Return the same descriptors for a transfer."""
        return nixlXferDList(self._kind, self._rows)


def _kind_of(mem_type: str) -> str:
    if mem_type not in _KINDS:
        raise nixlNotSupportedError(
            f"memory type {mem_type!r} is not supported; use DRAM or VRAM")
    return _KINDS[mem_type]


def _rows_of(descs: Any) -> Any:
    """Return rows of (address, length, device); an array is converted as a
    whole."""
    if not isinstance(descs, numpy.ndarray):
        descs = [tuple(one)[:3] for one in descs] if len(
            descs) and len(descs[0]) != 3 else descs
    rows = numpy.array(descs, "u8")
    return rows.reshape(-1, 3)


def _is_tensor(one: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(one, torch.Tensor)


def _of_tensors(tensors: Sequence[Any]) -> tuple[str, Any] | None:
    """Return the tensors' memory type and rows; None if they are
    unsuitable."""
    if any(one.device != tensors[0].device or not one.is_contiguous()
           for one in tensors):
        _log.error("tensors in a list must be contiguous and on one device")
        return None
    device = tensors[0].get_device()
    return ("DRAM" if device == -1 else "VRAM",
            [(one.data_ptr(), one.numel() * one.element_size(),
              max(device, 0)) for one in tensors])


def _strided(array: Any) -> Any:
    """Expand rows of (address, length, device, stride, count)."""
    counts = array[:, 4].astype("i8")
    numbers = numpy.arange(counts.sum()) - numpy.repeat(
        numpy.cumsum(counts) - counts, counts)
    rows = numpy.repeat(array[:, :3].astype("u8"), counts, 0)
    rows[:, 0] += (numpy.repeat(array[:, 3].astype("u8"), counts)
                   * numbers.astype("u8"))
    return rows


# --- handles ------------------------------------------------------------------

class nixl_thread_sync_t(enum.Enum):
    """How threads share an agent. This has no effect: any thread may use any
    agent at any time."""

    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2
    NIXL_THREAD_SYNC_DEFAULT = 3


class nixl_prepped_dlist_handle:
    """A list of descriptors after their lookup, created by
    prep_xfer_dlist()."""

    def __init__(self, agent: Any, value: Any) -> None:
        self._agent = agent
        self._value = value

    def release(self) -> None:
        """Release the list. Transfers that were created from it are not
        affected."""
        self._value = None


class nixl_xfer_handle:
    """A transfer, created by make_prepped_xfer() or initialize_xfer()."""

    def __init__(self, agent: Any, value: Any) -> None:
        self._agent = agent
        self._value = value

    def release(self) -> None:
        """Cancel the transfer if it is in progress, and release it. After this
        call returns, the transfer no longer accesses its memory. Raises
        nixlBackendError if the transfer does not end within ten seconds."""
        transfer = self._value
        if transfer is not None:
            transfer.cancel()
            self._agent._until(lambda: transfer.state() != "PROC",
                               "the transfer has not ended")
            self._value = None

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if _is_finalizing():
            return  # the pools are closed
        try:
            self.release()
        except Error as error:
            _log.error("cannot release a dropped transfer: %s", error)


class nixlXferTelemetry:
    """Statistics of a transfer; times are in microseconds."""

    def __init__(self, transfer: Any) -> None:
        self.startTime = transfer.begun // 1000
        self.postDuration = transfer.posted_after // 1000
        self.xferDuration = transfer.ended_after // 1000
        self.totalBytes = transfer.length()
        self.descCount = transfer.count


# --- the agent ----------------------------------------------------------------

class nixl_agent_config:
    """The configuration of an agent.

    enable_prog_thread    make progress in a thread; otherwise only the
                          agent's methods make progress
    enable_listen_thread  let peers fetch and send metadata, at listen_port
    capture_telemetry     enable get_xfer_telemetry()
    listen_address        an address or a network interface of this host to
                          listen on, for metadata and transfers. None: the
                          environment variable LIBUCXPOOL_LISTEN. If that is
                          not set: the address of ucxpool.ucxx.get_address()
                          for transfers; for metadata, all addresses if there
                          is a secret, otherwise 127.0.0.1
    num_threads           has no effect
    backends              ["UCX"]; other names are ignored with a warning
    sync_mode             has no effect"""

    def __init__(self, enable_prog_thread: bool = True,
                 enable_listen_thread: bool = False,
                 listen_port: int = DEFAULT_COMM_PORT,
                 capture_telemetry: bool = False, num_threads: int = 0,
                 backends: list[str] = [_BACKEND],
                 sync_mode: nixl_thread_sync_t | None = None, *,
                 listen_address: str | None = None) -> None:
        if sync_mode is not None and not isinstance(sync_mode,
                                                    nixl_thread_sync_t):
            raise TypeError(f"sync_mode is a {type(sync_mode).__name__}; it "
                            "must be a nixl_thread_sync_t")
        self.backends = backends
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.listen_address = listen_address
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode


_agents: "weakref.WeakSet[nixl_agent]" = weakref.WeakSet()


def _close_all() -> None:
    for agent in list(_agents):
        agent._close()


# This runs before the pools are closed, because the agents' threads use them.
atexit.register(_close_all)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _note(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else bytes(message)


class nixl_agent:
    """An agent registers memory, lets peers read and write it, and reads and
    writes the memory of peers. All methods may be called from any thread.

    agent_name       the name under which peers know the agent
    nixl_conf        a nixl_agent_config, or None
    instantiate_all  has no effect: there is one backend"""

    def __init__(self, agent_name: str,
                 nixl_conf: nixl_agent_config | None = None,
                 instantiate_all: bool = False) -> None:
        config = nixl_conf or nixl_agent_config()
        self.name = agent_name
        self.notifs: dict[str, list[bytes]] = {}
        self.backends: dict[str, nixl_backend_handle] = {}
        self._config = config
        self._identity = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._regions = _nixl.Regions()
        self._peers: dict[str, Any] = {}
        self._inboxes: dict[Any, Any] = {}
        self._asked: dict[str, Any] = {}
        self._notes: dict[str, list[bytes]] = {}
        self._sides: dict[int, Any] = {}
        self._host = self._side(_nixl.HOST)
        if config.enable_listen:
            where = _address.chosen(config.listen_address) or (
                "127.0.0.1" if get_address() == "127.0.0.1" else "")
            self._host.listeners.append(
                self._host.pool.listen(_address.at(where, config.port)))
            self._host.start()
        for backend in config.backends:
            if backend == _BACKEND:
                self.create_backend(backend)
            else:
                _log.warning("there is no backend %s", backend)
        _agents.add(self)

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # When the interpreter exits, _close_all() has run before, and modules
        # that _close() needs may be empty.
        if not _is_finalizing():
            self._close()

    def _close(self) -> None:
        for side in list(getattr(self, "_sides", {}).values()):
            side.close()

    # --- progress

    def _side(self, device: int) -> Any:
        with self._lock:
            if device not in self._sides:
                side = _nixl.Side(
                    device, _address.chosen(self._config.listen_address)
                    or get_address(), self._handle_events)
                self._sides[device] = side
                if self._config.enable_pthread:
                    side.start()
            return self._sides[device]

    def _progress(self) -> None:
        for side in list(self._sides.values()):
            if not side.pool.closed:
                events = side.pool._progress()
                if events:
                    self._handle_events(side, events)

    def _handle_events(self, side: Any, events: list[tuple[Any, int]]) -> None:
        """Handle new peers and messages."""
        with self._lock:
            side.pool._hand_out(events)
            channels = side.accepted() + [
                one for one, _ in events if hasattr(one, "_take")] + [
                one for one, inbox in self._inboxes.items()
                if not inbox.is_empty()]
            for channel in channels:
                try:
                    self._receive(channel)
                except Error as error:
                    _log.warning("a peer has disconnected: %s", error)
            for peer in list(self._peers.values()):
                peer.resend(self._host)

    def _receive(self, channel: Any) -> None:
        """Receive the channel's messages, including those that arrived before
        it ended."""
        inbox = self._inboxes.get(channel)
        if inbox is None:
            inbox = self._inboxes[channel] = _nixl.Inbox()
        try:
            message = None if channel.closed else channel._take(0, 0)
            while message is not None:
                inbox.add(message)
                message = channel._take(0, 0)
        finally:
            self._open(channel, inbox)
            if channel.ended and inbox.is_empty():
                self._inboxes.pop(channel, None)

    def _open(self, channel: Any, inbox: Any) -> None:
        for tag, what in inbox.take():
            if tag == _nixl.HELLO:
                inbox.name = what.decode(errors="replace")
            elif tag == _nixl.NOTIFY and inbox.name is not None:
                self._notes.setdefault(inbox.name, []).append(what)
            elif tag == _nixl.METADATA:
                self._add_metadata(what)
            elif tag == _nixl.FETCH:
                channel.send(self.get_agent_metadata(), tag=_nixl.METADATA)
            elif tag == _nixl.FORGET:
                self.remove_remote_agent(what.decode(errors="replace"))

    def _add_metadata(self, metadata: bytes) -> None:
        try:
            self.add_remote_agent(metadata)
        except Error as error:
            _log.warning("invalid metadata of a peer: %s", error)

    def _collect(self) -> dict[str, list[bytes]]:
        self._progress()
        with self._lock:
            for side in self._sides.values():
                self._handle_events(side, [])
            notes, self._notes = self._notes, {}
        return notes

    def _until(self, look: Any, what: str,
               limit: float | None = _LET_GO) -> None:
        """Progress until look() returns true. This also drives other agents of
        this process, which may have no thread."""
        until = time.monotonic() + (limit or 0)
        while not look():
            if limit is not None and time.monotonic() > until:
                raise nixlBackendError(f"{what} after {limit} s")
            for agent in list(_agents):
                agent._progress()
            if self._config.enable_pthread:
                time.sleep(_PAUSE)

    # --- backends

    def get_plugin_list(self) -> list[str]:
        """Return ["UCX"], the only backend."""
        return [_BACKEND]

    def get_plugin_mem_types(self, backend: str) -> list[str]:
        """Return the memory types that a backend supports."""
        return list(_MEM_TYPES) if backend == _BACKEND else []

    def get_plugin_params(self, backend: str) -> dict[str, str]:
        """Return {}: settings come from the environment."""
        return {}

    def get_backend_mem_types(self, backend: str) -> list[str]:
        """Same as get_plugin_mem_types()."""
        return list(_MEM_TYPES) if backend in self.backends else []

    def get_backend_params(self, backend: str) -> dict[str, str]:
        """Same as get_plugin_params()."""
        return {}

    def create_backend(self, backend: str,
                       initParams: dict[str, str] = {}) -> None:
        """Accept "UCX"; raises nixlNotFoundError for any other backend."""
        if backend != _BACKEND:
            raise nixlNotFoundError(f"there is no backend {backend}")
        self.backends[backend] = 1

    # --- memory

    def get_xfer_descs(self, descs: Any,
                       mem_type: str | None = None) -> nixlXferDList | None:
        """Return descriptors of a transfer. They are created from a tensor, a
        list of tensors, or rows of (address, length, device) with a memory
        type, as a NumPy array or as tuples. A nixlXferDList is returned
        unchanged. For any other argument the method logs an error and returns
        None."""
        if isinstance(descs, nixlXferDList):
            return descs
        made = self._described(descs, mem_type, 3)
        return None if made is None else nixlXferDList(*made)

    def get_reg_descs(self, descs: Any,
                      mem_type: str | None = None) -> nixlRegDList | None:
        """Return descriptors for registration, from the same arguments as
        get_xfer_descs(). Tuples have a fourth part, which is ignored."""
        if isinstance(descs, nixlRegDList):
            return descs
        made = self._described(descs, mem_type, 4)
        return None if made is None else nixlRegDList(*made)

    @staticmethod
    def _described(descs: Any, mem_type: str | None,
                   width: int) -> tuple[str, Any] | None:
        if _is_tensor(descs):
            return _of_tensors([descs])
        if isinstance(descs, _Descriptors):
            _log.error("%s is the wrong kind of list here",
                       type(descs).__name__)
            return None
        if len(descs) and _is_tensor(descs[0]):
            return _of_tensors(descs)
        if mem_type is None:
            _log.error("descriptors need a memory type unless they are tensors")
            return None
        if isinstance(descs, numpy.ndarray):
            fits = descs.ndim == 2 and descs.shape[1] == 3
        else:
            fits = len(descs) > 0 and isinstance(
                descs[0], tuple) and len(descs[0]) == width
        if not fits:
            _log.error("descriptors must be tuples of %d, or an array with "
                       "three columns", width)
            return None
        return mem_type, descs

    def get_serialized_descs(self, descs: Any) -> bytes:
        """Return a list of descriptors as bytes."""
        return b" ".join([type(descs).__name__.encode(), descs._kind.encode(),
                          descs._rows.tobytes()])

    def deserialize_descs(self, serialized_descs: bytes) -> Any:
        """Return the list of descriptors from bytes."""
        try:
            name, kind, rows = bytes(serialized_descs).split(b" ", 2)
            made = {b"nixlXferDList": nixlXferDList,
                    b"nixlRegDList": nixlRegDList}[name]
            return made(kind.decode(), numpy.frombuffer(rows, "u8").reshape(
                -1, 3))
        except (KeyError, ValueError):
            raise nixlMismatchError("invalid serialized descriptors") from None

    def register_memory(self, reg_list: Any, mem_type: str | None = None,
                        backends: list[str] = []) -> nixlRegDList:
        """Register memory. The memory must stay allocated until it is
        deregistered. Takes the same arguments as get_reg_descs(). Raises
        nixlBackendError if the library cannot register it."""
        descs = self.get_reg_descs(reg_list, mem_type)
        if descs is None:
            raise nixlInvalidParamError("no descriptors to register")
        made: list[Any] = []
        try:
            for address, length, device, _ in descs:
                made.append(self._register(descs._kind, address, length,
                                           device))
        except Error as error:
            for region in made:
                self._forget(region)
            raise nixlBackendError(str(error)) from error
        return descs

    def _register(self, kind: str, address: int, length: int,
                  number: int) -> Any:
        device = _nixl.device_of(kind, number)
        region = _nixl.Region(kind, device, address, length)
        region.side = self._side(device)
        if length < 1:
            raise nixlInvalidParamError("cannot register memory of 0 bytes")
        region.window = region.side.pool.window(_nixl.buffer_at(region))
        region.blob = region.window.export(read=True, write=True)
        with self._lock:
            self._regions.add(region)
        return region

    def _forget(self, region: Any) -> None:
        window = region.window
        self._until(lambda: window._revoke_for(0),
                    "a peer still accesses the memory")
        with self._lock:
            self._regions.remove(region)
        window._release()

    def deregister_memory(self, dereg_list: nixlRegDList,
                          backends: list[str] = []) -> None:
        """Revoke the peers' access to the memory. Their transfers in progress
        fail. After this call returns, the memory may be freed. Raises
        nixlBackendError if a peer has not released it within ten seconds."""
        found = []
        for address, length, device, _ in dereg_list:
            key = (dereg_list._kind, _nixl.device_of(
                dereg_list._kind, device), address, length)
            found.append(self._regions.get(key))
        if None in found:
            raise nixlNotFoundError("this memory is not registered")
        for region in found:
            self._forget(region)

    def query_memory(self, reg_list: Any, backend: str,
                     mem_type: str | None = None) -> list[Any]:
        """Raises nixlNotSupportedError: this method is for files."""
        raise nixlNotSupportedError("query_memory() is for files")

    # --- metadata

    def get_agent_metadata(self) -> bytes:
        """Return the metadata that a peer needs to connect, and to read and
        write the memory that is registered now. Keep the metadata secret: any
        process that has it can connect and access this memory."""
        with self._lock:
            return _nixl.write_metadata(self.name, self._identity,
                                        self._sides.values(), self._regions,
                                        True)

    def get_partial_agent_metadata(self, descs: nixlRegDList,
                                   inc_conn_info: bool = False,
                                   backends: list[str] = []) -> bytes:
        """Return metadata for the memory of these descriptors only."""
        with self._lock:
            wanted = {(descs._kind, _nixl.device_of(descs._kind, device),
                       address, length)
                      for address, length, device, _ in descs}
            regions = [one for one in self._regions if one.key() in wanted]
            if len(regions) < len(wanted):
                raise nixlNotFoundError("this memory is not registered")
            return _nixl.write_metadata(self.name, self._identity,
                                        self._sides.values(), regions, False)

    def add_remote_agent(self, metadata: bytes) -> bytes:
        """Let this agent read and write a peer's memory. Returns the peer's
        name, as bytes. The agent connects when it needs a connection. Newer
        metadata of a peer is added to the metadata already known. Raises
        nixlMismatchError if the metadata is invalid."""
        try:
            name, identity, *known = _nixl.read_metadata(metadata)
        except ValueError as error:
            raise nixlMismatchError(str(error)) from None
        if name == self.name:
            raise nixlInvalidParamError(
                "a remote agent has the name of this agent")
        with self._lock:
            peer = self._peers.get(name)
            if peer is not None and peer.identity != identity:
                self.remove_remote_agent(name)
                peer = None
            if peer is None:
                peer = _nixl.Peer(name, identity, self.name)
                self._peers[name] = peer
            peer.update(*known)
        return name.encode()

    def remove_remote_agent(self, agent: str | bytes) -> None:
        """Forget a peer and close the channels to it."""
        with self._lock:
            peer = self._peers.pop(_text(agent), None)
            if peer is not None:
                peer.remove()

    def make_connection(self, remote_agent: str | bytes,
                        backends: list[str] = []) -> None:
        """Start to connect to the peer now."""
        peer = self._peer(remote_agent)
        with self._lock:
            for device in peer.sides:
                peer.channel(self._host, device)

    def check_remote_metadata(self, agent: str | bytes,
                              descs: nixlXferDList | None = None) -> bool:
        """Return True if the peer is known. If descs is given, the peer's
        metadata must also contain this memory."""
        self._collect_into_notes()
        try:
            peer = self._peer(agent)
            if descs is not None and len(descs):
                peer.regions.find(descs._kind, descs._rows)
        except LookupError:
            return False
        return True

    def _collect_into_notes(self) -> None:
        """Handle the messages that have arrived. Notifications are kept until
        they are fetched."""
        notes = self._collect()
        with self._lock:
            for name, newer in self._notes.items():
                notes.setdefault(name, []).extend(newer)
            self._notes = notes

    def send_local_metadata(self, ip_addr: str = "",
                            port: int = DEFAULT_COMM_PORT) -> None:
        """Send metadata to the peer that listens at this address."""
        self._send_to(ip_addr, port, _nixl.METADATA, self.get_agent_metadata())

    def send_partial_agent_metadata(
            self, descs: nixlRegDList, inc_conn_info: bool = False,
            backends: list[str] = [], ip_addr: str = "",
            port: int = DEFAULT_COMM_PORT, label: str = "") -> None:
        """Send metadata for part of the memory."""
        self._send_to(ip_addr, port, _nixl.METADATA,
                      self.get_partial_agent_metadata(descs))

    def fetch_remote_metadata(self, remote_agent: str, ip_addr: str = "",
                              port: int = DEFAULT_COMM_PORT,
                              label: str = "") -> None:
        """Request metadata from the peer that listens at this address.
        check_remote_metadata() returns whether it has arrived."""
        self._send_to(ip_addr, port, _nixl.FETCH, b"")

    def invalidate_local_metadata(self, ip_addr: str = "",
                                  port: int = DEFAULT_COMM_PORT) -> None:
        """Ask the peer that listens at this address to forget this agent."""
        self._send_to(ip_addr, port, _nixl.FORGET, self.name.encode())

    def _send_to(self, host: str, port: int, tag: int, what: bytes) -> None:
        if not host:
            raise nixlNotSupportedError(
                "there is no central metadata server; pass a peer's address")
        where = _address.at(host, port)
        with self._lock:
            channel = self._asked.get(where)
            if channel is None or channel.ended:
                channel = self._host.pool._connect_channel(where)
                self._asked[where] = channel
            channel.send(what, tag=tag)

    def _peer(self, name: str | bytes) -> Any:
        peer = self._peers.get(_text(name))
        if peer is None:
            raise nixlNotFoundError(
                f"agent {_text(name)} is unknown; call add_remote_agent() "
                "first")
        return peer

    # --- transfers

    def prep_xfer_dlist(self, agent_name: str | bytes, xfer_list: Any,
                        mem_type: str | None = None,
                        backends: list[str] = []) -> nixl_prepped_dlist_handle:
        """Look up descriptors once for many transfers. agent_name is the agent
        that has the memory: "NIXL_INIT_AGENT" or "" for this agent, or the
        name of a peer. If agent_name is this agent's own name, the agent is
        treated as its own peer. In an array of five columns (address, length,
        device, stride, count), each row stands for `count` descriptors. Raises
        nixlNotFoundError for memory that is not registered."""
        if (isinstance(xfer_list, numpy.ndarray) and xfer_list.ndim == 2
                and xfer_list.shape[1] == 5):
            if mem_type is None:
                raise ValueError("a strided array of descriptors needs a "
                                 "memory type")
            xfer_list = _strided(xfer_list)
        descs = self.get_xfer_descs(xfer_list, mem_type)
        if descs is None or len(descs) == 0:
            raise nixlInvalidParamError("no descriptors")
        name = _text(agent_name)
        is_local = name in ("", "NIXL_INIT_AGENT")
        return nixl_prepped_dlist_handle(
            self, self._prepare(descs, None if is_local else name))

    def _prepare(self, descs: nixlXferDList, name: str | None) -> Any:
        with self._lock:
            peer = None
            if name == self.name:
                peer = self._self()
            elif name is not None:
                peer = self._peer(name)
            regions = self._regions if peer is None else peer.regions
            try:
                return _nixl.prepare(regions, descs._kind, descs._rows, peer)
            except LookupError:
                raise nixlNotFoundError(
                    "some of this memory is not registered"
                    + (f" by {name}" if name else "")) from None

    def _self(self) -> Any:
        """Return this agent as its own peer."""
        _, identity, *known = _nixl.read_metadata(self.get_agent_metadata())
        peer = self._peers.get(self.name)
        if peer is None:
            peer = _nixl.Peer(self.name, identity, self.name)
            self._peers[self.name] = peer
        peer.update(*known)
        return peer

    def make_prepped_xfer(self, operation: str,
                          local_xfer_side: nixl_prepped_dlist_handle,
                          local_indices: Any,
                          remote_xfer_side: nixl_prepped_dlist_handle,
                          remote_indices: Any, notif_msg: str | bytes = b"",
                          backends: list[str] = [],
                          skip_desc_merge: bool = False) -> nixl_xfer_handle:
        """Create a transfer ("READ" or "WRITE") of selected descriptors of two
        lists. The indices are lists or arrays. With notif_msg the peer is
        notified when all data has arrived. Raises nixlInvalidParamError if the
        descriptors do not match."""
        local, remote = local_xfer_side._value, remote_xfer_side._value
        if local is None or remote is None:
            raise nixlInvalidParamError("a list was already released")
        try:
            return self._made(operation, local, remote, notif_msg,
                              (_nixl.indices_of(local_indices),
                               _nixl.indices_of(remote_indices)))
        except IndexError:
            raise nixlInvalidParamError(
                "an index is out of range of its list") from None

    def initialize_xfer(self, operation: str, local_descs: nixlXferDList,
                        remote_descs: nixlXferDList,
                        remote_agent: str | bytes,
                        notif_msg: str | bytes = b"",
                        backends: list[str] = []) -> nixl_xfer_handle:
        """Create a transfer of all descriptors of two lists."""
        return self._made(operation, self._prepare(local_descs, None),
                          self._prepare(remote_descs, _text(remote_agent)),
                          notif_msg)

    def _made(self, operation: str, local: Any, remote: Any,
              note: str | bytes, indices: Any = None) -> nixl_xfer_handle:
        """Create a transfer. indices selects descriptors of both lists; None
        selects all."""
        is_write = {"WRITE": True, "READ": False}[operation]
        if local.peer is not None or remote.peer is None:
            raise nixlInvalidParamError(
                "the first list must be of this agent, the second of a peer")
        count, other = [len(one) for one in
                        indices or (local.firsts, remote.firsts)]
        if count != other or not count:
            raise nixlInvalidParamError(
                f"the lists have different lengths or are empty: {count} local "
                f"and {other} remote descriptors")
        in_parts = indices is not None and _nixl.Parts.fit(local, remote, count)
        if indices is not None and not in_parts:
            local, remote = [one.select(of, local.reader()) for one, of in
                             zip((local, remote), indices)]
        if not _nixl.same(local.lengths, remote.lengths):
            raise nixlInvalidParamError(
                "local and remote descriptors have different lengths")
        groups = (_nixl.Parts(local, remote, *indices) if in_parts
                  else _nixl.groups_of(local, remote))
        return nixl_xfer_handle(self, _nixl.Transfer(
            is_write, remote.peer, groups, _note(note), count, self._host))

    def _transfer_of(self, handle: nixl_xfer_handle) -> Any:
        if handle._value is None:
            raise nixlInvalidParamError("this transfer was already released")
        return handle._value

    def transfer(self, handle: nixl_xfer_handle,
                 notif_msg: str | bytes = b"") -> str:
        """Post the transfer. Returns "DONE", "PROC" (in progress) or "ERR". A
        transfer that has ended may be posted again."""
        transfer = self._transfer_of(handle)
        with self._lock:
            if transfer.state() == "PROC":
                raise nixlRepostActiveError("this transfer is in progress")
            if transfer.peer.is_removed:
                raise nixlNotFoundError(
                    f"the agent {transfer.peer.name} was removed")
            if notif_msg:
                transfer.note = _note(notif_msg)
            transfer.post()
        return str(transfer.state())

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        """Return "DONE", "PROC" or "ERR"; get_xfer_error() returns the
        reason."""
        transfer = self._transfer_of(handle)
        if not transfer.was_posted:
            raise nixlNotPostedError("this transfer was not posted")
        if transfer.state() == "PROC":
            self._progress()
        return str(transfer.state())

    def get_xfer_error(self, handle: nixl_xfer_handle) -> str | None:
        """Return why a transfer failed, as text. NIXL has no such method."""
        error = self._transfer_of(handle).error
        return None if error is None else str(error)

    def get_xfer_telemetry(self,
                           handle: nixl_xfer_handle) -> nixlXferTelemetry:
        """Return the statistics of a transfer. Raises nixlNoTelemetryError if
        the agent's configuration does not set capture_telemetry."""
        if not self._config.capture_telemetry:
            raise nixlNoTelemetryError("this agent does not capture telemetry")
        return nixlXferTelemetry(self._transfer_of(handle))

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        """Return "UCX"."""
        self._transfer_of(handle)
        return _BACKEND

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        """Same as handle.release()."""
        handle.release()

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        """Same as handle.release()."""
        handle.release()

    # --- notifications

    def send_notif(self, remote_agent_name: str | bytes,
                   notif_msg: str | bytes,
                   backend: str | None = None) -> None:
        """Send a notification that is not part of a transfer. If there is no
        channel to the peer, the agent connects, and the call returns when the
        peer has answered. Raises nixlBackendError if the peer cannot be
        reached, or if an earlier notification to it could not be sent; this
        includes notifications of transfers."""
        peer = self._peer(remote_agent_name)
        self._progress()
        peer.notify(self._host, _note(notif_msg))
        self._until(lambda: not peer.is_connecting(self._host), "", None)
        failed = peer.take_failed()
        if failed:
            raise nixlBackendError(
                f"{len(failed)} notifications to {peer.name} were not sent: "
                f"{failed[-1]}")

    def get_new_notifs(self,
                       backends: list[str] = []) -> dict[str, list[bytes]]:
        """Return the notifications since the last call, as lists by the name
        of the sending agent."""
        return self._collect()

    def update_notifs(self,
                      backends: list[str] = []) -> dict[str, list[bytes]]:
        """Add new notifications to `notifs`, and return all that were not
        removed."""
        newer = self._collect()
        with self._lock:
            notifs = {name: list(notes) for name, notes in self.notifs.items()}
            for name, notes in newer.items():
                notifs.setdefault(name, []).extend(notes)
            self.notifs = notifs
        return notifs

    def check_remote_xfer_done(self, remote_agent_name: str | bytes,
                               lookup_tag: bytes, backends: list[str] = [],
                               tag_is_prefix: bool = True) -> bool:
        """Return whether a notification has arrived that begins with
        lookup_tag, or contains it. Such a notification is removed from
        `notifs`."""
        self.update_notifs()
        with self._lock:
            notes = self.notifs.get(_text(remote_agent_name), [])
            for note in notes:
                if (note.startswith(lookup_tag) if tag_is_prefix
                        else lookup_tag in note):
                    notes.remove(note)
                    return True
        return False
