"""A real Redis Cluster for tests: three primaries and three replicas of redis-server, and what can befall them.

    with Cluster() as cluster:                      all on 127.0.0.1
    with Cluster(islands=1) as cluster:             the first primary lives in a network namespace (needs root)

A node can be killed (SIGKILL), paused (SIGSTOP), started again; slots can be moved while clients are at work; a node on
an island can be cut off from all others by taking its link down, which breaks no connection: bytes just come no more.
Everything is ended by its process id; namespaces go with the cluster, and what a run before left is swept up.

Ports are taken from below the range that the kernel gives to clients: a node that is killed finds its own free again.

Where there is an island, all nodes meet at addresses of 198.18.0.0/15, which is set aside for tests of networks: the
island has the second of a /30, all others the first, which is theirs even while the link is down.
"""

import contextlib
import glob
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest
from redis.crc import key_slot

from foreign import redis_server
from harness import DEADLINE_S, Closed, Resp, RespError, encode, wait_until
from ports import free_ports

PRIMARIES, REPLICAS = 3, 3
SLOTS = 16384
NODE_TIMEOUT_MS = 1000
PATIENT_MS = 15000
NAMESPACE = "sluice-e2e-{}"


def slot_of(key):
    return key_slot(key if isinstance(key, bytes) else key.encode())


class Link(Resp):
    """The client of harness.py, to any address."""

    def __init__(self, address, timeout=DEADLINE_S):
        self.sock = socket.create_connection(address, timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""


# ---- an island ------------------------------------------------------------------------------------------------------

def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=DEADLINE_S)


def why_no_islands():
    """The reason why this process can make no network namespace; None where it can."""
    if os.geteuid() != 0:
        return "a network namespace can be made by root only"
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "a network namespace needs ip and nsenter: apt-get install iproute2 util-linux"
    name = NAMESPACE.format(os.getpid()) + "t"
    made = ip("netns", "add", name, check=False)
    if made.returncode != 0:
        return "this machine allows no network namespaces: " + made.stderr.strip()
    ip("netns", "del", name, check=False)
    return None


def sweep_islands():
    """Removes the namespaces of test runs that are no more."""
    for path in glob.glob("/run/netns/" + NAMESPACE.format("*")):
        found = re.fullmatch(r".*-(\d+)[a-z]?", path)
        if found and not os.path.exists(f"/proc/{found[1]}"):
            ip("netns", "del", os.path.basename(path), check=False)


class Island:
    """A network namespace with one link to the rest. Where the link is down, both sides send into the void."""

    def __init__(self):
        sweep_islands()
        self.name = NAMESPACE.format(os.getpid())
        self.outside, self.inside = f"sle{os.getpid()}o", f"sle{os.getpid()}i"
        net = random.randrange(1 << 15)
        base = f"198.{18 + (net >> 14)}.{(net >> 6) & 255}."
        self.mainland, self.address = base + str((net & 63) * 4 + 1), base + str((net & 63) * 4 + 2)
        ip("netns", "add", self.name)
        try:
            ip("link", "add", self.outside, "type", "veth", "peer", "name", self.inside, "netns", self.name)
            ip("address", "add", self.mainland + "/30", "dev", self.outside)
            ip("link", "set", self.outside, "up")
            ip("-n", self.name, "address", "add", self.address + "/30", "dev", self.inside)
            ip("-n", self.name, "link", "set", "lo", "up")
            self.join()
        except BaseException:
            self.close()
            raise

    def enter(self):
        """What stands before a command that is to run there."""
        return ["nsenter", "--net=/run/netns/" + self.name]

    def cut_off(self):
        self.is_down = True
        ip("-n", self.name, "link", "set", self.inside, "down")

    def join(self):
        self.is_down = False
        ip("-n", self.name, "link", "set", self.inside, "up")

    def close(self):
        ip("netns", "del", self.name, check=False)  # its link goes with it, once the last process there has ended


# ---- nodes ----------------------------------------------------------------------------------------------------------

