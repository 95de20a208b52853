"""Which jobs there are: what each runs, and for how long it may."""

import glob
import os
import random
import shutil
import subprocess

from counted import count_cmocka, count_findings, count_fuzz, count_mutants, count_node, count_pytest
from job import Job
from places import ASAN, AT_A_TIME, FUZZ, JOB_SECONDS_MAX, NODE_ADDON, POINTS, ROOT, TSAN

END_TO_END_SECONDS_MAX = 3000
DELAYED_SECONDS_MAX = 3600
ON_REDIS = ("test_cluster", "test_fleet", "test_golden", "test_module", "test_moving", "test_oracle",
            "test_replay_redis", "test_script")
IN_A_BROWSER = ("test_dashboard", "test_site")
SECOND_HALF = "test_h"  # of the rest: what is called so, or later, takes as long as what is before
POINTS_TESTS = ("tests/crash/points_test", "tests/crash/stops_test")  # in a build of their own, with the points marked
CRASH_SANITIZED = ("damage_test", "flood_test", "kill_test")  # the others are of processes and instructions
CRASH_SECONDS_MAX = 7200
PLANTED_SECONDS_MAX = 3600
PROOFS_SECONDS_MAX = 7200
QUICK_PROOFS = "test_division or test_translation or test_log.py or instant or (fixed and decides) or " \
    "what_is or draining or seconds_become"
RELEASE_SECONDS_MAX = 3600
FAULTS_SECONDS_MAX = 7200
SANITIZED_E2E = ("hostile", "cases", "reload", "held", "long_life", "proxies", "proxy_protocol", "spop", "grpc", "tls")
NEWER_SERVERS = ("redis", "valkey")  # of tests/foreign/servers.py
NEWER_E2E = ("protocol", "override", "cell")
NGINX_SANITIZED = "tests/faults/nginx (asan, ubsan)"
MODULE_E2E = ("cases", "cell", "clock", "leases", "protocol", "random", "strangers")
THREADED_E2E = ("threads", "held_load", "top", "upgrade")
STANDS_STILL_S = 600  # a test of Python that takes longer is told with where it stands, and goes on
# Jobs that try what `make bindings` makes.
BINDINGS_MADE = ("bindings/node/package", "bindings/node/drop-ins", "bindings/python/package",
                 "bindings/node (asan, ubsan)", "bindings/apps", "bindings/node (node 18)")


def sources(pattern):
    return sorted(os.path.relpath(path, ROOT)[:-2] for path in glob.glob(os.path.join(ROOT, pattern)))


def c_jobs(folder, build, mark="", env=None):
    return [Job(path[len("tests/"):] + mark, [os.path.join(build, path)], count_cmocka, env)
            for path in sources("tests/%s/*_test.c" % folder)]


def sim_jobs(build, mark="", env=None, seconds_max=JOB_SECONDS_MAX):
    """The simulated fleet: worlds of one seed, for some time of processor."""
    jobs = c_jobs("sim", build, mark, env)
    for job in jobs:
        job.seconds_max = seconds_max
    return jobs


def crash_jobs(mark="", env=None):
    jobs = [job for job in c_jobs("crash", "build", mark, env) if not job.argv[0].endswith(POINTS_TESTS)]
    jobs += [Job(path[len("tests/"):] + mark, [os.path.join(POINTS, path)], count_cmocka, env) for path in POINTS_TESTS]
    for job in jobs:
        job.seconds_max = CRASH_SECONDS_MAX if env else JOB_SECONDS_MAX
    return jobs


def sanitized_crash_jobs(build, mark):
    return [job for job in c_jobs("crash", build, mark) if job.argv[0].endswith(CRASH_SANITIZED)]


def fuzz_jobs(seconds, goes_on):
    """From the corpus in git; where it goes on, also from what runs before this one found, to which it adds."""
    seed = int(os.environ.get("SLUICE_SEED") or random.randrange(1, 2**31))
    jobs = []
    for path in sources("fuzz/*.c"):
        name = os.path.basename(path)
        found = os.path.join(FUZZ, "corpus" if goes_on else "tried", name)
        if not goes_on:
            shutil.rmtree(os.path.join(ROOT, found), ignore_errors=True)
        os.makedirs(os.path.join(ROOT, found), exist_ok=True)
        corpora = [found, os.path.join("fuzz", "corpus", name)]
        jobs.append(Job("fuzz/" + name, [os.path.join(FUZZ, path), "-max_total_time=%d" % seconds, "-timeout=20",
                                         "-len_control=100", "-print_final_stats=1", "-seed=%d" % (seed % 2**31),
                                         "-artifact_prefix=%s/%s-" % (FUZZ, name)] + corpora,
                        count_fuzz, seconds_max=seconds + 120))
    return jobs


