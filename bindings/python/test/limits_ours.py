"""A plugin for pytest: limits' own tests, as its source distribution has them, ask our storages in place of their own.

What they parametrize by storages is by OUR_STORAGES, each storage with keys of its own, as theirs are emptied before
each test; what they ask of `memory://` is asked of `sluice+memory://`."""
import os
import uuid

import limits.aio.storage
import limits.storage
import pytest
import tests.utils as utils

import sluice.limits

URLS = os.environ["OUR_STORAGES"].split()


def storages(before=""):
    return pytest.mark.parametrize("uri, args, fixture", [
        pytest.param(before + url, {"timeout": 10000}, None, id=url.split(":")[0]) for url in URLS])


def with_keys_of_its_own(begin):
    def init(self, uri, wrap_exceptions=False, **options):
        begin(self, uri, wrap_exceptions, **{"key_prefix": uuid.uuid4().hex, **options})
    return init


for kind in (sluice.limits.SluiceStorage, sluice.limits.AsyncSluiceStorage):
    kind.__init__ = with_keys_of_its_own(kind.__init__)


class Ours(sluice.limits.SluiceStorage):
    STORAGE_SCHEME = ["memory"]

    def __init__(self, uri, **options):
        super().__init__("sluice+memory://", **options)


class AsyncOurs(sluice.limits.AsyncSluiceStorage):
    STORAGE_SCHEME = ["async+memory"]

    def __init__(self, uri, **options):
        super().__init__("async+sluice+memory://", **options)


utils.all_storage = utils.moving_window_storage = utils.sliding_window_counter_storage = storages()
utils.async_all_storage = utils.async_moving_window_storage = storages("async+")
utils.async_sliding_window_counter_storage = storages("async+")
limits.storage.MemoryStorage, limits.aio.storage.MemoryStorage = Ours, AsyncOurs
