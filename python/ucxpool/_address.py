"""Which address listeners of ucxpool.ucxx and ucxpool.nixl have."""
import os
import socket

VARIABLE = "LIBUCXPOOL_LISTEN"


def of_interface(name):
    """Its IPv4 address. OSError where it has none."""
    import fcntl
    import struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        return socket.inet_ntoa(fcntl.ioctl(
            one.fileno(), 0x8915,  # SIOCGIFADDR
            struct.pack("256s", name[:15].encode()))[20:24])


def chosen(named=None):
    """The address to listen on, of the address or network interface `named`, or
    of the variable; "" where neither is set."""
    named = named or os.environ.get(VARIABLE, "")
    if named in (name for _, name in socket.if_nameindex()):
        return of_interface(named)
    return named


def at(host, port):
    """As the library takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
