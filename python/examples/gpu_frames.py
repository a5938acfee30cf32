"""Sends arrays from the GPU of one process to the GPU of another.

The arrays are CuPy's if CuPy is installed, otherwise buffers of ucxpool's
heap."""
import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import ucxpool

try:
    import cupy
except ImportError:
    cupy = None

DEVICE = 0
LENGTHS = (5000, 0, 3 << 20, 17)


def allocator() -> Callable[[int], Any]:
    """Return a function that allocates memory on the GPU."""
    if cupy is not None:
        return lambda length: cupy.empty(length, dtype=cupy.uint8)
    return ucxpool.Heap(DEVICE, memory_limit="256m").buffer


async def receive() -> None:
    """Receive frames on the GPU, and send them back from there."""
    async with ucxpool.Pool(DEVICE, comm_size="32m", region_size="2m") as pool:
        listener = pool.listen()
        peer = await asyncio.create_subprocess_exec(
            sys.executable, __file__, f"127.0.0.1:{listener.port}")
        channel = await listener.accept()
        message = await channel.recv()
        frames = await message.frames(allocator())
        print(len(frames), "frames on the GPU:",
              all(hasattr(one, "__cuda_array_interface__") for one in frames))
        await channel.send([message.metadata, *frames])
        await peer.wait()


async def send(where: str) -> None:
    data = [os.urandom(length) for length in LENGTHS]
    async with ucxpool.Pool(DEVICE, comm_size="32m", region_size="2m") as pool:
        channel = await pool.connect(where)
        # One message may have host and GPU buffers in any order.
        await channel.send(data, metadata=b"from the host")
        back = await (await channel.recv()).frames()
        print(bytes(back[0]).decode(), "and back:",
              [bytes(one) for one in back[1:]] == data)


asyncio.run(send(sys.argv[1]) if len(sys.argv) > 1 else receive())
