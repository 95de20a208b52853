"""Nothing is noted where nobody listens (hosts/redis/listen.c): so whoever begins to, at any moment, must get all.

The server's rounds are made quick (`hz 500`), so that the module has long found out that nobody listens.
"""

import time

import pytest

from harness import wait_until

LIMITS = ["100/1h", "sliding-log 100/1h", "sliding-buckets 100/1h precision 1m", "token-bucket 100/1h"]
QUIET_S = 0.4  # many times as long as the module takes to find out


def charge(client, start, count):
    for i in range(start, start + count):
        client.call("SLUICE.CHECK", f"k{i % 17}", "1", *LIMITS)


def picture(client):
    return client.call("DEBUG", "DIGEST")


def until_it_is_quiet(client):
    client.call("CONFIG", "SET", "hz", "500")
    time.sleep(QUIET_S)


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_replica_that_comes_late(redises, diskless):
    primary = redises(options=["--repl-diskless-sync", diskless])
    with primary.resp() as client:
        until_it_is_quiet(client)
        charge(client, 0, 100)
        replica = redises(options=["--replicaof", f"127.0.0.1 {primary.port}"])
        for i in range(200):  # before, while and after it gets its snapshot
            charge(client, i, 20)
        with replica.resp() as other:
            wait_until(lambda: b"master_link_status:up" in other.call("INFO", "replication"), "no replica came")
            until_it_is_quiet(client)  # a replica listens: it is asked again and again
            charge(client, 0, 300)
            wait_until(lambda: picture(other) == picture(client), "primary and replica differ")


def test_an_append_only_file_that_is_switched_on(redises):
    redis = redises(options=["--appendfsync", "always"])
    with redis.resp() as client:
        until_it_is_quiet(client)
        charge(client, 0, 100)
        client.call("CONFIG", "SET", "appendonly", "yes")
        charge(client, 7, 500)
        wait_until(lambda: b"aof_rewrite_in_progress:0" in client.call("INFO", "persistence"), "no end of it")
        until_it_is_quiet(client)
        charge(client, 3, 500)
        before = picture(client)
        client.call("DEBUG", "LOADAOF")
        assert picture(client) == before


def test_changes_count_for_the_points_of_saving(redises):
    redis = redises()
    with redis.resp() as client:
        until_it_is_quiet(client)

        def changes():
            info = client.call("INFO", "persistence").decode()
            return int(info.split("rdb_changes_since_last_save:")[1].split()[0])
        before = changes()
        charge(client, 0, 50)
        assert changes() == before + 50
        client.call("SLUICE.PEEK", "k1", "1", *LIMITS)
        client.call("SLUICE.CHECK", "k1", "1000", *LIMITS)
        assert changes() == before + 50
