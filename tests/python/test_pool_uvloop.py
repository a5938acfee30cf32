"""Runs the tests of test_pool.py and test_pool_loop.py under uvloop."""
import asyncio
import unittest

import uvloop

import test_pool
import test_pool_loop


class UnderUvloop:
    def _setupAsyncioRunner(self):
        self._asyncioRunner = asyncio.Runner(
            debug=True, loop_factory=uvloop.new_event_loop)


class Messages(UnderUvloop, test_pool.Messages):
    pass


class MessagesOverUcx(UnderUvloop, test_pool.MessagesOverUcx):
    pass


class Ends(UnderUvloop, test_pool.Ends):
    def test_event_loop_is_uvloop(self):
        self.assertIsInstance(self._asyncioRunner.get_loop(), uvloop.Loop)


class Listeners(UnderUvloop, test_pool.Listeners):
    pass


class Busy(UnderUvloop, test_pool_loop.Busy):
    pass


class Awaiting(UnderUvloop, test_pool_loop.Awaiting):
    pass


class ThreadsNextToALoop(UnderUvloop, test_pool_loop.ThreadsNextToALoop):
    pass


if __name__ == "__main__":
    unittest.main()
