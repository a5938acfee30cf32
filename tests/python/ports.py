"""Free ports for servers that must be started with a known port."""
import contextlib
import pathlib
import random
import socket

RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port():
    """Return a free port that the kernel does not choose for other sockets."""
    first = int(RANGE.read_text().split()[0])
    while True:
        with contextlib.suppress(OSError):
            port = random.randrange(1024, first) if first > 1024 else 0
            with socket.create_server(("127.0.0.1", port)) as server:
                return server.getsockname()[1]
