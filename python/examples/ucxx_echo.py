"""A program written for UCXX, with one changed line."""
import asyncio

import ucxpool.ucxx as ucxx


async def echo(endpoint: ucxx.Endpoint) -> None:
    await endpoint.send_multi(await endpoint.recv_multi())


async def main() -> None:
    listener = ucxx.create_listener(echo, port=0)
    endpoint = await ucxx.create_endpoint("127.0.0.1", listener.port)
    await endpoint.send_multi([b"many", b"buffers"])
    print([bytes(one) for one in await endpoint.recv_multi()])
    await endpoint.close()
    listener.close()
    ucxx.reset()


asyncio.run(main())
