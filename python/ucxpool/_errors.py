"""libucxpool's errors as exceptions. There is one class for each status, which
is also a subclass of the builtin exception that matches it."""
import errno as _errno


class Error(RuntimeError):
    """An error of libucxpool. str() returns what failed, on which object, and
    what to change; status is the value of ucxpool_status_t."""

    status: int | None = None

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        if status is not None:
            self.status = status


class InvalidParameterError(Error, ValueError):
    """An argument or a setting is invalid."""
    status = -1


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""
    status = -2


class NoBlocksError(Error, MemoryError):
    """There are no free blocks, or not enough of them."""
    status = -3


class UnsupportedError(Error, NotImplementedError):
    """This build, this UCX or this machine does not support the operation."""
    status = -4


class InputOutputError(Error, OSError):
    """The operating system or UCX failed."""
    status = -5


class CanceledError(Error):
    """This side or the peer has canceled the operation. A task that is
    canceled gets asyncio.CancelledError as usual."""
    status = -6


class TimedOutError(Error, TimeoutError):
    """The timeout expired."""
    status = -7


class PeerLostError(Error, ConnectionError):
    """The peer died or cannot be reached, or the channel failed at the peer."""
    status = -8


class RefusedError(Error):
    """The peer refused the message; the text contains its reason."""
    status = -9


class TruncatedError(Error, BufferError):
    """The message is longer than the buffers that were passed for it."""
    status = -10


class NoMessageError(Error):
    """No matching message has arrived."""
    status = -11


class BusyError(Error):
    """Events are pending."""
    status = -12


class NotPermittedError(Error, PermissionError):
    """The operation is not allowed, or the secret is wrong."""
    status = -13


class ProtocolError(Error, ConnectionError):
    """The peer uses another protocol version, or violated the protocol."""
    status = -14


class ChecksumError(Error, OSError):
    """Data was corrupted in transit, or changed while it was sent."""
    status = -15


class AddressInUseError(Error, OSError):
    """The port is in use."""
    status = -16

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail, status)
        self.errno = _errno.EADDRINUSE


class ClosedError(Error, ConnectionError):
    """The channel or the pool is closed."""
    status = -17


class LimitError(Error, ValueError):
    """A limit of this side or of the peer was exceeded."""
    status = -18


__all__ = ["Error", "InvalidParameterError", "OutOfMemoryError",
           "NoBlocksError", "UnsupportedError", "InputOutputError",
           "CanceledError", "TimedOutError", "PeerLostError", "RefusedError",
           "TruncatedError", "NoMessageError", "BusyError",
           "NotPermittedError", "ProtocolError", "ChecksumError",
           "AddressInUseError", "ClosedError", "LimitError"]

_BY_STATUS = {kind.status: kind for kind in list(globals().values())
              if isinstance(kind, type) and issubclass(kind, Error)
              and kind.status is not None}


def of_status(status, detail):
    """Return the exception for a status."""
    return _BY_STATUS.get(status, Error)(detail, status)