class Node:
    """One redis-server of a cluster."""

    def __init__(self, folder, host, ports, arguments, enter=()):
        self.folder, self.host, (self.port, self.bus) = folder, host, ports
        self.arguments, self.enter = arguments, list(enter)
        self.process = self.link = None
        self.paused = False
        os.mkdir(folder)
        self.start()

    def __repr__(self):
        return f"{self.host}:{self.port}"

    @property
    def address(self):
        return self.host, self.port

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [*self.enter, redis_server(), "--port", str(self.port), "--cluster-port", str(self.bus), "--bind",
                 self.host, "--cluster-announce-ip", self.host, "--cluster-enabled", "yes", "--dir", self.folder,
                 "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-require-full-coverage", "no",
                 "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--protected-mode", "no",
                 "--repl-timeout", "5", "--enable-debug-command", "yes", *self.arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def answers(self):
        assert self.process.poll() is None, self.log()
        try:
            return self.call("PING") == b"PONG"
        except (OSError, Closed, RespError):
            return False

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def call(self, *words):
        """On a connection of its own, which is made again where it broke before (and not where it breaks now)."""
        if self.link is None:
            self.link = Link(self.address)
        try:
            return self.link.call(*words)
        except (OSError, Closed):
            self.hang_up()
            raise

    def hang_up(self):
        if self.link is not None:
            self.link.close()
            self.link = None

    def info(self, section):
        return dict(line.split(":", 1) for line in self.call("INFO", section).decode().split("\r\n") if ":" in line)

    def id(self):
        return self.call("CLUSTER", "MYID").decode()

    def is_primary(self):
        return self.call("ROLE")[0] == b"master"

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, number=signal.SIGTERM):
        self.hang_up()
        if self.alive():
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def pause(self):
        self.paused = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.paused = False
        self.process.send_signal(signal.SIGCONT)


# ---- the cluster ----------------------------------------------------------------------------------------------------

