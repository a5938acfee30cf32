"""Ports for what is started with one that is known before."""
import socket


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
