"""Send words as one message: sender.py HOST:PORT WORD..."""
import asyncio
import sys

import ucxpool


async def main(where: str, *words: str) -> None:
    async with ucxpool.Pool() as pool:
        channel = await pool.connect(where)
        await channel.send([word.encode() for word in words], tag=1)


asyncio.run(main(*sys.argv[1:]))
