"""Allocates from ucxpool's heap, in host memory and on GPU 0."""
from typing import Any

import numpy

import ucxpool


def on_host() -> None:
    with ucxpool.Heap(memory_limit="1g") as heap:
        buffer = heap.buffer(1 << 20)
        array = numpy.frombuffer(buffer, dtype=numpy.float32)
        print(len(array), "floats in host memory")
        del array, buffer


def on_gpu() -> None:
    cache: list[Any] = []

    def free_cache(size: int, stream: int) -> bool:
        """Called when memory runs out. After True, the heap tries again."""
        was_full = bool(cache)
        cache.clear()
        return was_full

    heap = ucxpool.Heap(0, memory_limit="64m")
    heap.on_failure(free_cache)
    cache.append(heap.buffer(40 << 20))
    buffer = heap.buffer(40 << 20)  # the heap calls free_cache()
    print(heap.stats()["num_live"], "buffer on the GPU")
    del buffer
    heap.trim()                     # return free memory to the driver
    heap.close()


on_host()
on_gpu()
