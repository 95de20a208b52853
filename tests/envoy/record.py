#!/usr/bin/python3
"""Writes what envoyproxy/ratelimit says, pinned by tests/foreign/go.mod, into this folder: of the files that stand in
config.jsonl, its verdicts; and answers.jsonl, random requests with its answers. Needs Go and redis-server.

    tests/envoy/record.py

tests/e2e/test_oracle.py holds Sluice to both, and the real one too, where there is Go."""
import json
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import oracle  # noqa: E402
from redis_world import Redis  # noqa: E402

SEED, DOMAINS, REQUESTS = 20261123, 12, 1200


def write(name, lines):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def verdicts():
    with tempfile.TemporaryDirectory() as folder:
        oracle.write_corpus(folder)
        return [{"file": one["file"], "bytes": one["bytes"], **oracle.verdict(os.path.join(folder, one["file"]))}
                for one in oracle.recorded("config.jsonl")]


def record_answers(redis_port):
    dice = random.Random(SEED)
    domains = [oracle.random_domain(dice, f"shop{i}") for i in range(DOMAINS)]
    asked = [oracle.random_request(dice, domains) for _ in range(REQUESTS)]

    def replay():
        with oracle.Ratelimit(redis_port, oracle.files_of(domains)) as real:
            return oracle.replay(f"127.0.0.1:{real.port}", asked)
    return [domains] + list(map(list, zip(asked, oracle.in_one_minute(replay))))


if __name__ == "__main__":
    write("config.jsonl", verdicts())
    redis = Redis(module=None)
    try:
        write("answers.jsonl", record_answers(redis.port))
    finally:
        redis.stop()
