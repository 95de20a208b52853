"""The C tests for tools that compile a few files in another way: what was compiled so is linked before the archives of
an ordinary build, so that a test is linked again in a tenth of a second and nothing else is built twice. Nothing of the
tree, nor of build/obj, is written."""
import glob
import os
import resource
import select
import shutil
import signal
import subprocess
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FEW_OPS = "20000"  # of models; their seed is that of tests/run
OWN_OPS = ("model/rates_test", "model/redis_test")  # quick as they are, and not to be had with few
# What tests look for beside their own program, if they are not told where it is.
MADE = {"SLUICE_MODULE": os.path.join(ROOT, "build", "sluice-module.so")}
RUN = ("sluice", "sluice-module.so", "sluice-client-time.lua")  # that tests run, besides their own program
MEMORY_MAX, FILE_MAX = 16 << 30, 4 << 30
SLOW = ("model/worlds_test", "model/hll_test", "model/bundle_test", "model/twin_test")  # over 10 s with few operations


def run(argv, root=None, **more):
    return subprocess.run(argv, cwd=root or ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace", **more)


class Build:
    """The words with which the Makefile compiles and links, and what an ordinary build has made."""

    def __init__(self, folder="build"):
        self.folder = folder
        said = run(["make", "-s", "words", "O=" + folder])
        words = dict(line.split("=", 1) for line in said.stdout.splitlines() if "=" in line)
        if "TEST_LIBS" not in words:
            raise SystemExit("make words: " + said.stdout)
        self.cc = words["CC"].split()
        self.compile_words = words["CPPFLAGS"].split() + words["CFLAGS"].split()
        self.link_words = words["LDFLAGS"].split() + ["-Wl,--as-needed"] + words["TEST_LIBS"].split()
        # A third of the time: nobody debugs what is linked here, and gold is the quicker of binutils' two linkers.
        self.link_words += ["-Wl,-S"] + (["-fuse-ld=gold"] if shutil.which("ld.gold") else [])
        self.sources = words["SOURCES"].split()
        self.node_words, self.python_words = words["NODE_CPPFLAGS"].split(), words["PYTHON_CPPFLAGS"].split()
        self.archives = [os.path.join(folder, name) for name in ("libtests.a", "libapp.a")]

    def make(self, tests):
        """Everything that tests are linked from: an ordinary build, which is there already where tests were run."""
        objects = [os.path.join(self.folder, "obj", "tests", test + ".o") for test in tests]
        programs = [os.path.join(self.folder, name) for name in RUN]
        done = run(["make", "-j2", "O=" + self.folder, *programs, *self.archives, *objects])
        if done.returncode:
            raise SystemExit(done.stdout[-4000:])

    def compile(self, source, to, more=(), before=()):
        """`before`: folders that are searched for headers before the tree. Returns what the compiler said, or None."""
        os.makedirs(os.path.dirname(to), exist_ok=True)
        ahead = ["-I" + os.path.join(folder, sub) for folder in before for sub in ("include", "src", "")]
        done = run([*self.cc, *ahead, *self.compile_words, "-w", *more, "-c", source, "-o", to])
        return done.stdout if done.returncode else None

    def link(self, test, objects, to, more=(), own=None):
        """`objects` replace those of the same name in the archives. Returns what the linker said, or None."""
        return self.link_with([own or os.path.join(self.folder, "obj", "tests", test + ".o")], objects, to, more)

    def link_with(self, own, objects, to, more=()):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        # Named by themselves: what one member of an archive needs is first looked for in the same archive. The first
        # definition counts, so that a test that has its own keeps it.
        done = run([*self.cc, *more, *own, *objects, *self.archives, "-Wl,-z,muldefs", *self.link_words, "-o", to])
        return done.stdout if done.returncode else None

    def together(self, tests, folder):
        """One object of many tests, for programs that have them all: to link one takes no longer than to link a test's
        own. passes() says which of them a process runs. Returns the object and the tests in it: one that has functions
        for others to call, in place of those that they have, stays by itself."""
        at = {test: os.path.join(self.folder, "obj", "tests", test + ".o") for test in tests}
        named, test_of, found = {}, {path: test for test, path in at.items()}, None
        for line in run(["nm", "--defined-only", "--extern-only", *at.values()]).stdout.splitlines():
            if line.endswith(":"):
                found = named.setdefault(test_of[line[:-1]], [])
            elif line:
                found.append(line.split()[-1])
        alike = [test for test in tests if named.get(test) == ["main"]]
        os.makedirs(folder, exist_ok=True)
        text, objects = "#include <stdlib.h>\n#include <string.h>\n", [os.path.join(folder, "main.o")]
        for number, test in enumerate(alike):
            objects.append(os.path.join(folder, "%d.o" % number))
            own = ["--strip-debug", "--redefine-sym", "main=main_%d" % number]
            run(["objcopy", *own, at[test], objects[-1]], check=True)
            text += "int main_%d(int, char **);\n" % number
        text += "int main(int count, char **words) {\n\tconst char *test = getenv(\"SLUICE_TEST\");\n"
        for number, test in enumerate(alike):
            text += "\tif (!strcmp(test, \"%s\"))\n\t\treturn main_%d(count, words);\n" % (test, number)
        with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as f:
            f.write(text + "\treturn 125;\n}\n")
        run([*self.cc, "-c", os.path.join(folder, "main.c"), "-o", objects[0]], check=True)
        run([*self.cc, "-r", "-nostdlib", *objects, "-o", os.path.join(folder, "all.o")], check=True)
        return os.path.join(folder, "all.o"), alike

    def objects_of(self, files):
        """The sources that files are compiled in: of a header, all that include it."""
        headers = set(file for file in files if file.endswith(".h"))
        return [s for s in self.sources if s in files or headers & set(self.depends(s))]

    def depends(self, source):
        """The files of the tree that a source includes, by the record of its last compilation."""
        try:
            with open(os.path.join(self.folder, "obj", source[:-2] + ".d"), encoding="utf-8") as f:
                return f.read().replace("\\\n", " ").split()
        except OSError:
            return []


def tests(folders=("unit", "model"), slow=False):
    found = []
    for folder in folders:
        paths = glob.glob(os.path.join(ROOT, "tests", folder, "*_test.c"))
        found += sorted(os.path.relpath(path, os.path.join(ROOT, "tests"))[:-2] for path in paths)
    return [test for test in found if slow or test not in SLOW]


def bounded(cpu_seconds, sanitized=False):
    """Of a program that may do anything: no core, no end of memory, files or processor. AddressSanitizer wants as many
    addresses as there are."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))


def passes(test, program, cpu_seconds, env=None, arguments=(), sanitized=False):
    """(how it ended: "", "timeout" or what it ended with, seconds of processor). A busy machine is no time-out: it may
    compute so long, and may take ten times that by the clock, which ends what waits for itself. Whatever it started is
    ended with it."""
    ops = {} if test in OWN_OPS else {"SLUICE_OPS": FEW_OPS}
    process = subprocess.Popen([program, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=lambda: bounded(int(cpu_seconds) + 1, sanitized),
                               env={**os.environ, **ops, **MADE, "SLUICE_SEED": "20261124", "SLUICE_TEST": test,
                                    **(env or {})})
    ends = os.pidfd_open(process.pid)
    late = not select.select([ends], [], [], 10 * max(cpu_seconds, 1))[0]
    os.close(ends)
    try:
        os.killpg(process.pid, signal.SIGKILL)  # it is not waited for yet, so that its number is still its own
    except ProcessLookupError:
        pass
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status = os.waitstatus_to_exitcode(status)
    late = late or status == -signal.SIGXCPU
    how = "timeout" if late else "" if status == 0 else "signal %d" % -status if status < 0 else "status %d" % status
    return how, used.ru_utime + used.ru_stime


def in_turn(work, items, at_a_time):
    """work(item, number of the worker) for each, by so many threads; an exception of one ends all."""
    items, lock, errors = iter(items), threading.Lock(), []

    def worker(number):
        while not errors:
            with lock:
                item = next(items, None)
            if item is None:
                return
            try:
                work(item, number)
            except BaseException as e:  # told by the caller's thread
                errors.append(e)
    threads = [threading.Thread(target=worker, args=(n,)) for n in range(at_a_time)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
