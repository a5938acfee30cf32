"""Free ports for servers that must be started with a known port."""
import socket


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
