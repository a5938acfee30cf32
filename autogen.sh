#!/bin/sh
# Make ./configure in a git checkout.
cd "$(dirname "$0")" && exec autoreconf -fi
