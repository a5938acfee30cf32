"""nixl_pages.py [--gpu] [--rounds N] [--repeats N] [--works LIST] [--json FILE]

Transfers pages of a KV cache between two processes. The same program for NIXL's
API runs on `ucxpool.nixl` and on NIXL itself (the wheel nixl-cu13), in turn,
with new processes in each round. Prints a Markdown table of medians: GB/s from
before make_prepped_xfer() to "DONE", and the parts of this time for making and
posting the transfer. The first transfer of each round is compared byte by byte,
and is not timed.

--works 65536x8192,16384x45056 lists the number of pages and the bytes of each.
Pages are read and written in random order. With --gpu they are in memory of
PyTorch or CuPy; on a host with several GPUs each process has its own.
"""
import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import numpy

LIBRARIES = {"ucxpool": "ucxpool.nixl", "NIXL": "nixl_cu13"}
WORKS = {False: "8192x8192,2048x45056", True: "65536x8192,16384x45056"}
OPERATIONS = ("READ", "WRITE")
LIMIT = 120


class Host:
    kind = "DRAM"

    def __init__(self, values):
        self.array = values.copy()
        self.address = self.array.ctypes.data

    def get(self):
        return self.array


class OnTorch:
    kind = "VRAM"

    def __init__(self, values):
        import torch
        self.array = torch.from_numpy(values).to("cuda")
        torch.cuda.synchronize()
        self.address = self.array.data_ptr()

    def get(self):
        return self.array.cpu().numpy()


class OnCupy:
    kind = "VRAM"

    def __init__(self, values):
        import cupy
        self.array = cupy.asarray(values)
        cupy.cuda.runtime.deviceSynchronize()
        self.address = self.array.data.ptr

    def get(self):
        return self.array.get()


def memory_kind(gpu):
    if not gpu:
        return Host
    return OnTorch if importlib.util.find_spec("torch") else OnCupy


def values_of(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, "u1")


def descriptors(address, pages, length):
    found = numpy.zeros((pages, 3), "u8")
    found[:, 0] = address + numpy.arange(pages, dtype="u8") * length
    found[:, 1] = length
    return found


def orders(pages):
    chance = numpy.random.default_rng(3)
    return [chance.permutation(pages).astype("i4") for _ in range(2)]


def hear(stream):
    for line in stream:  # the libraries may print something, too
        if line.startswith("told "):
            return json.loads(line[5:])
    raise SystemExit("the other process has ended")


def say(stream, **words):
    print("told", json.dumps(words), file=stream, flush=True)


def agent_of(library, name):
    nixl = importlib.import_module(LIBRARIES[library])
    return nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["UCX"]))


def registered(agent, memory, size):
    agent.register_memory([(memory.address, size, 0, "")], memory.kind)


def owner(library, pages, length, gpu):
    agent = agent_of(library, "owner")
    size = pages * length
    memory = memory_kind(gpu)(values_of(1, size))
    registered(agent, memory, size)
    say(sys.stdout, metadata=agent.get_agent_metadata().hex(),
        address=memory.address)
    agent.add_remote_agent(bytes.fromhex(hear(sys.stdin)["metadata"]))
    mine, its = orders(pages)
    hear(sys.stdin)  # the peer has written
    expected = values_of(2, size).reshape(pages, length)
    found = memory.get().reshape(pages, length)
    say(sys.stdout, same=bool((found[its] == expected[mine]).all()))
    hear(sys.stdin)
    os._exit(0)


def transfer(agent, operation, local, mine, remote, its):
    """Return the seconds until it is posted, and until it is done."""
    begin = time.perf_counter()
    handle = agent.make_prepped_xfer(operation, local, mine, remote, its)
    state = agent.transfer(handle)
    posted = time.perf_counter() - begin
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    done = time.perf_counter() - begin
    if state != "DONE":
        raise SystemExit(f"{operation} ended as {state}")
    agent.release_xfer_handle(handle)
    return posted, done


