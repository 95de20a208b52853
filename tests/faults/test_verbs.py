"""Each verb of the command line with each call failing: it does what it does without, or ends with 2, a word on
standard error and nothing half done; and then does what it always does."""

import os
import re
import shutil
import subprocess

import pytest

from faults import ENVIRONMENT, KINDS, PLAIN, PROGRAM, SECONDS_MAX, Control, Trial, output_of, steady

POLICY = """
limits:
  - name: per-user
    when: {path: /search*}
    key: user | ip
    limit: 10/1m
    overrides:
      - {when: {user: [alice, bob]}, limit: 20/1m}
    overrides-from: quotas.csv
  - {name: seats, key: ip, limit: concurrency 3 lease 1h, optional: true}
"""
QUOTAS = "key,limit\ncarol,30/1m\n"
LOG = "".join(f'192.0.2.{i % 3} - - [10/Oct/2025:13:55:{i % 60:02d} +0000] "GET /search?q={i} HTTP/1.1" 200 17\n'
              for i in range(40))
OPS = "".join(f"{i * 100} key{i % 3} {1 + i % 2}\n" for i in range(60))


class World:
    """A folder as it is before each run, and the program run in a copy."""

    def __init__(self, folder):
        self.pristine, self.folder = os.path.join(folder, "before"), os.path.join(folder, "now")
        self.control = Control()
        os.mkdir(self.pristine)
        self.write("policy.yaml", POLICY)
        self.write("quotas.csv", QUOTAS)
        self.write("access.log", LOG)
        self.write("traffic.ops", OPS)
        subprocess.run(["gzip", "-kn", "traffic.ops"], cwd=self.pristine, check=True)
        subprocess.run(["xz", "-k", "traffic.ops"], cwd=self.pristine, check=True)
        self.write("verdicts", "1\n" * 60)
        self.calm(["store", "create", "counters", "--memory", "1MiB"], self.pristine)
        self.calm(["check", "u", "100/1w", "--cost", "3", "--store", "counters"], self.pristine)
        self.calm(["check", "u", "sliding-log 100/1w", "--cost", "4", "--store", "counters"], self.pristine)
        self.calm(["acquire", "u", "concurrency 3 lease 1w", "--id", "old", "--store", "counters"], self.pristine)
        said = self.calm(["reserve", "u", "50/1w", "--cost", "2", "--ttl", "1d", "--store", "counters"], self.pristine)
        self.ticket = re.search(r"^ticket +(\S+)$", said, re.M).group(1)
        self.calm(["store", "dump", "counters", "-o", "counters.dump"], self.pristine)

    def write(self, name, text):
        with open(os.path.join(self.pristine, name), "w", encoding="utf-8") as file:
            file.write(text)

    def calm(self, argv, folder):
        """With nothing failing: what it says."""
        done = self.run(argv, folder=folder, armed=False)
        assert done.returncode == 0, done
        return done.stdout

    def renew(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        for name in os.listdir(self.pristine):
            if name.startswith("counters"):
                shutil.copyfile(os.path.join(self.pristine, name), os.path.join(self.folder, name))
            else:
                os.link(os.path.join(self.pristine, name), os.path.join(self.folder, name))

    def run(self, argv, stdin="", folder=None, armed=True):
        environment = {**ENVIRONMENT, **({"FAULTS": self.control.file.name} if armed else {})}
        data = stdin.encode()
        if stdin.endswith(".dump"):
            with open(os.path.join(self.pristine, stdin), "rb") as file:
                data = file.read()
        done = subprocess.run([PROGRAM, *argv], input=data, cwd=folder or self.folder, env=environment,
                              capture_output=True, timeout=SECONDS_MAX, check=False)
        done.stdout, done.stderr = (x.decode(errors="backslashreplace") for x in (done.stdout, done.stderr))
        return done

    def state(self):
        """What the store of the folder holds, or why it can't be said."""
        asked = [["inspect", *STORE, "--verify"],
                 ["inspect", *STORE, "u", "100/1w", "sliding-log 100/1w", "50/1w", "concurrency 3 lease 1w"]]
        done = [subprocess.run([PLAIN, *argv], cwd=self.folder, text=True, capture_output=True, timeout=SECONDS_MAX,
                               check=False) for argv in asked]
        return [steady(one.stdout + one.stderr) for one in done]


STORE = ["--store", "counters"]
REPLAY = {
    "ops": ["traffic.ops", "--limit", "10/1s"],
    "gz": ["traffic.ops.gz", "--limit", "sliding-log 10/1s", "--decisions"],
    "xz": ["traffic.ops.xz", "--limit", "10/1s", "--limit", "token-bucket 5/1s"],
    "log": ["access.log", "-c", "policy.yaml", "--hold", "3s"],
    "sorted": ["access.log", "--limit", "5/1m", "--sort", "--top", "2"],
    "audit": ["traffic.ops", "--limit", "10/1s", "--audit"],
    "judge": ["traffic.ops", "--limit", "sliding-log 10/1s", "--judge", "verdicts"],
    "lease": ["access.log", "--limit", "concurrency 2 lease 5s", "--hold", "3s"],
    "estimate": ["traffic.ops", "--limit", "sliding-log 10/1s", "--estimate", "5", "--commit-after", "1s"],
    "members": ["access.log", "--limit", "distinct 3/1d", "--key", "user | path", "--member", "ip"],
}
VERBS = {
    "version": (["version"], ""),
    "help": (["help", "check"], ""),
    "check": (["check", "u", "100/1w", "--next", *STORE], ""),
    "check log": (["check", "u", "sliding-log 100/1w", "token-bucket 9/1s", "--id", "a", *STORE], ""),
    "peek": (["check", "u", "100/1w", "--peek", *STORE], ""),
    "acquire": (["acquire", "u", "concurrency 3 lease 1w", "--id", "new", *STORE], ""),
    "release": (["release", "u", "old", "concurrency 3 lease 1w", *STORE], ""),
    "renew": (["renew", "u", "old", "concurrency 3 lease 1w", *STORE], ""),
    "holders": (["holders", "u", "concurrency 3 lease 1w", *STORE], ""),
    "reserve": (["reserve", "u", "50/1w", "--cost", "2", "--ttl", "1d", *STORE], ""),
    "commit": (["commit", "u", "TICKET", "5", *STORE], ""),
    "reset": (["reset", "u", "100/1w", *STORE], ""),
    "override": (["override", "set", "100/1w", "u", "200/1w", *STORE], ""),
    "override get": (["override", "get", "100/1w", "u", *STORE], ""),
    "override list": (["override", "list", *STORE], ""),
    "inspect": (["inspect", *STORE], ""),
    "inspect json": (["inspect", *STORE, "--json"], ""),
    "inspect key": (["inspect", *STORE, "u", "100/1w", "concurrency 3 lease 1w"], ""),
    "verify": (["inspect", *STORE, "--verify"], ""),
    "store create": (["store", "create", "other", "--memory", "1MiB"], ""),
    "store resize": (["store", "resize", "counters", "--memory", "2MiB"], ""),
    "store dump": (["store", "dump", "counters", "-o", "other.dump"], ""),
    "store load": (["store", "load", "other"], "counters.dump"),  # its standard input is that file
    "lint": (["lint", "policy.yaml"], ""),
    "check-config": (["serve", "--check-config", "-c", "policy.yaml"], ""),
    "explain": (["explain", "-c", "policy.yaml", "ip=192.0.2.1", "user=alice", "path=/search"], ""),
    "explain store": (["explain", "-c", "policy.yaml", "ip=192.0.2.1", "path=/search", *STORE], ""),
    "password": (["password", "ann"], "secret words\n"),
    "token": (["token", "api"], ""),
    "size": (["size", "--limit", "100/1m", "--keys", "1000"], ""),
    "bench": (["bench", "--limit", "100/1m", "--keys", "10", "--rounds", "1"], ""),
    **{f"replay {name}": (["replay", *words], "") for name, words in REPLAY.items()},
}
# What is told is of this moment, or of chance: only that it says something is compared.
UNSTEADY = {"bench", "password", "token", "inspect json", "inspect", "inspect key", "verify"}


SEEN = {}  # places in the code at which another verb's calls have failed already


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(str(tmp_path_factory.mktemp("faults")))
    yield made
    made.control.close()


def trouble_of(world, name, done, calm, states):
    """What is wrong about how it ended, or nothing."""
    if done.returncode not in (0, 1, 2):
        return f"ended with {done.returncode}"
    if "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        return "a sanitizer spoke"
    if done.returncode == 2 and not done.stderr.strip():
        return "ended with 2, and no word"
    if done.returncode != 2 and done.returncode != calm.returncode:
        return f"ended with {done.returncode}"
    if name == "lint" and done.returncode == 1 and ": error: " in done.stdout:
        return ""  # a file that the policy names can't be read: told in the policy's own line
    if done.returncode != 2 and name not in UNSTEADY and steady(done.stdout) != steady(calm.stdout):
        return f"another answer: {steady(done.stdout)[-400:]!r} for {steady(calm.stdout)[-400:]!r}"
    after = world.state()
    if after not in states:
        return f"left something half done: {after}"
    if done.returncode != 2 and after != states[1]:
        return f"did not do what it said: {after}"
    return ""


@pytest.mark.parametrize("name", VERBS)
def test_each_call_of_a_verb_fails_once(world, name):
    argv, stdin = VERBS[name]
    argv = [world.ticket if word == "TICKET" else word for word in argv]
    world.renew()
    states = [world.state()]
    world.control.arm(KINDS)
    calm = world.run(argv, stdin)
    assert calm.returncode in (0, 1), calm
    trial, words = Trial(world.control, "test_verbs.py", name), set()
    states.append(world.state())
    for armed in trial.cases(SEEN):
        world.renew()
        world.control.arm(**armed)
        try:
            done = world.run(argv, stdin)
            wrong = trouble_of(world, name, done, calm, states)
            words.add(f"{done.returncode} {done.stderr.strip()[:150]}")
        except subprocess.TimeoutExpired:
            wrong, done = f"not done after {SECONDS_MAX} s", None
        if wrong:
            trial.note(wrong, *output_of(done))
    if os.environ.get("SLUICE_FAULTS_WORDS"):
        print("\n".join(sorted(words)))
    trial.end()
