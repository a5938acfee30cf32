"""Dask clusters in the process of a test."""
import functools
from unittest import mock

import dask
import distributed.utils_test
from distributed.utils_test import gen_cluster


class NoCluster(BaseException):
    """Not an Exception, after which gen_cluster would retry forever."""


async def start_or_fail(*words, **more):
    try:
        return await utils_test_start_cluster(*words, **more)
    except Exception as error:
        raise NoCluster from error


utils_test_start_cluster = distributed.utils_test.start_cluster


def on_cluster(client=True, config={}, **words):
    """Decorate a test that gen_cluster runs with a client, a scheduler and
    workers, within longer limits than its own. Nothing removes replicas after a
    few seconds."""
    config = {"distributed.comm.timeouts.connect": "60s",
              "distributed.scheduler.active-memory-manager.start": False,
              **config}

    def wrap(test):
        @functools.wraps(test)
        def run(self):
            async def inside(*servers):
                await test(self, *servers)

            with dask.config.set(config), mock.patch(  # also for the pools
                    "distributed.utils_test.start_cluster", start_or_fail):
                gen_cluster(client=client, timeout=1800, config=config,
                            **words)(inside)()

        return run

    return wrap
