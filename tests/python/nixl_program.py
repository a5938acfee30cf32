"""nixl_program.py MODULE [kill] - a program for NIXL's API. One of its two
processes reads and writes pages of the other's memory. MODULE is the module
that it imports: ucxpool.nixl or nixl_cu13; nothing else differs. Prints the
results as one line of JSON that begins with "result ". With kill, the other
process is killed."""
import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy

PAGE, PAGES, REGIONS = 4096, 64, 3
LIMIT = 1800


def say(**words):
    print("told", json.dumps(words), flush=True)


def hear(stream):
    for line in stream:  # the libraries may print something, too
        if line.startswith("told "):
            return json.loads(line[5:])
    raise SystemExit("the other process has ended")


def until(look):
    end = time.monotonic() + LIMIT
    found = look()
    while not found:
        if time.monotonic() > end:
            raise SystemExit(f"nothing after {LIMIT} s")
        found = look()
    return found


def memory(seed):
    """Return some regions and the addresses of their pages."""
    arrays = [numpy.random.default_rng(seed + i).integers(
        0, 256, PAGE * PAGES, "u1") for i in range(REGIONS)]
    pages = [(array.ctypes.data + PAGE * i, PAGE, 0)
             for array in arrays for i in range(PAGES)]
    return arrays, numpy.array(pages, "u8")


def register(agent, arrays):
    return agent.register_memory(
        [(array.ctypes.data, array.nbytes, 0, "") for array in arrays], "DRAM")


def digest(arrays):
    return hashlib.sha256(b"".join(one.tobytes() for one in arrays)).hexdigest()


def text(notes):
    return sorted(one.decode() for one in notes)


def make(nixl, name):
    return nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["UCX"]))


def owner(nixl):
    agent = make(nixl, "owner")
    arrays, pages = memory(100)
    registered = register(agent, arrays)
    say(metadata=agent.get_agent_metadata().hex(), pages=pages.tolist())
    agent.add_remote_agent(bytes.fromhex(hear(sys.stdin)["metadata"]))
    until(lambda: len(agent.update_notifs().get("reader", [])) == 6)
    done = [agent.check_remote_xfer_done("reader", b"rea"),
            agent.check_remote_xfer_done("reader", b"nothing"),
            agent.check_remote_xfer_done("reader", b"long", [], False)]
    agent.send_notif("reader", b"answer")
    agent.send_notif("reader", "text")
    hear(sys.stdin)
    agent.remove_remote_agent("reader")
    agent.deregister_memory(registered)
    say(digest=digest(arrays), notes=text(agent.notifs["reader"]), done=done)


def finish(agent, handle, *note):
    state = agent.transfer(handle, *note)
    until(lambda: agent.check_xfer_state(handle) != "PROC")
    return agent.check_xfer_state(handle), state in ("PROC", "DONE")


def transfers(agent, ours, theirs):
    """Make a transfer in each way, and return the results."""
    size = len(ours)
    order = numpy.random.default_rng(7).permutation(size).astype("i4")
    one = agent.prep_xfer_dlist("NIXL_INIT_AGENT", ours, "DRAM")
    two = agent.prep_xfer_dlist("owner", theirs, "DRAM")
    handles = [
        # All pages of three regions, in another order.
        agent.make_prepped_xfer("READ", one, order, two, order[::-1].copy(),
                                b"read all"),
        # Pages of one region, with lists.
        agent.make_prepped_xfer("READ", one, [5, 6, 7], two, [3, 2, 1],
                                b"read some"),
        agent.make_prepped_xfer("WRITE", one, order[:20], two, order[20:40],
                                b"written"),
    ]
    states = [finish(agent, handle) for handle in handles]
    # The same again, with another note and with a long one.
    states.append(finish(agent, handles[1], b"x" * 5000 + b"long"))
    descs = [agent.get_xfer_descs([tuple(map(int, page)) for page in pages],
                                  "DRAM") for pages in (ours[9:11],
                                                        theirs[100:102])]
    handle = agent.initialize_xfer("WRITE", *descs, "owner", b"the last")
    states.append(finish(agent, handle))
    # Pages of different lengths at odd addresses.
    pieces = ours.copy(), theirs.copy()
    for pages in pieces:
        pages[:, 0] += numpy.arange(size, dtype="u8") % 5
        pages[:, 1] = 1 + numpy.arange(size, dtype="u8") * 7 % 4000
    handle = agent.initialize_xfer(
        "READ", *[agent.get_xfer_descs(one, "DRAM") for one in pieces],
        "owner")
    states.append(finish(agent, handle))
    strided = numpy.array([[theirs[0][0], 100, 0, PAGE, 30]], "u8")
    three = agent.prep_xfer_dlist("owner", strided, "DRAM")
    four = agent.prep_xfer_dlist("NIXL_INIT_AGENT", [
        (int(page[0]) + 1, 100, 0) for page in ours[:30]], "DRAM")
    handle = agent.make_prepped_xfer("READ", four, numpy.arange(
        30, dtype="i4"), three, numpy.arange(30, dtype="i4"))
    states.append(finish(agent, handle))
    states.append(agent.query_xfer_backend(handle))
    for handle in (*handles, handle):
        agent.release_xfer_handle(handle)
    for one in (one, two, three, four):
        agent.release_dlist_handle(one)
    return states


