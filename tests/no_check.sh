#!/bin/sh
# Runs instead of the test programs if they were not built.
echo 'configure did not find the library Check, so no test program was built.'
echo 'Install it (Debian: check) and run configure again.'
exit 77
