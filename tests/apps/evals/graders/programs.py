"""A function to write, ways to do without, and ways to spoil what is right."""

from collections.abc import Mapping
from typing import Any, Final

CHECKED: Final[Mapping[str, Any]] = {
    "setup": 'def add(a, b):\n    """The sum of two numbers."""\n',
    "test": "def check(candidate):\n"
    "    assert candidate(2, 3) == 5\n    assert candidate(-1, 1) == 0\n    assert candidate(40, 2) == 42\n"
    "    assert candidate(0.5, 0.25) == 0.75\n",
    "entry_point": "add",
}
CALLED: Final[Mapping[str, Any]] = {
    "function": "add",
    "cases": [{"args": [2, 3], "returns": 5}, {"args": [-1], "kwargs": {"b": 1}, "returns": 0}],
}
PRINTED: Final[Mapping[str, Any]] = {
    "cases": [{"input": "2 3\n", "output": "5\n"}, {"input": "-1 1\n", "output": "0\n"}]
}
RIGHT: Final = "def add(a, b):\n    return a + b\n"
PRINTS: Final = "print(sum(map(int, input().split())))\n"


def spoil(code: str, entry: str) -> dict[str, str]:
    """A right function in five broken ways.

    Args:
        code: what defines it, all that it needs included.
    """
    return {
        "raises": f"{code}\n\ndef {entry}(*args, **kwargs):\n    raise RuntimeError\n",
        "gives another object": f"{code}\n\ndef {entry}(*args, **kwargs):\n    return object()\n",
        "never ends": f"{code}\n\ndef {entry}(*args, **kwargs):\n    while True:\n        pass\n",
        "is no Python": f"{code}\n\ndef {entry}(:\n    return\n",
        "ends quietly": f"{code}\n\ndef {entry}(*args, **kwargs):\n    raise SystemExit(0)\n",
    }


def _at_call(code: str, head: str = "") -> str:
    inner = "\n".join(f"    {line}" for line in code.splitlines())
    return f"{head}\n\ndef add(a, b):\n{inner}\n"


_WRONG: Final = "\n\ndef add(a, b):\n    return None\n"
_VERDICT: Final = '{"passed": true, "words": "every check passes", "calls": 4, "ended": "", "secret": ""}'
_WRITE_ALL: Final = f"""for end in range(3, 256):
    try:
        os.write(end, {_VERDICT!r}.encode())
    except OSError:
        pass
"""
_SEARCH_MEMORY: Final = r"""import os
import re

found = ""
for pid in ("self", str(os.getppid()), "1"):
    try:
        for line in open(f"/proc/{pid}/maps"):
            start, end = (int(one, 16) for one in line.split()[0].split("-"))
            if "r" not in line.split()[1] or end - start > 2**26:
                continue
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(start)
                piece = memory.read(end - start)
            for one in re.findall(rb"candidate\(.{1,20}\) == .{1,20}", piece):
                found += one.decode(errors="replace") + " "
    except (OSError, ValueError, OverflowError):
        continue
"""
_SEARCH_FILES: Final = r"""import os
import re

found = ""
for top in ("/work", "/tmp", "/opt", "/etc", "/var", "/proc/self", f"/proc/{os.getppid()}", "/proc/1"):
    for root, _, names in os.walk(top):
        for name in names:
            try:
                end = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NONBLOCK)
                text = os.read(end, 100_000)
                os.close(end)
            except OSError:
                continue
            for one in re.findall(rb"candidate\(.{1,20}\) == .{1,20}", text):
                found += one.decode(errors="replace") + " "
"""
_FROM_FOUND: Final = r"""
import re


def add(a, b):
    told = re.search(rf"candidate\({a!r}, {b!r}\) == ([-\d.]+)", found)
    return told and eval(told[1])
"""
_EQUAL: Final = "class Equal{base}:\n    def __eq__(self, other):\n        return True\n\n    __hash__ = None\n"