def reader(library, pages, length, gpu, repeats, there):
    agent = agent_of(library, "reader")
    size = pages * length
    memory = memory_kind(gpu)(values_of(2, size))
    registered(agent, memory, size)
    told = hear(there.stdout)
    agent.add_remote_agent(bytes.fromhex(told["metadata"]))
    say(there.stdin, metadata=agent.get_agent_metadata().hex())
    ours = descriptors(memory.address, pages, length)
    theirs = descriptors(told["address"], pages, length)
    begin = time.perf_counter()
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", ours, memory.kind)
    remote = agent.prep_xfer_dlist("owner", theirs, memory.kind)
    result = {"prepared": time.perf_counter() - begin}
    mine, its = orders(pages)
    lists = (local, mine, remote, its)
    transfer(agent, "WRITE", *lists)
    say(there.stdin)
    if not hear(there.stdout)["same"]:
        raise SystemExit(f"{library}: the written data differs")
    before = memory.get().copy()
    transfer(agent, "READ", *lists)
    if (memory.get() != before).any():
        raise SystemExit(f"{library}: the data read differs")
    for operation in OPERATIONS:
        result[operation] = [transfer(agent, operation, *lists)
                             for _ in range(repeats)]
    say(there.stdin)
    say(sys.stdout, **result)
    os._exit(0)


def gpus():
    """Return the number of GPUs, without a CUDA context in this process."""
    done = subprocess.run(["nvidia-smi", "-L"], text=True,
                          stdout=subprocess.PIPE, check=True)
    return len(done.stdout.splitlines())


def one_round(library, pages, length, given):
    has = [{}, {}]
    if given.gpu and "CUDA_VISIBLE_DEVICES" not in os.environ:
        has = [{"CUDA_VISIBLE_DEVICES": str(number)}
               for number in (0, gpus() - 1)]
    words = [library, str(pages), str(length), str(int(given.gpu)),
             str(given.repeats)]
    with subprocess.Popen(
            [sys.executable, __file__, "--inside", *words, json.dumps(has[1])],
            text=True, stdout=subprocess.PIPE,
            env={**os.environ, **has[0]}) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"{library} took longer than {LIMIT} s") from None
    return hear(iter(said.splitlines()))


def inside(library, pages, length, gpu, repeats, has):
    pages, length, gpu = int(pages), int(length), bool(int(gpu))
    with subprocess.Popen(
            [sys.executable, __file__, "--owner", library, str(pages),
             str(length), str(int(gpu))], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **json.loads(has)}) as there:
        try:
            reader(library, pages, length, gpu, int(repeats), there)
        finally:
            there.kill()


def row(pages, length, operation, library, rounds):
    """Return a line of the table: the median of the rounds' medians."""
    posted, done = [statistics.median(
        statistics.median(times[i] for times in one[operation])
        for one in rounds) for i in range(2)]
    prepared = statistics.median(one["prepared"] for one in rounds)
    size = f"{length // 1024} KiB" if length % 1024 == 0 else f"{length} B"
    return (f"| {pages:,} x {size} | {operation} | {library} | "
            f"{pages * length / done / 1e9:.2f} | {done * 1e3:.2f} | "
            f"{posted * 1e3:.2f} | {prepared * 1e3:.2f} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--works")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--json")
    parser.add_argument("--inside", nargs=6)
    parser.add_argument("--owner", nargs=4)
    given = parser.parse_args()
    if given.inside:
        inside(*given.inside)
    if given.owner:
        library, *numbers = given.owner
        owner(library, int(numbers[0]), int(numbers[1]), bool(int(numbers[2])))
    names = given.libraries.split(",")
    results = {}
    for work in (given.works or WORKS[given.gpu]).split(","):
        pages, length = map(int, work.split("x"))
        for number in range(given.rounds):
            first = number % len(names)
            for library in names[first:] + names[:first]:
                results.setdefault(work, {}).setdefault(library, []).append(
                    one_round(library, pages, length, given))
    print("| pages | | | GB/s | ms | of it posting | preparing, before |")
    print("|---|---|---|---|---|---|---|")
    for work, found in results.items():
        for operation in OPERATIONS:
            for library in names:
                print(row(*map(int, work.split("x")), operation, library,
                          found[library]))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
