"""Send one message to the echo server: echo_client.py [HOST:PORT]"""
import asyncio
import sys

import ucxpool


async def main(where: str = "127.0.0.1:7000") -> None:
    async with ucxpool.Pool() as pool:
        channel = await pool.connect(where)
        await channel.send([b"many", b"buffers"], tag=1, metadata=b"words")
        message = await channel.recv()
        print(message.tag, message.lengths, end=" ")
        print([bytes(frame) for frame in await message.frames()])


asyncio.run(main(*sys.argv[1:]))
