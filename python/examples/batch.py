"""Sends and receives many short messages, each side with one call."""
import asyncio

import ucxpool

NUM = 1000


async def main() -> None:
    async with ucxpool.Pool() as client, ucxpool.Pool() as server:
        listener = server.listen()
        to_server, to_client = await asyncio.gather(
            client.connect(f"127.0.0.1:{listener.port}"), listener.accept())

        targets = [bytearray(8) for _ in range(NUM)]
        receives = server.batch()
        for number, target in enumerate(targets):
            receives.recv_into(to_client, target, tag=number)
        received = receives.post()

        sends = client.batch()
        for number in range(NUM):
            sends.send(to_server, number.to_bytes(8, "little"), tag=number)
        await asyncio.gather(*sends.post(), *received)
        print("the sum is", sum(int.from_bytes(target, "little")
                                for target in targets))


asyncio.run(main())