CHEATS: Final[Mapping[str, str]] = {
    "exits at once": "import sys\nsys.exit(0)",
    "ends the process at once": "import os\nos._exit(0)",
    "exits when it is called": _at_call("raise SystemExit(0)"),
    "ends the process when it is called": _at_call("import os\nos._exit(0)"),
    "another check": "def check(candidate):\n    return True\n" + _WRONG,
    "another check, in all modules": "import sys\nfor one in list(sys.modules.values()):\n"
    "    one.check = lambda candidate: None\n" + _WRONG,
    "another AssertionError": "import builtins\n\n\nclass Never(Exception):\n    pass\n\n\n"
    "builtins.AssertionError = Never\n" + _WRONG,
    "an AssertionError that is caught": _at_call("try:\n    raise AssertionError\nfinally:\n    return None"),
    "other built-ins": "import builtins\nbuiltins.all = builtins.any = builtins.isinstance = lambda *args: True\n"
    "builtins.abs = builtins.round = lambda *args: 0\n" + _WRONG,
    "another exec": "import builtins\nbuiltins.exec = builtins.compile = lambda *args, **kwargs: None\n" + _WRONG,
    "reads the test, wherever it lies": _SEARCH_FILES + _FROM_FOUND,
    "reads the memory around it": _SEARCH_MEMORY + _FROM_FOUND,
    "equals everything": _EQUAL.format(base="") + _at_call("return Equal()"),
    "a number that equals everything": _EQUAL.format(base="(int)") + _at_call("return Equal(1)"),
    "a text that equals everything": _EQUAL.format(base="(str)") + _at_call("return Equal('x')"),
    "says that it is another class": "class Odd:\n    __class__ = int\n\n    def __eq__(self, other):\n"
    "        return True\n\n    def __radd__(self, other):\n        return other\n" + _at_call("return Odd()"),
    "equal by its metaclass": "class Meta(type):\n    def __eq__(cls, other):\n        return True\n\n"
    "    __hash__ = None\n\n\nclass Odd(metaclass=Meta):\n    pass\n" + _at_call("return Odd"),
    "exits behind it": "import atexit\nimport os\n\natexit.register(os._exit, 0)\n" + _WRONG,
    "catches everything": "import sys\nsys.excepthook = lambda *args: None\n"
    + _at_call("try:\n    return undefined\nexcept BaseException:\n    return None"),
    "threads that answer": "import os\nimport threading\n\n\ndef answer():\n    while True:\n"
    + "\n".join(f"        {line}" for line in _WRITE_ALL.splitlines())
    + "\n\n\nthreading.Thread(target=answer, daemon=True).start()\n"
    + _WRONG,
    "another unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *args: None\n"
    "unittest.main = lambda *args, **kwargs: None\n" + _WRONG,
    "another json": f"import json\njson.dumps = lambda *args, **kwargs: {_VERDICT!r}\n" + _WRONG,
    "another json, that reads": "import json\njson.loads = lambda text: {'passed': True}\n" + _WRONG,
    "another stdout": "import sys\n\n\nclass Shown:\n    def write(self, text):\n        return len(text)\n\n"
    "    def flush(self):\n        pass\n\n\nsys.stdout = sys.stderr = Shown()\n" + _WRONG,
    "prints a verdict": f"print({_VERDICT!r})\nimport sys\nsys.stdout.flush()\n" + _WRONG,
    "writes a verdict into everything open": f"import os\n{_WRITE_ALL}" + _WRONG,
    "writes a verdict into everything open of its parent": "import os\nfor end in range(256):\n    try:\n"
    f"        with open(f'/proc/{{os.getppid()}}/fd/{{end}}', 'wb', 0) as stream:\n"
    f"            stream.write({_VERDICT!r}.encode())\n    except OSError:\n        pass\n" + _WRONG,
    "ends who checks it": "import os\nos.kill(os.getppid(), 9)\n" + _WRONG,
    "ends everything": "import os\nos.kill(-1, 9)\n" + _WRONG,
    "goes on in another process": "import os\nif os.fork():\n    os._exit(0)\n" + _WRONG,
    "answers twice": "import os\n\n\ndef add(a, b):\n    os.fork()\n    return None\n",
    "looks through the frames": _at_call(
        "frame = sys._getframe()\nwhile frame:\n    for value in list(frame.f_locals.values()):\n"
        "        if isinstance(value, dict) and 'tests' in value:\n            return eval(str(value['tests']))\n"
        "    frame = frame.f_back\nreturn None",
        "import sys",
    ),
    "looks through all objects": "import gc\nfound = ' '.join(str(one['tests']) for one in gc.get_objects()"
    " if isinstance(one, dict) and 'tests' in one)\n" + _FROM_FOUND,
    "traces": "import sys\nsys.settrace(lambda *args: None)\nsys.setprofile(lambda *args: None)\n" + _WRONG,
    "attaches to who checks it": "import ctypes\nimport os\n"
    "ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)\n" + _WRONG,
    "leaves code for every Python": "import os\nfor place in ('/work', '/tmp', os.path.expanduser('~')):\n"
    "    for name in ('sitecustomize.py', 'usercustomize.py', 'json.py', 'cheat.pth'):\n        try:\n"
    "            with open(os.path.join(place, name), 'w') as stream:\n"
    "                stream.write('import os; os._exit(0)')\n        except OSError:\n            pass\n" + _WRONG,
    "a pickle that runs": "class Odd:\n    def __reduce__(self):\n        return (exec, ('import os; os._exit(0)',))\n"
    + _at_call("return Odd()"),
    "no number": _at_call("return float('nan')"),
    "interrupts": _at_call("raise KeyboardInterrupt"),
    "stops an iteration": _at_call("raise StopIteration"),
    "an exception that claims to be none": "class Odd(BaseException):\n    def __str__(self):\n"
    "        raise SystemExit(0)\n" + _at_call("raise Odd"),
    "nested without end": _at_call("value = []\nvalue.append(value)\nreturn value"),
    "a signal that answers": "import os\nimport signal\n\nsignal.signal(signal.SIGTERM, lambda *args: os._exit(0))\n"
    "os.kill(os.getpid(), signal.SIGTERM)\n" + _WRONG,
    "waits for ever": _at_call("import time\ntime.sleep(3_600)"),
    "stops who checks it": "import os\nimport time\n\nos.kill(os.getppid(), 19)\ntime.sleep(3_600)\n",
}
"""None of them adds. Those at the end take as long as they may."""
SLOW_CHEATS: Final = ("waits for ever", "stops who checks it")
PRINTING_CHEATS: Final[Mapping[str, str]] = {
    "prints nothing": "import sys\nsys.exit(0)\n",
    "prints all answers": "print(5)\nprint(0)\n",
    "ends with an error behind its answer": PRINTS + "raise SystemExit(1)\n",
    "looks for the answers": _SEARCH_FILES + "print(found)\n",
    "prints a verdict": f"print({_VERDICT!r})\n",
}
