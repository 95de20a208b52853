"""hosts/redis/api.h, which is written from public documentation, beside the header that comes with Redis's source.

The source is Debian's, fetched by apt into a folder of this test with a sources list of its own, since stock images
have no deb-src line; nothing of it is kept. Without a network, or on another system, the test is skipped and says why.
"""

import os
import re
import shutil
import subprocess
import tarfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
API = os.path.join(ROOT, "hosts", "redis", "api.h")

# ours -> theirs
NUMBERS = {
    "SLR_REDIS_OK": "REDISMODULE_OK", "SLR_REDIS_ERR": "REDISMODULE_ERR", "SLR_API_VERSION": "REDISMODULE_APIVER_1",
    "SLR_KEY_READ": "REDISMODULE_READ", "SLR_KEY_WRITE": "REDISMODULE_WRITE",
    "SLR_KEY_NOTOUCH": "REDISMODULE_OPEN_KEY_NOTOUCH",
    "SLR_KEYTYPE_EMPTY": "REDISMODULE_KEYTYPE_EMPTY", "SLR_NO_EXPIRE": "REDISMODULE_NO_EXPIRE",
    "SLR_CONTEXT_CLUSTER": "REDISMODULE_CTX_FLAGS_CLUSTER", "SLR_CONTEXT_AOF": "REDISMODULE_CTX_FLAGS_AOF",
    "SLR_CONTEXT_LUA": "REDISMODULE_CTX_FLAGS_LUA", "SLR_CONTEXT_REPLICATED": "REDISMODULE_CTX_FLAGS_REPLICATED",
    "SLR_CONTEXT_LOADING": "REDISMODULE_CTX_FLAGS_LOADING", "SLR_ACL_LOG_KEY": "REDISMODULE_ACL_LOG_KEY",
    "SLR_CONTEXT_OOM": "REDISMODULE_CTX_FLAGS_OOM",
    "SLR_OPTION_HANDLE_IO_ERRORS": "REDISMODULE_OPTIONS_HANDLE_IO_ERRORS",
    "SLR_OPTION_NO_IMPLICIT_SIGNAL": "REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED",
    "SLR_OPTION_HANDLE_ASYNC_LOAD": "REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD",
    "SLR_EVENT_ROLE_CHANGED": "REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED",
    "SLR_EVENT_CRON": "REDISMODULE_EVENT_CRON_LOOP", "SLR_EVENT_FORK_CHILD": "REDISMODULE_EVENT_FORK_CHILD",
    "SLR_SUBEVENT_FORK_CHILD_BORN": "REDISMODULE_SUBEVENT_FORK_CHILD_BORN",
    "SLR_SPEC_KEY_RO": "REDISMODULE_CMD_KEY_RO", "SLR_SPEC_KEY_RW": "REDISMODULE_CMD_KEY_RW",
    "SLR_SPEC_ACCESS": "REDISMODULE_CMD_KEY_ACCESS", "SLR_SPEC_UPDATE": "REDISMODULE_CMD_KEY_UPDATE",
    "SLR_SPEC_INCOMPLETE": "REDISMODULE_CMD_KEY_INCOMPLETE",
    "SLR_SPEC_BEGIN_INDEX": "REDISMODULE_KSPEC_BS_INDEX",
    "SLR_SPEC_BEGIN_KEYWORD": "REDISMODULE_KSPEC_BS_KEYWORD",
    "SLR_SPEC_FIND_RANGE": "REDISMODULE_KSPEC_FK_RANGE",
    "SLR_ARG_STRING": "REDISMODULE_ARG_TYPE_STRING", "SLR_ARG_INTEGER": "REDISMODULE_ARG_TYPE_INTEGER",
    "SLR_ARG_KEY": "REDISMODULE_ARG_TYPE_KEY", "SLR_ARG_UNIX_TIME": "REDISMODULE_ARG_TYPE_UNIX_TIME",
    "SLR_ARG_PURE_TOKEN": "REDISMODULE_ARG_TYPE_PURE_TOKEN", "SLR_ARG_ONEOF": "REDISMODULE_ARG_TYPE_ONEOF",
    "SLR_ARG_BLOCK": "REDISMODULE_ARG_TYPE_BLOCK", "SLR_ARG_IS_OPTIONAL": "REDISMODULE_CMD_ARG_OPTIONAL",
    "SLR_ARG_IS_MULTIPLE": "REDISMODULE_CMD_ARG_MULTIPLE",
    "SLR_TYPE_METHODS_VERSION": "REDISMODULE_TYPE_METHOD_VERSION",
}
# (our struct, theirs, [(our field, theirs)]); fields of which only one name is given are called alike
STRUCTS = [
    ("struct slr_type_methods", "RedisModuleTypeMethods",
     "version rdb_load rdb_save aof_rewrite mem_usage digest free aux_load aux_save aux_save_triggers free_effort"
     " unlink copy defrag mem_usage2 free_effort2 unlink2 copy2"),
    ("struct slr_command_arg", "RedisModuleCommandArg",
     "name type key_spec_index token summary since flags deprecated_since subargs"),
    ("struct slr_key_spec", "RedisModuleCommandKeySpec",
     "notes flags begin_search_type bs.index.pos bs.keyword.keyword bs.keyword.startfrom find_keys_type"
     " fk.range.lastkey fk.range.keystep fk.range.limit"),
    ("struct slr_info_version", "RedisModuleCommandInfoVersion",
     "version history_bytes:sizeof_historyentry key_spec_bytes:sizeof_keyspec arg_bytes:sizeof_arg"),
    ("struct slr_history_entry", "RedisModuleCommandHistoryEntry", "since changes"),
    ("struct slr_command_info", "RedisModuleCommandInfo",
     "version summary complexity since history tips arity key_specs args"),
    ("struct slr_event", "RedisModuleEvent", "id dataver"),
]
# Types of ours that stand for theirs: the names of the server's own structs are the same.
TYPES = [("slr_type_methods", "RedisModuleTypeMethods"), ("slr_command_info", "RedisModuleCommandInfo"),
         ("slr_event", "RedisModuleEvent")]


