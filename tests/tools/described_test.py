"""A model of tests/spin is right about the code as it was when somebody compared the two. Here: nothing that a model
describes has changed since; and a tree where something has is told so, until it is accepted."""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools", "described")
LIST = os.path.join("tests", "spin", "described")
FILE = os.path.join("src", "store", "lock.h")


def described(root, *words):
    done = subprocess.run([sys.executable, TOOL, "--root", str(root), *words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def lines():
    with open(os.path.join(ROOT, LIST), encoding="utf-8") as f:
        return [line.split() for line in f if not line.startswith("#")]


def tree(tmp_path, change=lambda text: text):
    for name in [LIST, *set(words[1] for words in lines())]:
        os.makedirs(os.path.dirname(tmp_path / name), exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), tmp_path / name)
    text = (tmp_path / FILE).read_text()
    assert change(text) != text or change("x") == "x"
    (tmp_path / FILE).write_text(change(text))
    return tmp_path


def test_models_are_right_about_the_code():
    status, said = described(ROOT)
    assert status == 0, said


def test_every_model_has_its_functions():
    models = set(name[:-4] for name in os.listdir(os.path.join(ROOT, "tests", "spin")) if name.endswith(".pml"))
    assert models == set(words[0] for words in lines()) and all(len(words) == 4 for words in lines())


def test_a_change_fails_until_it_is_accepted(tmp_path):
    root = tree(tmp_path, lambda text: text.replace("static inline void sl_unlock(uint32_t *lock) {",
                                                    "static inline void sl_unlock(uint32_t *lock) {\n\t*lock = 1;"))
    status, said = described(root)
    assert status == 1 and "src/store/lock.h: sl_unlock() is not what lock.pml was compared with" in said
    assert said.count(" is not what ") == 1
    assert described(root, "--accept", "slot")[0] == 0 and described(root)[0] == 1  # another model's word is not asked
    assert described(root, "--accept", "lock")[0] == 0 and described(root) == (0, "")


def test_comments_and_white_space_are_no_change(tmp_path):
    root = tree(tmp_path, lambda text: text.replace("static inline void sl_unlock(uint32_t *lock) {",
                                                    "static inline void sl_unlock(uint32_t *lock) {\n\n\t/* here */"))
    assert described(root) == (0, "")


def test_a_function_that_is_gone_is_told(tmp_path):
    root = tree(tmp_path, lambda text: text.replace(" sl_unlock(", " sl_let_go("))
    status, said = described(root)
    assert status == 1 and "src/store/lock.h has no sl_unlock() any more, which lock.pml describes" in said
    status, said = described(root, "--accept", "lock")
    assert status == 1 and "mend" in said