class Cluster:
    """Three primaries, `nodes[:3]` as they begin, and a replica of each, `nodes[3:]` in the same order."""

    def __init__(self, module=None, islands=0):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-cluster-")
        self.nodes, self.island = [], None
        arguments = ["--loadmodule", *module] if module else []
        try:
            self.island = Island() if islands else None
            ports = free_ports(2 * (PRIMARIES + REPLICAS))
            for i in range(PRIMARIES + REPLICAS):
                there = self.island is not None and i == 0
                host = self.island.address if there else self.island.mainland if self.island else "127.0.0.1"
                self.nodes.append(Node(os.path.join(self.folder.name, str(i)), host, ports[2 * i: 2 * i + 2],
                                       arguments, self.island.enter() if there else ()))
            self.meet()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.nodes:
            node.end(signal.SIGKILL)  # there is nothing to be saved
        if self.island is not None:
            self.island.close()
        self.folder.cleanup()

    def meet(self):
        """What redis-cli --cluster create does, without its waits of whole seconds."""
        for node in self.nodes:
            wait_until(node.answers, f"{node} did not answer")
        share = -(-SLOTS // PRIMARIES)
        for i, node in enumerate(self.nodes):  # all, before any of them knows another: then it is refused
            node.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i < PRIMARIES:
                node.call("CLUSTER", "ADDSLOTSRANGE", i * share, min((i + 1) * share, SLOTS) - 1)
        for i, node in enumerate(self.nodes):
            for other in self.nodes[i + 1:]:
                node.call("CLUSTER", "MEET", other.host, other.port, other.bus)
        for i, node in enumerate(self.nodes[PRIMARIES:]):
            primary = self.nodes[i].id()
            wait_until(lambda: self.knows(node, primary), f"{node} did not meet its primary")
            node.call("CLUSTER", "REPLICATE", primary)
        self.wait_whole()

    @staticmethod
    def knows(node, other_id):
        lines = node.call("CLUSTER", "NODES").decode().splitlines()
        return any(line.startswith(other_id) and "handshake" not in line for line in lines)

    # what is so now

    def living(self):
        """Who can be asked: not killed, not paused, not cut off."""
        return [node for node in self.nodes if node.alive() and not node.paused and
                not (node.enter and self.island.is_down)]

    def node_at(self, host, port):
        return next(node for node in self.nodes if node.address == (host, int(port)))

    def primaries(self):
        return [node for node in self.living() if node.is_primary()]

    def owner_said(self, slot, asked):
        """The primary that `asked` says the slot belongs to; None: nobody, while one takes over from another."""
        for first, last, primary, *_ in asked.call("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.node_at(primary[0].decode(), primary[1])
        return None

    def owner(self, slot):
        """The primary that a primary (they hear first of what moves) says the slot belongs to."""
        said = self.owner_said(slot, self.primaries()[-1])
        assert said, f"nobody has slot {slot}"
        return said

    def owner_of(self, key):
        return self.owner(slot_of(key))

    def replica_of(self, primary):
        return next(n for n in self.living() if n.call("ROLE")[0] == b"slave" and n.call("ROLE")[2] == primary.port)

    def is_whole(self):
        """Every living node serves, knows the same owners, and has its primary's data or a replica that has its."""
        maps = set()
        for node in self.living():
            info = dict(x.split(":") for x in node.call("CLUSTER", "INFO").decode().split())
            if info["cluster_state"] != "ok" or info["cluster_slots_ok"] != str(SLOTS):
                return False
            role = node.call("ROLE")
            if (role[3] != b"connected") if role[0] == b"slave" else not role[2]:
                return False
            maps.add(str(sorted((a, b, p[:2], len(rest)) for a, b, p, *rest in node.call("CLUSTER", "SLOTS"))))
        return len(maps) == 1

    def wait_whole(self):
        def whole():
            try:
                return self.is_whole()
            except (OSError, Closed, RespError):
                return False
        wait_until(whole, "the cluster did not become whole", 30)

    def calls(self, prefix):
        """How often all nodes have executed commands whose names begin so, by name."""
        found = {}
        for node in self.living():
            for name, figures in node.info("commandstats").items():
                if name.startswith("cmdstat_" + prefix):
                    found[name[8:]] = found.get(name[8:], 0) + int(re.match(r"calls=(\d+)", figures)[1])
        return found

    def flush(self):
        for node in self.primaries():
            node.call("FLUSHALL")

    # what can befall it

    def move_slot(self, slot, target, between=lambda: None, keys_a_time=10):
        """Moves a slot to a primary as redis-cli does. `between` is called after each lot of keys."""
        source = self.owner(slot)
        if source is target:
            return
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())
        between()
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, keys_a_time):
            source.call("MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys)
            between()
        for node in (target, source, *(x for x in self.primaries() if x not in (target, source))):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", target.id())

    @contextlib.contextmanager
    def patient(self):
        """While nobody is to be lost, a node that a busy machine stops for seconds is not taken for lost."""
        def wait(timeout_ms):
            for node in self.living():
                node.call("CONFIG", "SET", "cluster-node-timeout", timeout_ms)
        wait(PATIENT_MS)
        yield
        wait(NODE_TIMEOUT_MS)

    def wait_taken_over(self, primary):
        """Waits until another node serves what this one did, and says so; returns it."""
        others = [node for node in self.living() if node is not primary]
        slots = [a for a, _, p, *_ in others[-1].call("CLUSTER", "SLOTS") if self.node_at(p[0].decode(), p[1]) is
                 primary]
        if not slots:
            return None

        def taker():
            said = {self.owner_said(slots[0], node) for node in others}
            return said.pop() if len(said) == 1 and not said & {primary, None} else None
        return wait_until(taker, f"nobody took over from {primary}")

    def heal(self):
        """All nodes run and are reached again, the cluster is whole, and its first three nodes are the primaries."""
        if self.island is not None:
            self.island.join()
        for node in self.nodes:
            node.hang_up()
            if not node.alive():
                node.start()
            node.resume()
            wait_until(node.answers, f"{node} did not answer")
        self.wait_whole()
        for node in self.nodes[:PRIMARIES]:
            if not node.is_primary():
                node.call("CLUSTER", "FAILOVER")
                wait_until(node.is_primary, f"{node} did not become a primary again")
                self.wait_whole()


# ---- a client that knows clusters -----------------------------------------------------------------------------------

class Client:
    """Follows MOVED, ASK and TRYAGAIN, and waits for a primary while there is none, until `deadline_s` is over.

    A command whose connection broke after it was sent may have been executed: that is told (Closed), and not repeated.
    Who did not answer is not asked for SHUN_S, whatever others say. `redirects` counts what it was told, by the first
    word."""

    SHUN_S = 0.5

    def __init__(self, cluster, deadline_s=15.0, timeout=DEADLINE_S):
        self.cluster, self.deadline_s, self.timeout = cluster, deadline_s, timeout
        self.links, self.owners, self.redirects, self.shunned = {}, {}, {}, {}
        for first, last, primary, *_ in cluster.living()[-1].call("CLUSTER", "SLOTS"):
            self.owners.update(dict.fromkeys(range(first, last + 1), (primary[0].decode(), primary[1])))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for link in self.links.values():
            link.close()

    def shun(self, address):
        if address in self.links:
            self.links.pop(address).close()
        self.shunned[address] = time.monotonic() + self.SHUN_S

    def exchange(self, address, *commands):
        """Sends the commands at once, returns the last one's reply; an error where nobody could be reached."""
        if self.shunned.get(address, 0) > time.monotonic():
            return RespError("AWAY")
        try:
            if address not in self.links:
                self.links[address] = Link(address, self.timeout)
        except OSError:
            self.shun(address)
            return RespError("AWAY")
        try:
            self.links[address].send(b"".join(encode(*words) for words in commands))
            return [self.links[address].read() for _ in commands][-1]
        except (OSError, Closed) as why:
            self.shun(address)
            raise Closed(repr(why)) from why

    def call(self, *words, key=None):
        """The key is the second word unless it is said."""
        slot = slot_of(words[1] if key is None else key)
        end, asking = time.monotonic() + self.deadline_s, []
        address = self.owners.get(slot)
        while True:
            address = address or random.choice(self.cluster.nodes).address
            reply = self.exchange(address, *asking, words)
            if not isinstance(reply, RespError):
                return reply
            kind, *rest = str(reply).split(" ")
            self.redirects[kind] = self.redirects.get(kind, 0) + 1
            asking = [("ASKING",)] if kind == "ASK" else []
            if kind in ("MOVED", "ASK"):
                host, port = rest[1].rsplit(":", 1)
                address = (host, int(port))
                if kind == "MOVED":
                    self.owners[slot] = address
            elif kind in ("TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "AWAY"):
                time.sleep(0.005)
                address = None  # whoever is asked then knows more
            else:
                raise reply
            if time.monotonic() > end:
                raise reply


# ---- what is asked ---------------------------------------------------------------------------------------------------

class Module:
    """How a verb is called: SLUICE.VERB key words."""

    @staticmethod
    def load(cluster):
        pass

    @staticmethod
    def words(verb, key, *words):
        return ["SLUICE." + verb, key, *words]

    @staticmethod
    def call(client, verb, key, *words):
        return client.call("SLUICE." + verb, key, *words)


class Script:
    """EVALSHA: keys behind KEY are in KEYS too."""

    def __init__(self, folder):
        with open(os.path.join(folder, "sluice-eval.lua"), "rb") as f:
            self.source = f.read()
        self.sha = None

    def load(self, cluster):
        for node in cluster.living():
            self.sha = node.call("SCRIPT", "LOAD", self.source)

    def words(self, verb, key, *words):
        keys = [key] + [words[i + 1] for i, word in enumerate(words[:-1])
                        if str(word).upper() == "KEY" and str(words[i - 1]).upper() not in ("KEY", "NAME")]
        return ["EVALSHA", self.sha, len(keys), *keys, verb, *words]

    def call(self, client, verb, key, *words):
        try:
            return client.call(*self.words(verb, key, *words), key=key)
        except RespError as why:
            if not str(why).startswith("NOSCRIPT"):
                raise
            self.load(client.cluster)  # a node that was started again has none
            return client.call(*self.words(verb, key, *words), key=key)


def key_in(slot, prefix=""):
    """A key of that slot."""
    return next(key for key in (f"{prefix}{i}" for i in range(1 << 24)) if slot_of(key) == slot)


def keys_at(cluster, node, count, prefix):
    """Keys whose slots a primary has."""
    ranges = [(a, b) for a, b, p, *_ in node.call("CLUSTER", "SLOTS") if cluster.node_at(p[0].decode(), p[1]) is node]
    found = (f"{prefix}{i}" for i in range(1 << 24))
    return [next(key for key in found if any(a <= slot_of(key) <= b for a, b in ranges)) for _ in range(count)]


class Worker(threading.Thread):
    """Runs `work(self)` in a thread until leave() is called, which tells what went wrong there."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.failure, self.over = work, None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.work()
        except BaseException as why:  # told to whoever waits
            self.failure = why

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.join(DEADLINE_S)
        assert not self.is_alive(), "a worker hangs"
        if self.failure is not None and kind is None:
            raise self.failure


# ---- fixtures -------------------------------------------------------------------------------------------------------

def module_beside(sluice_bin):
    path = os.path.join(os.path.dirname(sluice_bin), "sluice-module.so")
    assert os.path.exists(path), f"{path} is not there: run `make` first"
    return path


def needs_island():
    why = why_no_islands()
    return pytest.mark.skipif(why is not None, reason=str(why))
