"""Reading what a document shows: its blocks, the commands in them, and whether an answer is the one that is printed."""
import math
import re


def blocks(text):
    """[(language, text)] of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)


def commands(text):
    """[(command, expected lines)] of the console blocks of a text."""
    found = []
    for language, block in blocks(text):
        for line in block.splitlines() if language == "console" else []:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def at_a_terminal(text):
    """Answers of Redis have numbers before them there; those to a pipe have none."""
    return re.sub(r"^redis-cli (?!.*\|)", "redis-cli --no-raw ", text, flags=re.M)


def numbers_agree(told, expected, passed_s=0):
    """Equal, but for times: milliseconds within a hundredth, whole seconds to the next, and less by what has passed."""
    pattern = r"(?<=;t=)\d+|(?<=Retry-After: )\d+|\b\d{5,}\b"
    if re.sub(pattern, "N", told) != re.sub(pattern, "N", expected):
        return False
    return all(abs(int(a) - int(b)) <= max(1, int(b) // 90, math.ceil(passed_s))
               for a, b in zip(re.findall(pattern, told), re.findall(pattern, expected)))


def line_agrees(told, expected, passed_s=0):
    if expected.endswith("..."):
        prefix = expected[:-3]
        return numbers_agree(told[:len(prefix)], prefix, passed_s)
    return numbers_agree(told, expected, passed_s)


def lines_agree(told, expected, passed_s=0):
    """`...` alone stands for any number of lines, at the end of a line for the rest of it."""
    if not expected:
        return not told
    if expected[0].strip() == "...":
        return any(lines_agree(told[skip:], expected[1:], passed_s) for skip in range(len(told) + 1))
    return bool(told) and line_agrees(told[0], expected[0], passed_s) and lines_agree(told[1:], expected[1:], passed_s)
