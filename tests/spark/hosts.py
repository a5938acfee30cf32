"""Two hosts on one machine: network namespaces joined by a veth pair, like those
of tests/hosts.sh."""
import os
import shutil
import subprocess

ADDRESSES = {"one": "10.213.7.1", "two": "10.213.7.2"}

# A host has its own name, processes and shared memory.
ISOLATED = ["unshare", "--uts", "--ipc", "--pid", "--fork",
            "--kill-child=KILL", "--mount-proc",
            "sh", "-c", 'hostname "$0" && exec "$@"']


def name(host):
    return f"ucxp{os.getpid()}{host}"


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


def inside(host):
    """A prefix that runs a command in a host's network."""
    return ["ip", "netns", "exec", name(host)]


def on(host):
    """A prefix that runs a command on a host."""
    return [*inside(host), *ISOLATED, host]


def why_not():
    """Why hosts cannot be created, or None."""
    if shutil.which("ip") is None:
        return "there is no ip"
    if os.getuid() != 0:
        return "only root can make network name spaces"
    try:
        up()
        subprocess.run([*on("two"), "true"], check=True, text=True,
                       stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        return f"no name spaces: {error.stderr}"
    finally:
        down()
    return None


def up():
    for host in ADDRESSES:
        ip("netns", "add", name(host))
    ip("link", "add", "cable", "netns", name("one"), "type", "veth",
       "peer", "name", "cable", "netns", name("two"))
    for host, address in ADDRESSES.items():
        ip("-n", name(host), "address", "add", f"{address}/24", "dev", "cable")
        for link in ("lo", "cable"):
            ip("-n", name(host), "link", "set", link, "up")
    # The kernel needs some time to bring the link up.
    for host in ADDRESSES:
        while " UP " not in ip("-n", name(host), "-br", "link", "show",
                               "cable"):
            pass


def down():
    for host in ADDRESSES:
        subprocess.run(["ip", "netns", "del", name(host)],
                       stderr=subprocess.DEVNULL)