def own_source():
    """The archive that this system's own packages come from, as "URL suite main"; None where apt can't tell."""
    told = subprocess.run(["apt-cache", "policy", "redis-server"], capture_output=True, text=True, timeout=60).stdout
    found = re.findall(r"^ +\d+ (https?://\S+) ([a-z]+)/main ", told, re.M)  # not a -security or -updates suite
    return f"{found[-1][0]} {found[-1][1]} main" if found else None


@pytest.fixture(scope="module")
def real_header(tmp_path_factory):
    """redismodule.h of Debian's source of Redis; the test is skipped where it can't be had."""
    if shutil.which("apt-get") is None or shutil.which("gcc") is None:
        pytest.skip("neither apt-get to fetch the source of Redis nor gcc to compare headers")
    folder = str(tmp_path_factory.mktemp("apt"))
    for sub in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, sub))
    source = own_source()
    if source is None:
        pytest.skip("apt's index knows no archive that redis-server comes from")
    with open(os.path.join(folder, "sources.list"), "w", encoding="ascii") as f:
        f.write(f"deb-src {source}\n")
    options = ["-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
               "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
               "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10"]
    for words in (["update"], ["source", "--download-only", "redis"]):
        try:
            done = subprocess.run(["apt-get", *options, *words], cwd=folder, capture_output=True, text=True,
                                  timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip("apt-get took more than two minutes for the source of Redis")
        if done.returncode != 0:
            pytest.skip("the source of Redis can't be had: " + done.stderr.strip()[-200:])
    archives = [name for name in os.listdir(folder) if ".orig.tar" in name]
    if not archives:
        pytest.skip("apt-get found no source of Redis")
    with tarfile.open(os.path.join(folder, archives[0])) as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("/src/redismodule.h"))
        text = tar.extractfile(member).read().decode()
    path = os.path.join(folder, "redismodule.h")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def api_rows():
    """The functions that we look up: (name, result, arguments)."""
    with open(API, encoding="utf-8") as f:
        text = f.read()
    lists = text[text.index("#define SLR_API_NEEDED"):text.index("#define SLR_API_DECLARE")].replace("\\\n", "\n")
    return re.findall(r"X\((\w+), ([^,]+),\s*(\(.*\))\)\s*$", re.sub(r"\)\s*\n\s*\(", ") (", re.sub(
        r",\s*\n\s*\(", ", (", lists)), re.M)


