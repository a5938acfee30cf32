"""Threads share a pool, and wait for sends and receives without asyncio."""
from concurrent.futures import ThreadPoolExecutor

import ucxpool


def serve(listener: ucxpool.Listener, num_clients: int) -> None:
    channel = listener.accept().wait()
    for _ in range(num_clients):
        message = channel.recv().wait()
        frames = message.frames().wait()
        channel.send(frames, tag=message.tag).wait()


def ask(channel: ucxpool.Channel, number: int) -> str:
    data = bytes([number]) * 100000
    channel.send([b"header", data], tag=number).wait(timeout=30)
    answer = channel.recv(tag=number).wait(timeout=30)
    header, target = bytearray(6), bytearray(len(data))
    answer.into([header, target]).wait(timeout=30)
    return header.decode() + (", the same" if target == data else ", another")


with (ucxpool.Pool(name="server") as here, ucxpool.Pool(name="client") as pool,
      ThreadPoolExecutor() as threads):
    listener = here.listen()
    server = threads.submit(serve, listener, 3)
    channel = pool.connect(f"127.0.0.1:{listener.port}").wait(timeout=30)
    for number, said in enumerate(threads.map(ask, 3 * [channel], range(3))):
        print(f"thread {number}: {said}")
    server.result()