def errors(agent, ours, theirs):
    """Return the errors of an incorrect program."""
    one = agent.prep_xfer_dlist("", ours, "DRAM")
    two = agent.prep_xfer_dlist("owner", theirs, "DRAM")
    mine = agent.get_xfer_descs(ours[:2], "DRAM")
    its = agent.get_xfer_descs(theirs[:2], "DRAM")
    shorter = agent.get_xfer_descs([(int(ours[0][0]), 1, 0)] * 2, "DRAM")
    elsewhere = agent.get_xfer_descs([(PAGE, PAGE, 0)] * 2, "DRAM")

    def make(numbers, others):
        return agent.make_prepped_xfer("READ", one, numbers, two, others)

    def begin(local, remote, name="owner", operation="READ"):
        return agent.initialize_xfer(operation, local, remote, name)
    found = []
    for call in (lambda: make([len(ours)], [0]), lambda: make([-1], [0]),
                 lambda: make([0], [0, 1]), lambda: make([], []),
                 lambda: begin(shorter, its), lambda: begin(elsewhere, its),
                 lambda: begin(mine, elsewhere),
                 lambda: begin(mine, its, "nobody"),
                 lambda: begin(mine, its, operation="COPY"),
                 lambda: agent.check_xfer_state(begin(mine, its)),
                 lambda: agent.add_remote_agent(b"nonsense"),
                 lambda: agent.add_remote_agent(agent.get_agent_metadata()),
                 lambda: agent.send_notif("nobody", b"note"),
                 lambda: agent.prep_xfer_dlist("nobody", its),
                 lambda: agent.prep_xfer_dlist("owner", elsewhere),
                 lambda: agent.deregister_memory(
                     agent.get_reg_descs([(1, 2, 0, "")], "DRAM"))):
        try:
            call()
            found.append(None)
        except Exception as error:
            found.append(type(error).__name__)
    found += [agent.get_xfer_descs([(1, 2, 0)]),
              agent.get_reg_descs([(1, 2, 0)], "DRAM"),
              agent.check_remote_metadata("owner"),
              agent.check_remote_metadata("owner", its),
              agent.check_remote_metadata("owner", elsewhere),
              agent.check_remote_metadata("nobody")]
    return found


def reader(nixl, other):
    agent = make(nixl, "reader")
    arrays, ours = memory(200)
    registered = register(agent, arrays)
    told = hear(other.stdout)
    theirs = numpy.array(told["pages"], "u8")
    name = agent.add_remote_agent(bytes.fromhex(told["metadata"]))
    print("told", json.dumps({"metadata": agent.get_agent_metadata().hex()}),
          file=other.stdin, flush=True)
    result = {"name": name.decode(), "registered": registered.descCount(),
              "states": transfers(agent, ours, theirs),
              "errors": errors(agent, ours, theirs)}
    agent.send_notif("owner", b"all of it")
    until(lambda: len(agent.update_notifs().get("owner", [])) == 2)
    result["notes"] = text(agent.notifs["owner"])
    agent.remove_remote_agent("owner")
    agent.deregister_memory(registered)
    print("told {}", file=other.stdin, flush=True)
    result.update(owner=hear(other.stdout), digest=digest(arrays))
    return result


def killed(nixl, other):
    """Read until the owner has died. It is stopped after the first read, and
    then killed."""
    agent = make(nixl, "reader")
    arrays, ours = memory(200)
    register(agent, arrays)
    told = hear(other.stdout)
    agent.add_remote_agent(bytes.fromhex(told["metadata"]))
    handle = agent.initialize_xfer(
        "READ", agent.get_xfer_descs(ours, "DRAM"),
        agent.get_xfer_descs(numpy.array(told["pages"], "u8"), "DRAM"),
        "owner")
    result = {"first": finish(agent, handle)[0]}
    other.send_signal(signal.SIGSTOP)
    state = agent.transfer(handle)
    result["second"] = state
    other.kill()
    other.wait()

    def look():
        nonlocal state
        if state != "PROC":
            state = agent.transfer(handle)
        else:
            state = agent.check_xfer_state(handle)
        return state == "ERR"
    try:
        until(look)
    except Exception as error:
        state = type(error).__name__
    return {**result, "last": state}


def main(module, action=""):
    nixl = importlib.import_module(module)
    if action == "owner":
        owner(nixl)
    else:
        with subprocess.Popen(
                [sys.executable, __file__, module, "owner"], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            try:
                result = (killed if action == "kill" else reader)(nixl, other)
            finally:
                other.kill()
        print("result", json.dumps(result), flush=True)
    # Skip the destructors of NIXL's libraries, which may crash.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