def in_their_words(text):
    for ours, theirs in TYPES:
        text = re.sub(rf"struct {ours}\b", theirs, text)
    text = re.sub(r"struct (RedisModule\w+)", r"\1", text)
    return text.replace("slr_command", "RedisModuleCmdFunc").replace("slr_event_callback", "RedisModuleEventCallback") \
        .replace("RedisModuleCmdFunc_info", "RedisModuleCommandInfo")


def compile_checks(folder, real_header, lines):
    path = os.path.join(folder, "check.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'#include <stddef.h>\n#include "{real_header}"\n#include "{API}"\n' + "\n".join(lines) + "\n")
    return subprocess.run(["gcc", "-std=gnu11", "-fsyntax-only", "-Werror=incompatible-pointer-types", path],
                          capture_output=True, text=True)


def test_every_number_is_listed_here():
    with open(API, encoding="utf-8") as f:
        text = f.read()
    assert set(re.findall(r"^\t(SLR_\w+) =", text, re.M)) == set(NUMBERS)
    assert len(api_rows()) == len(re.findall(r"\bX\(\w+,", text)) >= 45


def test_numbers(tmp_path, real_header):
    lines = [f'_Static_assert((long long)({a}) == (long long)({b}), "{a}");' for a, b in NUMBERS.items()]
    lines.append('_Static_assert(sizeof SLR_WRONGTYPE == sizeof REDISMODULE_ERRORMSG_WRONGTYPE, "words");')
    done = compile_checks(tmp_path, real_header, lines)
    assert done.returncode == 0, done.stderr
    wrong = compile_checks(tmp_path, real_header, ['_Static_assert(SLR_KEY_WRITE == REDISMODULE_READ, "planted");'])
    assert wrong.returncode != 0 and "planted" in wrong.stderr


def test_structs(tmp_path, real_header):
    lines = []
    for ours, theirs, fields in STRUCTS:
        lines.append(f'_Static_assert(sizeof({ours}) == sizeof({theirs}), "{ours}");')
        for field in fields.split():
            a, b = field.split(":") if ":" in field else (field, field)
            lines.append(f'_Static_assert(offsetof({ours}, {a}) == offsetof({theirs}, {b}), "{ours} {a}");')
            lines.append(f'_Static_assert(sizeof((({ours} *)0)->{a}) == sizeof((({theirs} *)0)->{b}), "{ours} {a}");')
    done = compile_checks(tmp_path, real_header, lines)
    assert done.returncode == 0, done.stderr


def test_prototypes(tmp_path, real_header):
    """Each function of ours, its types called as theirs are, is one that theirs may be assigned to. Functions that
    this Redis has not yet are declared by later ones only."""
    with open(real_header, encoding="utf-8") as f:
        known = set(re.findall(r"\(\*RedisModule_(\w+)\)", f.read()))
    rows = api_rows()
    missing = {name for name, _, _ in rows} - known
    assert missing <= {"SetCommandACLCategories", "AddACLCategory"}, missing
    lines = ["typedef RedisModuleCtx Ctx;"]
    for name, result, arguments in rows:
        if name in known:
            lines.append(f"{in_their_words(result)} (*check_{name}) {in_their_words(arguments)};"
                         f" void try_{name}(void) {{ check_{name} = RedisModule_{name}; }}")
    done = compile_checks(tmp_path, real_header, lines)
    assert done.returncode == 0, done.stderr
    wrong = compile_checks(tmp_path, real_header, [
        "int (*wrong)(RedisModuleCtx *, int); void try_wrong(void) { wrong = RedisModule_ReplyWithError; }"])
    assert wrong.returncode != 0
