"""What libucxpool says when something fails, as exceptions: one for each
status, which is also the builtin that fits."""
import errno as _errno


class Error(RuntimeError):
    """What libucxpool says: str() has what failed, on what, and what to
    change; status is the number of ucxpool_status_t."""

    status: int | None = None

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        if status is not None:
            self.status = status


class InvalidParameterError(Error, ValueError):
    """An argument or a setting is wrong."""
    status = -1


class OutOfMemoryError(Error, MemoryError):
    """There is not so much memory."""
    status = -2


class NoBlocksError(Error, MemoryError):
    """No block, or too few of them, is free."""
    status = -3


class UnsupportedError(Error, NotImplementedError):
    """Not possible with this build, this UCX or this machine."""
    status = -4


class InputOutputError(Error, OSError):
    """The operating system or UCX failed."""
    status = -5


class CanceledError(Error):
    """Ended by a cancel, here or by the peer. A task that is cancelled gets
    asyncio.CancelledError as ever."""
    status = -6


class TimedOutError(Error, TimeoutError):
    """The deadline passed."""
    status = -7


class PeerLostError(Error, ConnectionError):
    """The peer died, or cannot be reached."""
    status = -8


class RefusedError(Error):
    """The peer refused the message; the text has its reason."""
    status = -9


class TruncatedError(Error, BufferError):
    """The message is longer than the buffers given for it."""
    status = -10


class NoMessageError(Error):
    """Nothing that matches has arrived."""
    status = -11


class BusyError(Error):
    """Events are pending."""
    status = -12


class NotPermittedError(Error, PermissionError):
    """Not allowed, or the secret is wrong."""
    status = -13


class ProtocolError(Error, ConnectionError):
    """The peer speaks another version, or nonsense."""
    status = -14


class ChecksumError(Error, OSError):
    """Bytes changed on the way."""
    status = -15


class AddressInUseError(Error, OSError):
    """The port is taken."""
    status = -16

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail, status)
        self.errno = _errno.EADDRINUSE


class ClosedError(Error, ConnectionError):
    """The channel or the pool is closed."""
    status = -17


class LimitError(Error, ValueError):
    """Over a limit of ours or of the peer's."""
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
    """The exception for a status."""
    return _BY_STATUS.get(status, Error)(detail, status)
