"""Selects the address of the listeners of ucxpool.ucxx and ucxpool.nixl."""
import os
import socket

VARIABLE = "LIBUCXPOOL_LISTEN"


def of_interface(name):
    """Return the IPv4 address of a network interface. Raises OSError if the
    interface has none."""
    import fcntl
    import struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        return socket.inet_ntoa(fcntl.ioctl(
            one.fileno(), 0x8915,  # SIOCGIFADDR
            struct.pack("256s", name[:15].encode()))[20:24])


def chosen(named=None):
    """Return the address to listen on. `named` is an address or a network
    interface; by default the environment variable VARIABLE has it. Returns ""
    if neither is set."""
    named = named or os.environ.get(VARIABLE, "")
    if named in (name for _, name in socket.if_nameindex()):
        return of_interface(named)
    return named


def at(host, port):
    """Return "host:port" in the library's form."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
