# Two hosts on one machine, for tests that source this file (`. hosts.sh`):
# network namespaces with their own names and addresses, connected by a cable
# (veth). Skips the test (77) if the namespaces cannot be created.
#
#     hosts_up          $host_one and $host_two are up, at 10.213.7.1 and .2
#     hosts_link NAME   wait for the link of another cable
#     hosts_down        for the test's own trap
#     hosts_sent        bytes that host one has put on the cable

host_one=ucxp$$a
host_two=ucxp$$b

hosts_skip() {
    echo "skipped: $*"
    exit 77
}

hosts_down() {
    ip netns del "$host_one" 2>/dev/null || true
    ip netns del "$host_two" 2>/dev/null || true
}

hosts_connect() {
    ip netns add "$host_one" && ip netns add "$host_two" &&
        ip link add cable netns "$host_one" type veth \
            peer name cable netns "$host_two" &&
        ip -n "$host_one" address add 10.213.7.1/24 dev cable &&
        ip -n "$host_two" address add 10.213.7.2/24 dev cable &&
        ip -n "$host_one" link set lo up && ip -n "$host_two" link set lo up &&
        ip -n "$host_one" link set cable up &&
        ip -n "$host_two" link set cable up
}

hosts_up() {
    command -v ip >/dev/null 2>&1 || hosts_skip "there is no ip"
    [ "$(id -u)" -eq 0 ] || hosts_skip "only root can make network name spaces"
    hosts_log=$(hosts_connect 2>&1) ||
        hosts_skip "no network name spaces: $hosts_log"
    hosts_link cable
}

# The kernel takes a while to detect the link of a cable.
hosts_link() {
    for host in "$host_one" "$host_two"; do
        until ip -n "$host" -br link show "$1" | grep -q " UP "; do
            :
        done
    done
}

hosts_sent() {
    ip -n "$host_one" -s link show cable | awk '/TX:/ { getline; print $1 }'
}
