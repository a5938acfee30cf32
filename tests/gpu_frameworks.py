#!/usr/bin/env python3
"""PyTorch, CuPy, RMM and Numba on libucxpool's heap, on a real GPU.

usage: gpu_frameworks.py LIBRARY [--json FILE] [--only NAME[,NAME...]]
                         [--rmm DIR] [--quick]

LIBRARY   libucxpool.so
--json    all results, as one object
--only    these checks; without, all
--rmm     a directory with the wheels of RMM (rmm, librmm, rapids_logger, and
          cuda_bindings and others that are not installed), packed or
          unpacked
--quick   small sizes; times mean nothing

Each check runs in its own process, with UCXPOOL_* from the environment and its
own settings. A comparing check runs twice, with the framework's own allocator
and with the heap, in turn. Prints a line for each:

    ok      name: result
    FAILED  name: why
    skipped name: why

Exit status: 0 none failed, 1 some failed, 77 all were skipped.
"""
import argparse
import contextlib
import gc
import glob
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

GIB = 1 << 30
MIB = 1 << 20
LIMIT = 600                 # seconds, of one check
MARK = "result: "           # begins the line that has a check's result


class Skip(Exception):
    """The check cannot run; the text is the reason."""


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skip(f"no {name}: {error}") from error


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def heap(options):
    import ucxpool
    return ucxpool.heap(0)


# --- A-B-A: 6 GiB are free, and CuPy's pool has no 4 GiB in one piece --------

