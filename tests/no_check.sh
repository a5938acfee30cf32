#!/bin/sh
# Runs where the test programs do not.
echo 'The library Check was not there when configure ran, so no test program was'
echo 'built. Install it (Debian: check) and run configure again.'
exit 77
