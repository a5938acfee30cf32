"""nixl_agents.py - a program for NIXL's API. To run it on NIXL itself, change
the import from ucxpool.nixl."""
import numpy
from ucxpool.nixl import nixl_agent, nixl_agent_config

PAGE, PAGES = 8192, 1000


def agent_with(name: str, array: numpy.ndarray) -> nixl_agent:
    """Return an agent that has registered the array."""
    agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    agent.register_memory([(array.ctypes.data, array.nbytes, 0, "")], "DRAM")
    return agent


def pages_of(array: numpy.ndarray) -> numpy.ndarray:
    """Return rows of (address, length, device)."""
    rows = numpy.zeros((PAGES, 3), "u8")
    rows[:, 0] = array.ctypes.data + numpy.arange(PAGES) * PAGE
    rows[:, 1] = PAGE
    return rows


cache = numpy.random.default_rng(1).integers(0, 256, (PAGES, PAGE), "u1")
target = numpy.zeros_like(cache)
owner, reader = agent_with("owner", cache), agent_with("reader", target)
name = reader.add_remote_agent(owner.get_agent_metadata())

local = reader.prep_xfer_dlist("NIXL_INIT_AGENT", pages_of(target), "DRAM")
remote = reader.prep_xfer_dlist(name, pages_of(cache), "DRAM")
wanted = numpy.arange(PAGES, dtype="i4")[::-1].copy()
handle = reader.make_prepped_xfer(
    "READ", local, numpy.arange(PAGES, dtype="i4"), remote, wanted, b"read")
state = reader.transfer(handle)
while state == "PROC":
    state = reader.check_xfer_state(handle)
print(state, "the same" if (target == cache[::-1]).all() else "different")

while not owner.check_remote_xfer_done("reader", b"read"):
    pass
print("the owner was notified")