def pytest_job(name, paths=None):
    argv = ["/usr/bin/python3", "-m", "pytest", "-q", "-rfEs", "--tb=short", "-p", "no:cacheprovider",
            "-o", "faulthandler_timeout=%d" % STANDS_STILL_S, *(paths or [name])]
    return Job(name, argv, count_pytest, {"SLUICE_BIN": os.path.join(ROOT, "build", "sluice")})


def binding_jobs():
    """Of each language: clients, which are plain code, apart from the rest."""
    python = pytest_job("bindings/python/client",
                        sources_of("bindings/python/test/test_client*.py"))
    python.argv[0] = "bindings/python/test/python"
    package = pytest_job(BINDINGS_MADE[2], sources_of("bindings/python/test/test_package*.py"))
    package.argv[0] = "bindings/python/test/package"
    apps = pytest_job(BINDINGS_MADE[4], ["bindings/test/test_apps.py", "bindings/test/test_shown.py"])
    apps.argv[0] = package.argv[0]
    package.waits = apps.waits = True
    node = node_job("bindings/node/client", sources_of("bindings/node/test/client_*_test.js"))
    return [python, package, apps, node,
            *(Job(name, [program], count_node, {"SLUICE_BIN": os.path.join(ROOT, "build", "sluice")})
              for name, program in zip(BINDINGS_MADE, ("bindings/node/test/run", "bindings/node/test/dropins/run"))),
            sanitized_node_job(), oldest_node_job()]


def sanitized_node_job():
    """The native part under sanitizers, which have to be in node before it is."""
    files = ["bindings/node/test/%s_test.js" % name for name in ("cases", "hostile", "random", "short")]
    return Job(BINDINGS_MADE[3], ["bindings/node/test/run", *files], count_node,
               {"SLUICE_BIN": os.path.join(ROOT, "build", "sluice"), "SLUICE_OPS": "4000",
                "SLUICE_NODE_ADDON": os.path.join(ROOT, ASAN, NODE_ADDON),
                "SLUICE_NODE_PRELOAD": "libasan.so libubsan.so"})


def oldest_node_job():
    files = ["bindings/node/test/%s_test.js" % name for name in ("cases", "hostile")]
    return Job(BINDINGS_MADE[5], ["bindings/node/test/run", *files], count_node,
               {"SLUICE_BIN": os.path.join(ROOT, "build", "sluice"), "NODE": "oldest"})


def node_job(name, paths):
    node = shutil.which("node") or "node"
    return Job(name, [node, "--test", "--test-reporter=tap", *paths], count_node,
               {"SLUICE_BIN": os.path.join(ROOT, "build", "sluice")})


def sources_of(pattern):
    return sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, pattern)))


def end_to_end_jobs():
    """What needs redis-servers of its own and what needs a browser apart from the rest, and that in two, so that none
    is too long."""
    files = sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "tests/e2e/test_*.py")))
    on_redis, in_a_browser = ([path for path in files if os.path.basename(path).startswith(names)]
                              for names in (ON_REDIS, IN_A_BROWSER))
    rest = [path for path in files if path not in on_redis + in_a_browser]
    second = [path for path in rest if os.path.basename(path) >= SECOND_HALF]
    jobs = [pytest_job("tests/e2e, first half", [path for path in rest if path not in second]),
            pytest_job("tests/e2e, second half", second),
            pytest_job("tests/e2e on Redis", on_redis),
            pytest_job("tests/e2e in a browser", in_a_browser)]
    for job in jobs:
        job.seconds_max, job.waits = END_TO_END_SECONDS_MAX, job is not jobs[-1]
    return jobs


def delayed_jobs(seed):
    """Each file of tests/e2e on a machine that is slow at random (tests/e2e/delays.py): nothing there may depend on a
    fast one."""
    jobs = each_alone(end_to_end_jobs())
    for job in jobs:
        job.name = "%s with delays seed %d" % (job.argv[-1], seed)
        job.env = {**job.env, "SLUICE_DELAYS": "1.2", "SLUICE_SEED": str(seed)}
        job.seconds_max, job.waits = DELAYED_SECONDS_MAX, True
    return jobs


