"""window.py - one process reads and writes the memory of another directly, for
example the pages of a cache."""
import array
import asyncio
import sys

import ucxpool

PAGE, PAGES = 4096, 1000


async def use(where: str, blob: str) -> None:
    """Read every second page, from the last to the first. The owner does no
    work."""
    async with ucxpool.Pool() as pool:
        channel = await pool.connect(where)
        window = channel.import_window(bytes.fromhex(blob))
        offsets = array.array("Q", range((PAGES - 1) * PAGE, 0, -2 * PAGE))
        target = bytearray(len(offsets) * PAGE)
        await window.read(offsets, target, length=PAGE)
        print("read", [target[i * PAGE] for i in range(3)], "and so on")
        await window.write([(0, 5), (PAGE, 5)], [b"first", b"other"],
                           notify=7, metadata=b"two pages")
        window.close()


async def own() -> None:
    pages = bytearray().join(bytes([i % 251]) * PAGE for i in range(PAGES))
    async with ucxpool.Pool() as pool:
        listener = pool.listen()
        async with pool.window(pages, "pages") as window:
            peer = await asyncio.create_subprocess_exec(
                sys.executable, __file__, f"127.0.0.1:{listener.port}",
                window.export(read=True, write=True).hex())
            channel = await listener.accept()
            message = await channel.recv(tag=7)
            await message.frames()
            print(message.metadata.decode(), "were written:",
                  pages[:5].decode(), pages[PAGE:PAGE + 5].decode())
            await peer.wait()


asyncio.run(use(*sys.argv[1:]) if len(sys.argv) > 1 else own())
