"""What earlier commits have written is read, and answered about as it should be: stores, dumps, RDB files, append-only
files as they were written and as they were rewritten, the effects in them sent by a client, the script's hashes.

Beside each file in tests/golden stand commands, in their order, and their replies, at instants of the year 2100: peeks,
holders, explanations, commits and releases by the tickets that were given, retries, refunds. A file there is never made
again, whatever these tests say of it: see tests/golden/README.md."""

import glob
import os
import re
import subprocess

import golden
import pytest
from golden import FOLDER, plain, read_answers, same, unpack, write_bytes

KINDS = ("store", "store.dump", "store.json", "redis.rdb", "redis.aof", "redis.rewritten.aof", "redis.json", "many.rdb",
         "many.json", "script.json")


def each(name):
    """A test for each commit that has such a file."""
    return pytest.mark.parametrize("commit", sorted(os.path.basename(os.path.dirname(path))
                                                    for path in glob.glob(f"{FOLDER}/*/{name}.xz")))


def compare(ask, answers):
    """Gives all commands, and then says of all replies that differ what they were."""
    other = []
    for words, *replies in answers["asked"]:
        now = plain(ask(words))
        if not same(now, replies[-1]):
            other.append(f"{' '.join(map(str, words))}\n   was {replies[-1]}\n   now {now}")
    assert not other, f"{len(other)} of {len(answers['asked'])} replies differ:\n" + "\n".join(other[:20])


# ---- the server's store ----------------------------------------------------------------------------------------------

@each("store")
def test_a_store(sluice_bin, tmp_path, commit):
    answers = read_answers(commit, "store.json")
    with golden.open_store(sluice_bin, answers, unpack(commit, "store"), str(tmp_path)) as ask:
        compare(ask, answers)


@each("store.dump")
def test_a_dump(sluice_bin, tmp_path, commit):
    answers = read_answers(commit, "store.json")
    with golden.open_dump(sluice_bin, answers, unpack(commit, "store.dump"), str(tmp_path)) as ask:
        compare(ask, answers)


@each("store")
def test_a_store_is_found_sound(sluice_bin, tmp_path, commit):
    write_bytes(tmp_path / "counters", unpack(commit, "store"))
    done = subprocess.run([sluice_bin, "inspect", "--store", tmp_path / "counters", "--verify"], capture_output=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- Redis -----------------------------------------------------------------------------------------------------------

@each("redis.rdb")
def test_an_rdb_file(commit):
    with golden.open_rdb(unpack(commit, "redis.rdb")) as ask:
        compare(ask, read_answers(commit, "redis.json"))


@each("many.rdb")
def test_an_rdb_file_of_many_members(commit):
    with golden.open_rdb(unpack(commit, "many.rdb")) as ask:
        compare(ask, read_answers(commit, "many.json"))


@each("redis.aof")
def test_an_append_only_file(commit):
    with golden.open_aof(unpack(commit, "redis.aof")) as ask:
        compare(ask, read_answers(commit, "redis.json"))


@each("redis.rewritten.aof")
def test_a_rewritten_append_only_file(commit):
    with golden.open_aof(unpack(commit, "redis.rewritten.aof")) as ask:
        compare(ask, read_answers(commit, "redis.json"))


@each("redis.aof")
def test_effects(commit):
    with golden.open_effects(unpack(commit, "redis.aof")) as ask:
        compare(ask, read_answers(commit, "redis.json"))


# ---- the script ------------------------------------------------------------------------------------------------------

@each("script.json")
def test_hashes_of_the_script(commit):
    answers = read_answers(commit, "script.json")
    with golden.open_hashes(answers) as ask:
        compare(ask, answers)


# ---- that something was read -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_file_of_each_kind(kind):
    found = glob.glob(f"{FOLDER}/*/{kind}.xz")
    assert found and all(os.path.getsize(path) > 200 for path in found)


def take(data, at, length):
    assert at + length <= len(data)
    return int.from_bytes(data[at:at + length], "little"), at + length


NOTES = range(1, 17)  # enum slr_note
NOTE_BYTES = {1: 16, 2: 12, 5: 0, 6: 20, 7: 16, 8: 16, 9: 16, 10: 16, 12: 32, 13: 16, 14: 8, 15: 36, 16: 4}


def note_end(data, at):
    """Behind a note's kind, and where it ends: hosts/redis/note.h."""
    kind, at = data[at], at + 17
    if kind in NOTE_BYTES:
        return kind, at + NOTE_BYTES[kind]
    if kind == 3:  # a whole counter: its block, and then its holds
        length, at = take(data, at + 40, 4)
        at += length
    count, at = take(data, at, 4)
    return kind, at + count * (28 if kind == 11 else 24)


def commands_of(data):
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        count, at, words = int(data[at + 1:end]), end + 2, []
        for _ in range(count):
            end = data.index(b"\r\n", at)
            length = int(data[at + 1:end])
            words.append(data[end + 2:end + 2 + length])
            at = end + 2 + length + 2
        yield words


def notes_of(commit):
    for words in commands_of(unpack(commit, "redis.aof")):
        at = 0
        while words[0] == b"SLUICE.EFFECT" and at < len(words[3]):
            kind, at = note_end(words[3], at)
            yield kind


def test_there_are_effects_of_each_kind():
    commits = [os.path.basename(os.path.dirname(path)) for path in glob.glob(f"{FOLDER}/*/redis.aof.xz")]
    assert {kind for commit in commits for kind in notes_of(commit)} == set(NOTES)


def test_there_are_values_of_each_version():
    """The first byte of each value's string (hosts/redis/codec.h), behind the key and the type's number."""
    found = set()
    for path in glob.glob(f"{FOLDER}/*/redis.rdb.xz"):
        data = unpack(os.path.basename(os.path.dirname(path)), "redis.rdb")
        number = re.search(rb"\x05one:0(\x81.{8})\x05", data, re.S)[1]
        found |= {value[1] for value in re.findall(re.escape(number) + rb"\x05([\x00-\x3f]|[\x40-\x7f].|\x80.{4})(.)",
                                                   data, re.S)}
    assert found == {b"\1", b"\2", b"\3"}


@pytest.mark.parametrize("kind,words", [
    ("store", "fixed-window 90/1m sliding-log sliding-buckets token-bucket leaky-bucket distinct concurrency /month "
              "/day HOLDERS EXPLAIN COMMIT RENEW RELEASE REFUND RESET request-1 policy:login policy:metered "
              "policy:counted team:own many policy:at-a-time policy:tokens"),
    ("redis", "fixed-window 90/1m sliding-log sliding-buckets token-bucket leaky-bucket distinct concurrency /month "
              "/day HOLDERS COMMIT RENEW RELEASE REFUND RESET request-1 penalty count-denied metered CONFIRM CANCEL "
              "LEASE team:own"),
    ("script", "fixed-window 90/1m sliding-log sliding-buckets token-bucket leaky-bucket distinct concurrency HOLDERS "
               "RENEW RELEASE REFUND RESET request-1 metered CONFIRM CANCEL LEASE")])
def test_all_that_is_kept_is_asked_about(kind, words):
    asked = {one for path in glob.glob(f"{FOLDER}/*/{kind}.json.xz")
             for row in read_answers(os.path.basename(os.path.dirname(path)), f"{kind}.json")["asked"]
             for one in [" ".join(map(str, row[0]))]}
    assert [word for word in words.split() if not any(word in one for one in asked)] == []
