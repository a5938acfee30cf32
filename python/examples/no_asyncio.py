"""Threads that share a pool, and wait for what they send and receive."""
import threading

import ucxpool


def serve(listener: ucxpool.Listener, num_clients: int) -> None:
    channel = listener.accept().wait()
    for _ in range(num_clients):
        message = channel.recv().wait()
        frames = message.frames().wait()
        channel.send(frames, tag=message.tag).wait()


def ask(channel: ucxpool.Channel, number: int) -> None:
    data = bytes([number]) * 100000
    channel.send([b"header", data], tag=number).wait(timeout=30)
    answer = channel.recv(tag=number, mask=ucxpool.ANY).wait(timeout=30)
    header, target = bytearray(6), bytearray(len(data))
    answer.into([header, target]).wait(timeout=30)
    print(f"thread {number}: {header.decode()},",
          "the same" if target == data else "something else")


with ucxpool.Pool(name="server") as here, ucxpool.Pool(name="client") as pool:
    listener = here.listen()
    server = threading.Thread(target=serve, args=(listener, 3))
    server.start()
    channel = pool.connect(f"127.0.0.1:{listener.port}").wait(timeout=30)
    clients = [threading.Thread(target=ask, args=(channel, number))
               for number in range(3)]
    for one in clients:
        one.start()
    for one in [*clients, server]:
        one.join()
