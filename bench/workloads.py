"""What is compared: the rows of the table, each a command on a server of its own, and the goals.

A server for each row, so that nobody's expiring keys are cleaned up in somebody else's time. Quotas and numbers of keys
are such that both sides of a comparison mostly admit: a denial is cheaper everywhere, and would flatter the faster
side, which comes back to a key sooner. The goal for logs is therefore measured on more keys where the server is faster,
never the easier case; beside it stands the row on the script's own number of keys, which mostly denies. The three-limit
rows have quotas a thousand times the article's for the same reason.
"""
import dataclasses
import json
import pathlib
import time

import harness

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
MILLION = 1000000
GET_VALUE = "100"  # a count; Redis shares such small numbers, so no GET is cheaper
THREE_JSON = json.dumps([[1, 10000], [60, 120000], [3600, 240000, 60]])
THREE_LIMITS = ["fixed-window 10k/1s", "fixed-window 120k/1m", "sliding-buckets 240k/1h precision 1m"]


@dataclasses.dataclass
class Row:
    name: str
    title: str
    kind: str              # "null", "redis", "sluice"; "sluice2": on two threads
    words: list            # a script's name stands as @name where its SHA goes
    keys: dict             # how many, by pipeline
    answer: object         # a predicate on the reply to one call
    allowed: object = 1    # what an admitting reply begins with; None where nothing is decided
    is_log: bool = False   # needs a whole window of warm-up to be full
    memory: str = "128MiB"
    mostly_denies: bool = False
    window_ms: int = 60000  # of %w and %v

    def concrete(self, key):
        """The command as one call would send it."""
        now_ms = int(time.time() * 1000)
        window = now_ms // self.window_ms
        holes = {"%k": key, "%t": now_ms, "%s": now_ms // 1000, "%w": window, "%v": window - 1, "%u": "1"}
        words = []
        for word in self.words:
            for hole, value in holes.items():
                word = str(word).replace(hole, str(value))
            words.append(word)
        return words

    def check(self, server):
        """Looks at one real reply before anything is timed."""
        connection = harness.Resp(server.port)
        try:
            reply = connection.call(*self.concrete("rl:user:000000000001"))
        except harness.ReplyError as error:
            harness.die(f"{self.name}: {' '.join(self.words)}: {error}")
        connection.close()
        if not self.answer(reply):
            harness.die(f"{self.name}: {' '.join(self.words)}: unexpected reply {reply!r}")


def seven(quota):
    return lambda reply: (isinstance(reply, list) and len(reply) == 7 and reply[0] == 1 and reply[1] == quota
                          and reply[2] < quota and reply[3] == 0)


def pair(reply):
    return isinstance(reply, list) and len(reply) == 3 and reply[0] == 1


ROWS = [
    Row("floor", "floor: a server that decides nothing", "null", ["SLUICE.CHECK", "%k", "1", "100/60s"],
        {1: MILLION, 64: MILLION}, seven(100), None),
    Row("get", "Redis GET", "redis", ["GET", "%k"], {1: MILLION, 64: MILLION}, lambda reply: reply == GET_VALUE, None),
    Row("counter", "Sluice 100/60s", "sluice", ["SLUICE.CHECK", "%k", "1", "100/60s"],
        {1: MILLION, 64: MILLION}, seven(100)),
    Row("hot", "Sluice 1G/60s, one key", "sluice", ["SLUICE.CHECK", "%k", "1", "1G/60s"], {1: 1, 64: 1},
        seven(1000000000)),
    Row("counter-2", "Sluice 100/60s, 2 threads (one beside the client)", "sluice2",
        ["SLUICE.CHECK", "%k", "1", "100/60s"], {1: MILLION, 64: MILLION}, seven(100)),
    Row("two-bucket-script", "Redis, two-bucket counter script", "redis",
        ["EVALSHA", "@two_bucket", "2", "%k:%w", "%k:%v", "100", "60000", "%t"], {1: MILLION, 64: MILLION}, pair),
    Row("three", "Sluice, three limits", "sluice", ["SLUICE.CHECK", "%k", "1", *THREE_LIMITS],
        {1: 100000, 64: 100000}, lambda reply: len(reply) == 7 and reply[0] == 1),
    Row("three-script", "Redis, three-limit hash script", "redis",
        ["EVALSHA", "@three_limit", "1", "%k", THREE_JSON, "%s", "1"], {1: 100000, 64: 100000},
        lambda reply: reply == 0, 0),
    Row("log", "Sluice sliding-log 10/10s", "sluice", ["SLUICE.CHECK", "%k", "1", "sliding-log 10/10s"],
        {1: 250000, 64: 3 * MILLION}, seven(10), is_log=True, memory="2GiB"),
    Row("log-denying", "Sluice sliding-log 10/10s, 150 k keys", "sluice",
        ["SLUICE.CHECK", "%k", "1", "sliding-log 10/10s"], {1: 150000, 64: 150000}, seven(10), is_log=True,
        mostly_denies=True),
    Row("log-script", "Redis, sorted-set log script, 10 in 10 s", "redis",
        ["EVALSHA", "@log", "1", "%k", "10", "10000", "%t", "%u"], {1: 150000, 64: 150000}, pair, is_log=True),
]

# (ours, theirs, pipeline, times cheaper in server CPU an operation; None: shown, no goal)
GOALS = [
    ("counter", "get", 1, 1.1),
    ("counter", "get", 64, 2.5),
    ("counter", "two-bucket-script", 64, 12.0),
    ("log", "log-script", 64, 20.0),
    ("three", "three-script", 64, 40.0),
    ("counter", "two-bucket-script", 1, None),
    ("log", "log-script", 1, None),
    ("log-denying", "log-script", 64, None),
    ("three", "three-script", 1, None),
    ("counter", "floor", 1, None),
    ("counter", "floor", 64, None),
    ("hot", "floor", 64, None),
]


def load_script(server, name):
    """Loads one of bench/scripts, or our own script that was built, into a Redis; returns its SHA."""
    folder = harness.BUILD if name.startswith("sluice") else SCRIPTS
    connection = harness.Resp(server.port)
    sha = connection.call("SCRIPT", "LOAD", (folder / f"{name}.lua").read_bytes())
    connection.close()
    return sha


def start_servers(rows):
    """A server a row, filled and with its script loaded; the rows' @names become SHAs."""
    servers = {}
    for row in rows:
        if row.kind == "null":
            servers[row.name] = harness.start_null("respnull")
        elif row.kind.startswith("sluice"):
            threads = 2 if row.kind == "sluice2" else 1
            servers[row.name] = harness.start_sluice(f"sluice-{row.name}", row.memory, threads)
        else:
            server = servers[row.name] = harness.start_redis(f"redis-{row.name}")
            row.words = [load_script(server, word[1:]) if word.startswith("@") else word for word in row.words]
        if row.name == "get":
            harness.load(servers["get"], ["SET", "%k", GET_VALUE], requests=max(row.keys.values()), sequential=True,
                         keys=max(row.keys.values()), pipeline=64)
    return servers
