"""What the library logs, through `logging`."""
import logging
import os
import sys
import threading
import time

logger = logging.getLogger("ucxpool")

# Where the variable is set, it is as in a program in C: lines on stderr, of
# that level.
IS_USED = "UCXPOOL_LOG_LEVEL" not in os.environ

# By ucxpool_log_level_t. There is no name for the last, "trace", in logging.
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO,
           logging.DEBUG, 5)
_WORDS = ("none", "error", "warn", "info", "debug", "trace")

# Threads that are in tell().
_telling = set()


def level():
    """The last level that the logger is enabled for, as the library's."""
    number = 0
    while (number + 1 < len(_LEVELS)
           and logger.isEnabledFor(_LEVELS[number + 1])):
        number += 1
    return number


def level_word():
    """The same as the setting LOG_LEVEL takes it."""
    return _WORDS[level()]


def tell(take):
    """Log what take() returns: messages, each a level, a time and a text, and
    how many were lost."""
    me = threading.get_ident()
    if me in _telling:
        return  # a handler uses the library: later
    _telling.add(me)
    try:
        messages, num_lost = take()
        for message in messages:
            _log(*message)
        if num_lost:
            _log(2, time.time(), f"{num_lost} messages more, which are lost")
    finally:
        _telling.remove(me)


def forget(take):
    """In a forked child: what is there is its parent's to tell, and none of
    its threads is telling."""
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
    except Exception as error:  # of a filter, or of a careless handler
        sys.excepthook(type(error), error, error.__traceback__)
