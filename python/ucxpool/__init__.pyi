from ._errors import *
from ._heap import Heap as Heap, Segment as Segment
from ._pool import (Batch as Batch, Channel as Channel,
                    Listener as Listener, Message as Message, Operation as Operation,
                    Pieces as Pieces, Pool as Pool,
                    RemoteWindow as RemoteWindow, Transfer as Transfer,
                    Window as Window)

__all__ = ["Error", "InvalidParameterError", "OutOfMemoryError",
           "NoBlocksError", "UnsupportedError", "InputOutputError",
           "CanceledError", "TimedOutError", "PeerLostError", "RefusedError",
           "TruncatedError", "NoMessageError", "BusyError",
           "NotPermittedError", "ProtocolError", "ChecksumError",
           "AddressInUseError", "ClosedError", "LimitError",
           "Batch", "Channel", "Listener", "Message", "Operation", "Pieces",
           "Pool", "RemoteWindow", "Transfer", "Window", "Heap", "Segment",
           "heap", "heap_stats", "library_path", "ucx_version", "version"]

__version__: str

def heap(device: int | None = 0) -> Heap: ...
def heap_stats(device: int | None = 0) -> dict[str, int]: ...
def library_path() -> str: ...
def version() -> str: ...
def ucx_version() -> tuple[tuple[int, int, int], str]: ...