def long_jobs(seconds):
    """End-to-end tests whose numbers grow with the time they are given: requests across hot upgrades, crowds of
    connections, reloads under load, a simulated day of random keys, fronts killed over a cluster, module and script at
    random, attributes at random, servers that are asked everything, leases and reservations at every door and of
    clients that are killed; and 100,000 requests to envoyproxy/ratelimit and to us. And what needs a Redis on newer
    ones."""
    wanted = [("test_upgrade.py", "no_request_fails", {"SLUICE_UPGRADE_REQUESTS": str(max(30000, seconds * 1000))}),
              ("test_reload.py", "under_load", {}),
              ("test_bounds.py", "", {"SLUICE_SECONDS": str(seconds // 10)}),
              ("test_metrics.py", "a_day_of", {"SLUICE_METRICS_KEYS": str(max(100000, seconds * 1000))}),
              ("test_cluster_fleet.py", "", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_module_random.py", "", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_forms.py", "random", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_long_life.py", "", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_script.py", "", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_module_leases.py", "random", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_killed_clients.py", "", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_oracle.py", "random_requests", {"SLUICE_ORACLE_REQUESTS": "100000"}),
              ("test_stopped.py", "chance", {"SLUICE_SOAK_SECONDS": str(seconds)}),
              ("test_threads.py", "", {"SLUICE_SOAK_SECONDS": str(seconds),
                                       "SLUICE_BIN": os.path.join(TSAN, "sluice")})]
    jobs = [release_job(), *newer_server_jobs({"SLUICE_SOAK_SECONDS": "1"})]
    for name, word, env in wanted:
        job = pytest_job(os.path.join("tests/e2e", name))
        job.argv[3:3] = ["-s", "-k", word] if word else ["-s"]
        job.env = {**job.env, **env}
        job.seconds_max = seconds + JOB_SECONDS_MAX
        jobs.append(job)
    return jobs


def release_job():
    """What a release makes, installed and run in a bare Debian: half an hour, most of it building twice."""
    job = pytest_job("tests/packages")
    job.argv[3:3] = ["-s"]
    job.seconds_max = RELEASE_SECONDS_MAX
    return job


def proofs_job():
    job = pytest_job("tests/proof")
    job.argv[3:3] = ["-s"]
    job.seconds_max = PROOFS_SECONDS_MAX
    return job


def analyze_job():
    """clang's analyzer over all sources, on every core that is free."""
    return Job("analyze", ["tools/analyze", "--deep"], count_findings, seconds_max=PROOFS_SECONDS_MAX)


def turned_job():
    job = pytest_job("tests/model/turned_test.py")
    job.argv[3:3] = ["-s"]
    job.seconds_max = PROOFS_SECONDS_MAX
    return job


def soaked_fleets(seconds):
    """Two, one a core, each with a seed of its own: 1,000 simulated hours and more a night. Before them the mistakes
    that are planted there, up to a minute of processor each."""
    jobs = []
    for _ in range(AT_A_TIME):
        env = {"SLUICE_SEED": str(random.randrange(1, 2**63)), "SLUICE_SIM_SECONDS": str(seconds)}
        jobs += sim_jobs("build", " seed " + env["SLUICE_SEED"], env, 4 * seconds + JOB_SECONDS_MAX)
    planted = pytest_job("tests/sim/planted_test.py")
    planted.argv[3:3] = ["-s"]
    planted.seconds_max = PLANTED_SECONDS_MAX
    return [planted, *jobs]


def unordered_jobs(seed):
    """Every unit test, and every file of Python that needs no server, by itself and in an order of the seed's."""
    python = [pytest_job(path) for path in sources_of("tests/tools/*_test.py")]
    jobs = c_jobs("unit", "build", " under load") + python
    for job in python:
        job.name += " under load"
    random.Random(seed).shuffle(jobs)
    return jobs


def mutant_jobs(seconds):
    """Mistakes made on purpose, drawn by a new seed for as long as a fifth of the soak: tools/mutate says of each which
    test found it, and fails where fewer than 92 of 100 were."""
    words = ["--all", "--seed", str(random.randrange(1, 2**31)), "--minutes", str(max(1, seconds // 300))]
    return [Job("mutants", ["tools/mutate", *words], count_mutants, seconds_max=seconds + 2 * JOB_SECONDS_MAX)]


def sanitized_end_to_end_jobs():
    """The server under what its users may do to it: that of tests/faults, with nothing failing, and one that looks for
    races between its threads. A bound on resident memory means nothing there."""
    jobs = []
    for mark, names, program in ((" (asan, ubsan)", SANITIZED_E2E, os.path.join(ASAN, "tests", "faults", "sluice")),
                                 (" (tsan)", THREADED_E2E, os.path.join(TSAN, "sluice"))):
        job = pytest_job("tests/faults/e2e" + mark, ["tests/e2e/test_%s.py" % name for name in names])
        job.argv[3:3] = ["-s", "-k", "not stays_within_its_memory"]
        job.env = {"SLUICE_BIN": os.path.join(ROOT, program), "SLUICE_BESIDE": os.path.join(ROOT, "build")}
        job.waits = True
        jobs.append(job)
    return [*jobs, sanitized_module_job(), sanitized_nginx_job()]


def runtimes():
    """Those of the sanitizers, as LD_PRELOAD has them."""
    return " ".join(subprocess.run(["gcc", "-print-file-name=lib%s.so" % name], text=True, check=True,
                                   stdout=subprocess.PIPE).stdout.strip() for name in ("asan", "ubsan"))


def sanitized_module_job():
    """The module with sanitizers, whose runtimes have to be in the redis-server that loads it before it is."""
    job = pytest_job("tests/faults/module (asan, ubsan)", ["tests/e2e/test_module_%s.py" % name for name in MODULE_E2E])
    job.argv[3:3] = ["-k", "not wrong_load"]  # those start a server of their own
    job.env["SLUICE_MODULE"] = os.path.join(ROOT, ASAN, "sluice-module.so")
    job.env["SLUICE_REDIS_PRELOAD"] = runtimes()
    job.waits = True
    return job


def sanitized_nginx_job():
    """nginx' module with sanitizers; nginx itself keeps what it has to its end."""
    job = pytest_job(NGINX_SANITIZED, ["tests/e2e/test_nginx_module.py"])
    job.argv[3:3] = ["-k", "not without_memory"]  # a sanitizer's allocator takes the place of one that fails
    job.env["SLUICE_NGINX_MODULE"] = os.path.join(ROOT, ASAN, "nginx", "ngx_http_sluice_module.so")
    job.env["SLUICE_NGINX_PRELOAD"] = runtimes()
    job.env["ASAN_OPTIONS"] = "detect_leaks=0"
    job.waits = True
    return job


def newer_server_jobs(env=None):
    """In the Redis and the Valkey of Debian 13: some of the module's tests; with SLUICE_SOAK_SECONDS all on Redis."""
    files = [path for path in sources_of("tests/e2e/test_*.py") if os.path.basename(path).startswith(ON_REDIS)] \
        if env else ["tests/e2e/test_module_%s.py" % name for name in NEWER_E2E]
    jobs = []
    for server in NEWER_SERVERS:
        job = pytest_job("tests/e2e/on a newer %s" % server, files)
        job.env = {**job.env, "SLUICE_REDIS": server, **(env or {})}
        job.seconds_max = END_TO_END_SECONDS_MAX
        jobs.append(job)
    return jobs


def fault_jobs(env=None):
    """A job for each file: calls fail in a build with AddressSanitizer and UndefinedBehaviorSanitizer."""
    jobs = [pytest_job(path) for path in sources_of("tests/faults/test_*.py")]
    for job in jobs:
        job.argv[3:3] = ["-s"]
        job.env = {**job.env, **(env or {})}
        job.seconds_max, job.waits = FAULTS_SECONDS_MAX if env else JOB_SECONDS_MAX, True
    return jobs


def quick_proofs_job():
    """The quick ones of tests/proof; all of them are in a soak."""
    job = pytest_job("tests/proof")
    job.argv[3:3] = ["-k", QUICK_PROOFS]
    return job


def pytest_jobs(only):
    """All tests of Python by folder; or, for a word, a job for each file that it names."""
    if not only:
        return [*end_to_end_jobs(), *newer_server_jobs(), *fault_jobs(), *sanitized_end_to_end_jobs(),
                quick_proofs_job(), pytest_job("tests/spin"), pytest_job("tests/tools")]
    files = [path for form in ("test_*.py", "*_test.py") for path in glob.glob(os.path.join(ROOT, "tests/*", form))]
    files = [os.path.relpath(path, ROOT) for path in sorted(files)]
    files = [path for path in files if not path.startswith("tests/faults/")]
    return fault_jobs() + sanitized_end_to_end_jobs() + newer_server_jobs() + [pytest_job(path) for path in files]


def each_alone(jobs):
    """Of a job of several files of Python one for each."""
    found = []
    for job in jobs:
        files = [word for word in job.argv if word.endswith(".py")]
        if job.count is not count_pytest or len(files) < 2:
            found.append(job)
            continue
        for path in files:
            one = Job("%s %s" % (job.name, os.path.basename(path)),
                      [word for word in job.argv if word not in files] + [path], count_pytest, job.env, job.seconds_max)
            found.append(one)
    return found


def shuffled(jobs, seed):
    """In an order that the seed draws, the files within a job too."""
    dice = random.Random(seed)
    dice.shuffle(jobs)
    for job in jobs:
        files = [word for word in job.argv if word.endswith(".py")]
        job.argv = [word for word in job.argv if word not in files]
        dice.shuffle(files)
        job.argv += files
    print("order by seed %d: tests/run --shuffle %d" % (seed, seed))
    return jobs
