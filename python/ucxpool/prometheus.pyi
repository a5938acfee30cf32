from collections.abc import Iterator
from typing import Any

from ._pool import Pool

class Collector:
    pools: list[Pool]
    max_channels: int
    def __init__(self, *pools: Pool, max_channels: int = 64) -> None: ...
    def collect(self) -> Iterator[Any]: ...