def aba(alloc, size):
    """The three steps. alloc(size, value) returns a filled array that frees
    itself. At the end, 3 arrays are live."""
    kept = []
    for temporary in (4, 0, 4):
        kept.append(alloc(size, len(kept) + 1))
        if temporary:
            scratch = alloc(temporary * size, 0x55)
            require(int(scratch[-1]) == 0x55, "the end of 4 GiB is not ours")
            del scratch
    for number, array in enumerate(kept):
        for at in (0, size // 2, size - 1):
            require(int(array[at]) == number + 1, "a kept array has changed")
    return len(kept)


def cupy_aba(options):
    cupy = cupy_module()
    unit = GIB if not options.quick else 64 * MIB
    if options.own:
        cupy.get_default_memory_pool().set_limit(size=8 * unit)
    else:
        import ucxpool.cupy
        ucxpool.cupy.enable()

    def alloc(size, value):
        return cupy.full(size, value, dtype=cupy.uint8)

    try:
        aba(alloc, unit)
        passed = True
    except cupy.cuda.memory.OutOfMemoryError as error:
        passed = False
        require(options.own, f"out of memory: {error}")
    cupy.cuda.Device().synchronize()
    return {"passes": passed, "limit": 8 * unit,
            "stats": {} if options.own else brief(heap(options).stats())}


def torch_aba(options):
    torch = torch_with(options)
    unit = GIB if not options.quick else 64 * MIB
    if options.own:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(8 * unit / total)

    def alloc(size, value):
        return torch.full((size,), value, dtype=torch.uint8, device="cuda")

    try:
        aba(alloc, unit)
        passed = True
    except RuntimeError as error:
        passed = False
        require("out of memory" in str(error), f"another error: {error}")
        require(options.own, f"out of memory: {error}")
    return {"passes": passed, "limit": 8 * unit,
            "stats": {} if options.own else brief(heap(options).stats())}


def brief(stats):
    return {key: stats[key] for key in
            ("limit_bytes", "live_bytes", "reserved_bytes",
             "peak_reserved_bytes", "free_bytes", "largest_contiguous_bytes",
             "stitches", "restitches", "failures", "stream_waits", "syncs")}


# --- CuPy --------------------------------------------------------------------

def cupy_module():
    cupy = need("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Skip(f"CuPy sees no GPU: {error}") from error
    return cupy


def cupy_streams(options):
    """Many short-lived streams, in turn: no array is changed by pending work
    of another stream."""
    cupy = cupy_module()
    import ucxpool
    import ucxpool.cupy
    allocator = ucxpool.cupy.enable()
    rng = random.Random(7)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    live = []
    rounds = 300 if options.quick else 3000
    for number in range(rounds):
        stream = rng.choice(streams)
        if number % 10 == 0:
            # A new one; the old one goes when nothing needs it.
            streams[rng.randrange(4)] = cupy.cuda.Stream(non_blocking=True)
        size = rng.choice((1, 1000, 100000, 3 * MIB, 20 * MIB))
        with stream:
            array = cupy.empty(size, dtype=cupy.uint8)
            array.fill(number % 251)
            live.append((array, number % 251, stream))
        del array
        while len(live) > 40:
            array, value, stream = live.pop(rng.randrange(len(live)))
            with stream:
                wrong = int((array != value).sum())
            require(wrong == 0, f"{wrong} bytes of {array.size} are not "
                    f"{value} in round {number}")
            del array
    live.clear()
    gc.collect()
    require(ucxpool.heap_stats(0)["num_live"] == 0, "memory is left")
    return {"rounds": rounds, "streams": len(allocator._entries),
            "stats": brief(ucxpool.heap_stats(0))}


def cupy_oom(options):
    """CuPy raises its own error with the cause, and still works."""
    cupy = cupy_module()
    import ucxpool
    import ucxpool.cupy
    ucxpool.cupy.enable()
    try:
        cupy.empty(64 * GIB * 1024, dtype=cupy.uint8)
        raise AssertionError("64 TiB were allocated")
    except cupy.cuda.memory.OutOfMemoryError as error:
        reason = str(error.__cause__)
        require(isinstance(error.__cause__, ucxpool.OutOfMemoryError),
                "the error has no cause")
    require(int(cupy.ones(1000).sum()) == 1000, "CuPy no longer works")
    return {"reason": reason}


def cupy_speed(options):
    """An allocation and its end, from Python."""
    cupy = cupy_module()
    if not options.own:
        import ucxpool.cupy
        ucxpool.cupy.enable()
    # Launch a kernel first: before that, the CUDA runtime takes 1 us to return
    # the current device, which CuPy requests twice.
    cupy.zeros(1)
    alloc = cupy.cuda.memory.alloc
    return {f"{size}": pair_ns(options, lambda: alloc(size))
            for size in (1024, MIB, 256 * MIB)}


def pair_ns(options, make):
    """Nanoseconds to create and free an object, after a warm-up."""
    count = 1000 if options.quick else 20000
    for _ in range(100):
        make()
    best = []
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(count):
            make()
        best.append((time.perf_counter_ns() - start) / count)
    return statistics.median(best)


# --- PyTorch -----------------------------------------------------------------

def torch_module():
    torch = need("torch")
    if not torch.cuda.is_available():
        raise Skip("PyTorch sees no GPU")
    return torch


def torch_with(options):
    """PyTorch, on the heap unless --own is set."""
    torch = torch_module()
    if not options.own:
        import ucxpool.torch
        ucxpool.torch.enable()
    return torch


def torch_speed(options):
    torch = torch_with(options)
    return {f"{size}": pair_ns(options, lambda: torch.empty(
        size, dtype=torch.uint8, device="cuda"))
        for size in (1024, MIB, 256 * MIB)}


def torch_oom(options):
    """PyTorch raises its out-of-memory error, and still works."""
    torch = torch_with(options)
    try:
        torch.empty(1 << 46, dtype=torch.uint8, device="cuda")
        raise AssertionError("64 TiB were allocated")
    except RuntimeError as error:
        kind, text = type(error).__name__, str(error)
    require("CUDA out of memory" in text, f"{kind}: {text}")
    require(torch.empty(0, device="cuda").numel() == 0, "empty has elements")
    ones = torch.ones(1000, device="cuda")
    require(int(ones.sum()) == 1000, "PyTorch no longer works")
    del ones
    torch.cuda.empty_cache()
    return {"error": f"{kind}: {text.splitlines()[0]}"}


def torch_streams(options):
    """record_stream() delays reuse of memory that another stream reads."""
    torch = torch_with(options)
    side = torch.cuda.Stream()
    was_busy = 0
    rounds = 20
    for number in range(rounds):
        tensor = torch.full((8 * MIB,), number, dtype=torch.uint8,
                            device="cuda")
        seen = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            seen.copy_(tensor)
        tensor.record_stream(side)
        del tensor
        # The same size in the first stream, written at once.
        other = torch.full((8 * MIB,), 255, dtype=torch.uint8, device="cuda")
        torch.cuda.current_stream().synchronize()
        was_busy += not side.query()
        side.synchronize()
        require(bool((seen == number).all()), "memory was reused too early")
        del other, seen
    return {"rounds": rounds, "without waiting": was_busy}


def torch_pool(options):
    """A MemPool with segments from the heap, next to PyTorch's own pool."""
    torch = torch_module()
    import ucxpool
    import ucxpool.torch
    try:
        pool = ucxpool.torch.mem_pool()
    except RuntimeError as error:
        raise Skip(str(error)) from error
    outside = torch.ones(MIB, device="cuda")
    require(ucxpool.heap_stats(0)["num_live"] == 0, "not only the pool asks")
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.full((size,), 3.0, device="cuda")
                   for size in (10, 1000, MIB, 10 * MIB)]
        segments = ucxpool.heap_stats(0)["num_live"]
        require(segments > 0, "the pool does not ask the heap")
        try:
            torch.empty(1 << 46, dtype=torch.uint8, device="cuda")
            raise AssertionError("64 TiB were allocated")
        except torch.OutOfMemoryError:
            pass
    for tensor in tensors:
        require(bool((tensor == 3.0).all()), "a tensor has changed")
    require(float(outside.sum()) == MIB, "a tensor of another pool has")
    del tensors, tensor, pool
    gc.collect()
    torch.cuda.empty_cache()
    left = ucxpool.heap_stats(0)["num_live"]
    require(left == 0, f"{left} segments are left")
    return {"segments": segments}


def torch_graph(options):
    """Capturing a CUDA graph fails, since its memory could move."""
    torch = torch_with(options)
    tensor = torch.ones(1000, device="cuda")
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tensor += 1
    except RuntimeError as error:
        require("graph" in str(error), f"another error: {error}")
        return {"error": str(error).splitlines()[0]}
    raise AssertionError("a graph was captured")


def bottleneck(torch, inputs, width, stride):
    """The building block of ResNet-50."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            outputs = 4 * width
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False),
                nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs))
            self.short = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.short = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                    nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.body(x) + self.short(x))

    return Block()


def resnet(torch):
    nn = torch.nn
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2),
                                 (512, 3, 2)):
        for number in range(count):
            layers.append(bottleneck(torch, inputs, width,
                                     stride if number == 0 else 1))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*layers)


def transformer(torch):
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.1,
                                             batch_first=True,
                                             norm_first=True)
    return torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def train(options, make, batches):
    """Training steps, with batches of different sizes."""
    torch = torch_with(options)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = False
    model = make(torch).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    warm, steps = (2, 4) if options.quick else (20, 60)
    times = []
    for step in range(warm + steps):
        x = batches(torch, step, options.quick)
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= warm:
            times.append(time.perf_counter() - start)
    value = float(loss)
    require(value == value, "the loss is no number")
    if options.own:
        reserved = torch.cuda.max_memory_reserved()
    else:
        reserved = heap(options).stats()["peak_reserved_bytes"]
    return {"step_ms": 1e3 * statistics.median(times), "loss": value,
            "reserved": reserved}


def images(torch, step, quick):
    count = (8 if quick else 64) - step % 4
    return torch.randn(count, 3, 224, 224, device="cuda")


def sentences(torch, step, quick):
    length = (64 if quick else 512) - 8 * (step % 5)
    return torch.randn(4 if quick else 16, length, 1024, device="cuda")


def torch_resnet(options):
    return train(options, resnet, images)


def torch_transformer(options):
    return train(options, transformer, sentences)


# --- RMM and Numba -----------------------------------------------------------

def rmm_module():
    rmm = need("rmm")
    gpu = need("rmm._cuda.gpu")
    try:
        gpu.getDevice()
    except gpu.CUDARuntimeError as error:
        raise Skip(f"RMM sees no GPU: {error}") from error
    return rmm


def rmm_buffers(options):
    rmm = rmm_module()
    import ucxpool
    import ucxpool.rmm
    ucxpool.rmm.enable()
    streams = [rmm.pylibrmm.stream.Stream() for _ in range(3)]
    rng = random.Random(3)
    live = []
    rounds = 200 if options.quick else 2000
    for number in range(rounds):
        size = rng.choice((1, 1000, 100000, 3 * MIB))
        data = bytes([number % 251]) * size
        stream = rng.choice(streams)
        live.append((rmm.DeviceBuffer.to_device(data, stream), data))
        stream.synchronize()
        while len(live) > 30:
            buffer, data = live.pop(rng.randrange(len(live)))
            require(buffer.tobytes() == data, f"wrong bytes, round {number}")
            del buffer
    live.clear()
    try:
        rmm.DeviceBuffer(size=1 << 46)
        raise AssertionError("64 TiB were allocated")
    except MemoryError as error:
        reason = str(error)
    require(rmm.DeviceBuffer(size=0).size == 0, "nothing is something")
    require(ucxpool.heap_stats(0)["num_live"] == 0, "memory is left")
    for stream in streams:
        ucxpool.heap(0).stream_end(stream)
    return {"rounds": rounds, "reason": reason}


def rmm_speed(options):
    rmm = rmm_module()
    if options.own:
        rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(
            rmm.mr.CudaMemoryResource(), initial_pool_size=GIB))
    else:
        import ucxpool.rmm
        ucxpool.rmm.enable()
    return {f"{size}": pair_ns(options, lambda: rmm.DeviceBuffer(size=size))
            for size in (1024, MIB, 256 * MIB)}


def numba_cuda():
    """numba.cuda, if it can be imported. It may be incompatible with the
    installed NumPy, which is not an error of the heap."""
    need("numba")
    numpy = need("numpy")
    # NumPy 2.5 has no row_stack(), the old name of vstack(), and numba.cuda
    # registers it when it is imported.
    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack
    try:
        return need("numba.cuda")
    except Skip:
        raise
    except Exception as error:
        raise Skip(f"numba.cuda cannot be imported with NumPy "
                   f"{numpy.__version__}: {type(error).__name__}: "
                   f"{error}") from error


def numba_arrays(options):
    cuda = numba_cuda()
    import ucxpool
    import ucxpool.numba
    # This only queries the driver: no context exists yet.
    if not cuda.is_available():
        raise Skip("Numba sees no GPU")
    ucxpool.numba.enable()

    @cuda.jit
    def add(array, value):
        at = cuda.grid(1)
        if at < array.size:
            array[at] += value

    rounds = 20 if options.quick else 100
    for number in range(rounds):
        array = cuda.device_array(100000 + number, dtype="int32")
        add[(array.size + 255) // 256, 256](array, 0)
        zeros = cuda.to_device([0] * 1000)
        add[4, 256](zeros, number)
        require(zeros.copy_to_host().sum() == 1000 * number, "a wrong sum")
        require(ucxpool.heap_stats(0)["num_live"] > 0, "not from the heap")
        del array, zeros
    gc.collect()
    # Run pending deallocations of the context, which are not live arrays.
    cuda.current_context().memory_manager.deallocations.clear()
    left = ucxpool.heap_stats(0)["num_live"]
    require(left == 0, f"{left} allocations are left")
    return {"rounds": rounds}


# --- running them ------------------------------------------------------------

# Name, check, does it compare with the framework's own, memory limit in GiB.
CHECKS = (
    ("cupy-aba", cupy_aba, True, 8),
    ("cupy-streams", cupy_streams, False, None),
    ("cupy-oom", cupy_oom, False, None),
    ("cupy-speed", cupy_speed, True, None),
    ("torch-aba", torch_aba, True, 8),
    ("torch-oom", torch_oom, False, None),
    ("torch-streams", torch_streams, False, None),
    ("torch-mem-pool", torch_pool, False, None),
    ("torch-graph", torch_graph, False, None),
    ("torch-speed", torch_speed, True, None),
    ("torch-resnet", torch_resnet, True, None),
    ("torch-transformer", torch_transformer, True, None),
    ("rmm-buffers", rmm_buffers, False, None),
    ("rmm-speed", rmm_speed, True, None),
    ("numba-arrays", numba_arrays, False, None),
)


def run_here(options):
    """Run one check in this process, and print its result for the parent."""
    check = {name: function for name, function, _, _ in CHECKS}[options.one]
    try:
        result = {"status": "ok", **check(options)}
    except Skip as why:
        result = {"status": "skipped", "why": str(why)}
    except Exception as error:  # any error is a result
        import traceback
        traceback.print_exc()
        result = {"status": "FAILED",
                  "why": f"{type(error).__name__}: {error}"}
    print(MARK + json.dumps(result), flush=True)


def run(options, name, own, limit):
    """Run one check in its own process."""
    environment = dict(os.environ)
    if limit is not None:
        unit = GIB if not options.quick else 64 * MIB
        environment["UCXPOOL_MEMORY_LIMIT"] = str(limit * unit)
    command = [sys.executable, "-B", __file__, options.library, "--one", name]
    command += ["--own"] * own + ["--quick"] * options.quick
    try:
        done = subprocess.run(command, env=environment, timeout=LIMIT,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        return {"status": "FAILED", "why": f"it did not end in {LIMIT} s"}
    lines = done.stdout.splitlines()
    marked = [line for line in lines if line.startswith(MARK)]
    result = {"status": "FAILED", "why": "it ended without a result"}
    if marked:
        result = json.loads(marked[-1][len(MARK):])
    # The process must also exit cleanly: frameworks free memory then.
    if done.returncode != 0 and result["status"] != "FAILED":
        result = {"status": "FAILED", "why": "at the end of the process: exit "
                  f"status {done.returncode}"}
    if result["status"] == "FAILED":
        print("\n".join("    | " + line for line in lines[-25:]))
    return result


def compare(options, name, limit):
    """The heap and the framework's own allocator, in turn, so that changes
    over time affect both."""
    rounds = {"heap": [], "own": []}
    for _ in range(1 if options.quick or not name.startswith("torch-")
                   or name == "torch-aba" else 3):
        for kind in ("own", "heap"):
            result = run(options, name, kind == "own", limit)
            if result["status"] != "ok":
                if result["status"] == "FAILED":
                    result["why"] = f"({kind}) {result['why']}"
                return result
            rounds[kind].append(result)
    merged = {kind: {key: statistics.median(one[key] for one in results)
                     if isinstance(results[0][key], (int, float)) and
                     not isinstance(results[0][key], bool)
                     else results[0][key] for key in results[0]}
              for kind, results in rounds.items()}
    return {"status": "ok", **merged}


def words(name, result):
    """A result as one line."""
    if result["status"] != "ok":
        return result["why"]
    if "heap" not in result:
        return ", ".join(f"{key} {value}" for key, value in result.items()
                         if key not in ("status", "stats"))
    ours, own = result["heap"], result["own"]
    if "step_ms" in ours:
        return (f"{ours['step_ms']:.2f} ms a step, its own "
                f"{own['step_ms']:.2f} "
                f"({ours['step_ms'] / own['step_ms']:.3f}); reserved "
                f"{ours['reserved'] / MIB:.0f} MiB, its own "
                f"{own['reserved'] / MIB:.0f}")
    if "passes" in ours:
        return (f"passes in {ours['limit'] / GIB:g} GiB; its own allocator "
                + ("passes" if own["passes"] else "runs out of memory"))
    return "; ".join(f"{int(size) / 1024:g} KiB {ours[size]:.0f} ns, its own "
                     f"{own[size]:.0f}" for size in ours if size.isdigit())


def unpack(folder, scratch):
    """Make the wheels or packages in a directory importable."""
    wheels = glob.glob(os.path.join(folder, "*.whl"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
    return scratch if wheels else os.path.abspath(folder)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--rmm")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one")
    parser.add_argument("--own", action="store_true")
    options = parser.parse_args()
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.environ["LIBUCXPOOL"] = os.path.abspath(options.library)
    if options.one:
        sys.path.insert(0, os.path.join(top, "python"))
        run_here(options)
        return
    wanted = [name for name in options.only.split(",") if name]
    names = [name for name, _, _, _ in CHECKS]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"no check {unknown[0]}; there are {', '.join(names)}")
    results = {}
    with contextlib.ExitStack() as stack:
        paths = [os.path.join(top, "python")]
        if options.rmm:
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            paths.append(unpack(options.rmm, scratch))
        if "PYTHONPATH" in os.environ:
            paths.append(os.environ["PYTHONPATH"])
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        for name, _, compares, limit in CHECKS:
            if wanted and name not in wanted:
                continue
            do = compare if compares else \
                lambda options, name, limit: run(options, name, False, limit)
            results[name] = result = do(options, name, limit)
            print(f"{result['status']:7} {name}: {words(name, result)}",
                  flush=True)
    statuses = {result["status"] for result in results.values()}
    if statuses == {"skipped"}:
        print("; ".join(dict.fromkeys(
            result["why"] for result in results.values())))
        sys.exit(77)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)
            file.write("\n")
    sys.exit(1 if "FAILED" in statuses else 0)


if __name__ == "__main__":
    main()
