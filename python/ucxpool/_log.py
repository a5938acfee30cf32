"""Passes the library's log messages to `logging`."""
import logging
import os
import sys
import threading
import time

logger = logging.getLogger("ucxpool")

# If this variable is set, the library logs as in a C program: to stderr, at
# the level of the variable.
IS_USED = "UCXPOOL_LOG_LEVEL" not in os.environ

# Indexed by ucxpool_log_level_t. logging has no name for the last, "trace".
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO,
           logging.DEBUG, 5)
_WORDS = ("none", "error", "warn", "info", "debug", "trace")

# Threads that are in tell().
_telling = set()


def level():
    """Return the library's level for the lowest level that the logger has
    enabled."""
    number = 0
    while (number + 1 < len(_LEVELS)
           and logger.isEnabledFor(_LEVELS[number + 1])):
        number += 1
    return number


def level_word():
    """Return level() as a value of the setting LOG_LEVEL."""
    return _WORDS[level()]


def tell(take):
    """Log what take() returns: a list of (level, time, text), and the number
    of lost messages."""
    me = threading.get_ident()
    if me in _telling:
        return  # a log handler uses the library: log it later
    _telling.add(me)
    try:
        messages, num_lost = take()
        for message in messages:
            _log(*message)
        if num_lost:
            _log(2, time.time(), f"{num_lost} more messages were lost")
    finally:
        _telling.remove(me)


def forget(take):
    """Discard the messages in a forked child: its parent logs them. No thread
    of the child is in tell()."""
    take()
    _telling.clear()


def _log(number, when, text):
    if not logger.isEnabledFor(_LEVELS[number]):
        return
    record = logger.makeRecord("ucxpool", _LEVELS[number], "libucxpool", 0,
                               text, (), None)
    record.created = when
    record.msecs = int(when % 1 * 1000) + 0.0
    try:
        logger.handle(record)
    except Exception as error:  # from a filter or a log handler
        sys.excepthook(type(error), error, error.__traceback__)
