"""What a user of Redis can do to another's counters through the module: nothing. Tickets name keys that no argument of
their command does, so the module itself asks whether the user may change them; and effects, which make of a counter
whatever they say, are taken from a primary and an append-only file only."""

import base64
import shutil
import subprocess

import pytest

from harness import DEADLINE_S, RespError
from redis_world import replicate, synced
from test_module_persist import append_only, commands_of, differences, picture, still  # noqa: F401 - a fixture

LEASES, LOG = "concurrency 2 lease 10m", "sliding-log 100/1h"


def forged(number, limit, *keys):
    """A ticket of that number for keys that its maker chose (proto/ticket.c)."""
    packed = b"\1"
    for i, key in enumerate(keys):
        packed += bytes([1 | (4 if i + 1 == len(keys) else 0)]) + len(key).to_bytes(2, "little") + key.encode()
        packed += bytes([len(limit)]) + limit.encode()
    return number + "." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


@pytest.fixture
def world(redises):
    """A server, alice who may use a:*, bob who may use b:* and holds something under names of his own."""
    one = redises(module=())
    with one.resp() as admin, one.resp() as alice, one.resp() as bob:
        admin.call("ACL", "SETUSER", "alice", "on", ">p", "~a:*", "%R~b:*", "+@all")
        admin.call("ACL", "SETUSER", "bob", "on", ">p", "~b:*", "+@all")
        admin.call("ACL", "SETUSER", "both", "on", ">p", "~a:*", "~b:*", "+@all", "-acl")
        alice.call("AUTH", "alice", "p")
        bob.call("AUTH", "bob", "p")
        assert bob.call("SLUICE.ACQUIRE", "b:jobs", 1, "ID", "job-7", LEASES)[7] == b"job-7"
        bob.call("SLUICE.RESERVE", "b:quota", 5, 600_000, "ID", "job-7", LOG)
        # the number of a name is the same for everybody
        alice.call("SLUICE.ACQUIRE", "a:jobs", 1, "ID", "job-7", LEASES)
        number = alice.call("SLUICE.HOLDERS", "a:jobs", LEASES)[0][0].decode()
        alice.call("SLUICE.RELEASE", "a:jobs", "job-7", LEASES)
        yield one, admin, alice, bob, number


def refusal(client, *words):
    with pytest.raises(RespError) as caught:
        client.call(*words)
    return str(caught.value)


def of_bob(bob):
    return [bob.call("DUMP", key) for key in ("b:jobs", "b:quota")]


def test_a_forged_ticket_reaches_nobody_s_keys(world):
    one, admin, alice, bob, number = world
    before = of_bob(bob)
    lease, cost = forged(number, LEASES, "b:jobs"), forged(number, LOG, "b:quota")
    mixed = forged(number, LOG, "a:x", "b:quota")
    calls = [["SLUICE.RELEASE", "a:x", lease], ["SLUICE.RENEW", "a:x", lease],
             ["SLUICE.COMMIT", "a:x", cost, 4 * 10**9], ["SLUICE.COMMIT", "a:x", cost, 0],
             ["SLUICE.COMMIT", "a:x", mixed, 1], ["SLUICE.COMMIT", "a:x", mixed, 1, "EACH"]]
    for words in calls:
        assert refusal(alice, *words).startswith("NOPERM "), words
        script = ["EVAL", "return redis.call(unpack(ARGV))", 1, "a:x", *words]
        assert "NOPERM " in refusal(alice, *script), words
        alice.call("MULTI")
        alice.call(*words)
        assert str(alice.call("EXEC")[0]).startswith("NOPERM "), words
    assert of_bob(bob) == before
    assert bob.call("SLUICE.PEEK", "b:quota", 0, LOG)[2] == 95
    assert len(bob.call("SLUICE.HOLDERS", "b:jobs", LEASES)) == 1
    told = [dict(zip(entry[::2], entry[1::2])) for entry in admin.call("ACL", "LOG")]
    assert {(e[b"username"], e[b"reason"]) for e in told} == {(b"alice", b"key")}
    assert {e[b"object"] for e in told} >= {b"b:jobs", b"b:quota"}
    assert one.alive()


