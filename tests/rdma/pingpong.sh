#!/bin/sh
# The device transfers messages between two processes, without UCX and the pool.
set -eu

ibv_rc_pingpong -g 0 -n 200 >server 2>&1 &
server=$!
# The client's connection is refused until the server listens.
until ibv_rc_pingpong -g 0 -n 200 127.0.0.1 >client 2>&1; do
    kill -0 $server 2>/dev/null || { cat server client; exit 1; }
done
wait $server || { cat server client; exit 1; }
cat client
grep -q '^1638400 bytes' client
