from collections.abc import Iterator
from typing import Any

from ._pool import Pool

class Collector:
    pools: list[Pool]
    def __init__(self, *pools: Pool) -> None: ...
    def collect(self) -> Iterator[Any]: ...