def test_an_own_ticket_is_good(world):
    _, admin, alice, bob, number = world
    # whoever may change all its keys: bob by the first argument, and by a key that is in the ticket alone
    assert bob.call("SLUICE.RENEW", "b:x", forged(number, LEASES, "b:jobs")) == 1
    assert bob.call("SLUICE.COMMIT", "b:quota", forged(number, LOG, "b:quota"), 7)[2] == 93
    admin.call("AUTH", "both", "p")
    assert admin.call("EVAL", "return redis.call(unpack(ARGV))", 1, "a:x", "SLUICE.RELEASE", "a:x",
                      forged(number, LEASES, "b:jobs")) == 1
    # a key that is not there is held to the same, so nobody learns which are
    assert refusal(alice, "SLUICE.RELEASE", "a:x", forged(number, LEASES, "b:none")).startswith("NOPERM ")
    assert alice.call("SLUICE.RELEASE", "a:x", forged(number, LEASES, "a:none")) == 0
    ticket = alice.call("SLUICE.RESERVE", "a:one", 5, 60_000, LOG, "KEY", "a:two", LOG)[7]
    assert alice.call("SLUICE.COMMIT", "a:one", ticket, 3)[0] == 1
    assert [alice.call("SLUICE.PEEK", key, 0, LOG)[2] for key in ("a:one", "a:two")] == [97, 97]


def test_a_user_who_is_gone(world):
    """One who is deleted, or switched off, is sent away by the server; what is under way of him meets a user's end."""
    one, admin, alice, bob, number = world
    admin.call("ACL", "SETUSER", "alice", "off")
    assert refusal(alice, "SLUICE.RELEASE", "a:x", forged(number, LEASES, "b:jobs")).startswith("NOPERM ")
    admin.call("ACL", "SETUSER", "alice", "reset")
    assert refusal(alice, "SLUICE.RELEASE", "a:x", forged(number, LEASES, "b:jobs")).startswith("NOPERM ")
    assert one.alive() and len(bob.call("SLUICE.HOLDERS", "b:jobs", LEASES)) == 1


# ---- effects ---------------------------------------------------------------------------------------------------------

def charged(redises, **options):
    """A server with an append-only file, what it holds, and the effects that it wrote."""
    one = redises(options=["--appendonly", "yes", "--appendfsync", "always"], **options)
    with one.resp() as client:
        for n in range(20):
            client.call("SLUICE.CHECK", f"k:{n % 4}", 1 + n, "1000/1h", LOG)
        client.call("SLUICE.RESERVE", "k:5", 3, 600_000, LOG)
        seen = picture(client)
    return one, seen, [w for w in commands_of(append_only(one)) if w[0].upper() == b"SLUICE.EFFECT"]


def test_effects_of_clients_are_refused(redises, still):
    one, before, effects = charged(redises, clock=still)
    with one.resp() as client:
        client.call("ACL", "SETUSER", "writer", "on", ">p", "~*", "+@all")
        for user in ("default", "writer"):
            if user == "writer":
                client.call("AUTH", "writer", "p")
            for words in effects:
                assert refusal(client, *words).startswith("NOPERM SLUICE.EFFECT ")
            assert "NOPERM" in refusal(client, "EVAL", "return redis.call(unpack(ARGV))", 1, effects[0][1], *effects[0])
            client.call("MULTI")
            client.call(*effects[0])
            assert str(client.call("EXEC")[0]).startswith("NOPERM ")
        assert differences(before, picture(client)) == []
    one.restart()  # the file is read as before
    with one.resp() as client:
        assert differences(before, picture(client)) == []


def test_effects_of_a_primary_are_taken(redises):
    first, second = redises(), redises(options=["--replica-read-only", "no"])
    replicate(first, second)
    with first.resp() as client, second.resp() as other:
        for n in range(20):
            client.call("SLUICE.CHECK", f"k:{n % 4}", 1 + n, LOG)
        client.call("MULTI")
        client.call("SLUICE.CHECK", "k:0", 1, LOG)
        client.call("SLUICE.CHECK", "k:1", 1, LOG)
        client.call("EXEC")
        synced(first, second)
        for n in range(4):
            assert other.call("SLUICE.PEEK", f"k:{n}", 0, LOG)[2] == client.call("SLUICE.PEEK", f"k:{n}", 0, LOG)[2]
        assert refusal(other, "SLUICE.EFFECT", "k:0", -1, "x").startswith("NOPERM ")


def test_migration_tools_may_be_let_through(redises, still):
    """redis-cli --pipe of an append-only file, which is what such tools send."""
    one, before, effects = charged(redises, clock=still)
    two = redises(module=("client-effects", "yes", "client-time", "yes"), clock=still)
    data = append_only(one)
    data = data[data.index(b"*2\r\n$6\r\nSELECT"):]
    done = subprocess.run([shutil.which("redis-cli"), "-p", str(two.port), "--pipe"], input=data, capture_output=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 0 and b"errors: 0" in done.stdout, done
    with two.resp() as client:
        assert differences(before, picture(client)) == []
    assert len(effects) == 21
