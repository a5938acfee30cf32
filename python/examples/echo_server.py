"""Send each message back to its sender: echo_server.py [HOST:PORT]"""
import asyncio
import sys

import ucxpool


async def echo(channel: ucxpool.Channel) -> None:
    try:
        while True:
            message = await channel.recv()
            await channel.send(await message.frames(), tag=message.tag)
    except ucxpool.ClosedError:
        print("a client has left", flush=True)


async def main(where: str = "127.0.0.1:7000") -> None:
    async with ucxpool.Pool() as pool:
        listener = pool.listen(where, echo)
        print("listening on port", listener.port, flush=True)
        await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
