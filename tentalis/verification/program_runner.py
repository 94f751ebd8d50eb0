"""Runs a program within a sandbox, and a check of it in another process. Read as text and run by whatever Python is
there, from 3.8 on: it imports nothing of ours.

What is wanted of it comes in two parts. The first holds the program, the second what it is checked by, and is read when
the program's process is there already: nothing of that is in its memory, and it cannot look into ours. The two speak
through pipes, and only in data: what a check compares was made here out of JSON, so that no object of the program's own
says that it equals what is wanted. The last word carries a secret of this one run.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import types

MOST_BYTES = 16 * 2**20
MOST_ITEMS = 1_000_000
MOST_DEEP = 100
MOST_WORDS = 300
PR_SET_DUMPABLE = 4
LENGTH = 12
FIRST_TO_GO = "1000"
MODULE = "answer"
PLAIN_INT = 2**53
KINDS = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
"""Whatever is one of these, or made of one, is told by what it holds."""


def main():
    sys.path[:] = [one for one in sys.path if one]
    job = json.loads(_read_part())
    shown = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    _seal(0)
    if job["kind"] == "program":
        found = {"cases": [_run_program(job, case, shown) for case in _until_ended(job)]}
        secret = json.loads(_read_part())["secret"]
    else:
        program = _Program(job, shown)
        wanted = json.loads(_read_part())
        secret = wanted["secret"]
        try:
            found = _run_calls(program, job, wanted) if job["kind"] == "calls" else _run_check(program, job, wanted)
        except _SetUpError as error:
            found = {"unusable": str(error)}
        except BaseException as error:
            found = {"passed": False, "words": "it could not be checked: %s" % _name(error)}
        found["ended"] = program.ended or found.get("ended", "")
        if found["ended"] and "passed" in found:
            found.update(passed=False, words=found["ended"])
    _end_all()
    os.write(shown, json.dumps(dict(found, secret=secret)).encode())
    os._exit(0)


def _read_part():
    """The next part of what is wanted; nothing behind it is read."""
    length = int(_read_exactly(0, LENGTH))
    return _read_exactly(0, length)


def _read_exactly(end, count):
    pieces = []
    while count:
        piece = os.read(end, min(count, 2**20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _write_all(end, data):
    left = memoryview(data)
    while left:
        left = left[os.write(end, left) :]


def _seal(opens):
    """Nobody of the same user may look into this process, or take hold of what it has open."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, opens, 0, 0, 0):
        raise OSError("prctl refuses PR_SET_DUMPABLE")


def _end_all():
    try:
        os.kill(-1, signal.SIGKILL)  # all of this sandbox but its first process and us
    except ProcessLookupError:
        pass


def _name(error):
    return ("%s: %s" % (type(error).__name__, error))[:MOST_WORDS]


def _become_tested(job, closes):
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    for end in closes:
        os.close(end)
    _seal(1)  # it is as open as any other program
    with open("/proc/self/oom_score_adj", "w") as stream:
        stream.write(FIRST_TO_GO)
    limit = int(job["timeout_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in ("ctypes", "_ctypes"):
        sys.modules.pop(name, None)


def _say_end(child, deadline, job):
    """How the process of a program came to its end."""
    if time.monotonic() >= deadline:
        return "it took longer than %g s by the clock" % job["clock_s"]
    for _ in range(100):
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            _, status, used = os.wait4(child, 0)
            return _say_status(status, used, job)
        time.sleep(0.002)
    return "it let go of who checks it"


def _say_status(status, used, job):
    if os.WIFEXITED(status):
        return "it ended by itself, with exit code %d" % os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU or (number == signal.SIGKILL and used.ru_utime + used.ru_stime > job["timeout_s"]):
        return "it took longer than %d s" % job["timeout_s"]
    return "it was ended by signal %d" % number


def _join_program(job):
    """The program: its task's own beginning, and the code behind it, which may go on where that stops."""
    setup, code, entry = job["setup"], job["code"], job["entry"]
    whole = "%s\n\n%s" % (setup, code)
    if not setup:
        return code
    if entry and not _binds(code, entry):
        for going_on in (setup + code, setup.rstrip(" \t") + "    " + code):
            try:
                compile(going_on, MODULE, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            return going_on
    return whole


def _binds(code, entry):
    import ast

    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return False
    for one in body:
        if getattr(one, "name", None) == entry:
            return True
        if any(isinstance(node, ast.Name) and node.id == entry for node in getattr(one, "targets", ())):
            return True
    return False


# --- programs that read and print -------------------------------------------------------------------------------------


def _until_ended(job):
    """The inputs, until one takes too long: the others would too."""
    until = time.monotonic() + job["whole_s"]
    for case in job["inputs"]:
        if job.get("ended") or time.monotonic() > until:
            return
        yield case


def _run_program(job, text, shown):
    sees, shows = os.pipe()
    given = os.memfd_create("stdin")
    _write_all(given, text.encode("utf-8", "surrogateescape"))
    os.lseek(given, 0, os.SEEK_SET)
    child = os.fork()
    if not child:
        try:
            os.dup2(given, 0)
            os.dup2(shows, 1)
            _become_tested(job, (shown, sees, shows, given))
            _be_main(job)
        finally:
            os._exit(70)
    os.close(shows)
    os.close(given)
    deadline, output, ended = time.monotonic() + job["clock_s"], bytearray(), ""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            ended = "it took longer than %g s by the clock" % job["clock_s"]
            break
        if select.select([sees], [], [], left)[0]:
            piece = os.read(sees, 2**16)
            if not piece:
                break
            output += piece
            if len(output) > job["output_bytes"]:
                ended = "it printed more than %d bytes" % job["output_bytes"]
                break
    os.close(sees)
    code = None
    while not ended and code is None:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            _, code, used = os.wait4(child, 0)
        elif time.monotonic() > deadline:
            ended = "it took longer than %g s by the clock" % job["clock_s"]
        else:
            time.sleep(0.001)
    if code:
        ended = _say_status(code, used, job)
    _end_all()
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    if ended.startswith("it took"):
        job["ended"] = ended
    job["output_bytes"] -= len(output)
    return {"output": output.decode("utf-8", "replace"), "ended": ended}


def _be_main(job):
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape")
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape")
    sys.stderr = open(2, "w")
    sys.argv = [MODULE]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    code = 0
    try:
        exec(compile(job["code"], MODULE, "exec", dont_inherit=True), module.__dict__)
        threading = sys.modules.get("threading")
        if threading:
            threading._shutdown()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        code = 1
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code & 0xFF)


# --- data: all that goes from one process to the other ----------------------------------------------------------------


def _library(name):
    module = sys.modules.get(name)
    if module is None:
        module = __import__(name)
    return module


def encode(value: object, keep: object, deep: int = 0) -> object:
    """A value as JSON. What is no data is kept here, and told by a number; `keep` says which, or refuses."""
    if value is None or value is True or value is False or type(value) is str:
        return value
    kind = type(value)
    if kind not in KINDS:
        kind = next((one for one in KINDS if issubclass(kind, one)), None)
    if deep > MOST_DEEP:
        raise ValueError("it is nested deeper than %d" % MOST_DEEP)
    if kind is int:
        value = int.__index__(value)
        return value if -PLAIN_INT < value < PLAIN_INT else {"int": "%x" % value}
    if kind is float:
        value = float.__float__(value)
        return value if value - value == 0 else {"float": repr(value)}
    if kind is complex:
        return {"complex": [float.hex(value.real), float.hex(value.imag)]}
    if kind is str:
        return str.__str__(value)
    if kind in (bytes, bytearray):
        return {kind.__name__: bytes(value).hex()}
    if kind in (list, tuple):
        items = [encode(one, keep, deep + 1) for one in kind.__iter__(value)]
        return items if kind is list else {"tuple": items}
    if kind in (set, frozenset):
        return {kind.__name__: [encode(one, keep, deep + 1) for one in kind.__iter__(value)]}
    if kind is dict:
        pairs = dict.items(value)
        return {"dict": [[encode(key, keep, deep + 1), encode(one, keep, deep + 1)] for key, one in pairs]}
    if type(value) is range:
        return {"range": [value.start, value.stop, value.step]}
    return _encode_library(value, keep, deep)


def _encode_library(value, keep, deep):
    kind = type(value)
    if kind.__module__ == "fractions" and kind is _library("fractions").Fraction:
        return {"Fraction": [encode(value.numerator, keep), encode(value.denominator, keep)]}
    if kind.__module__ == "decimal" and kind is _library("decimal").Decimal:
        return {"Decimal": str(value)}
    if kind.__module__ == "collections" and kind is _library("collections").deque:
        return {"deque": [encode(one, keep, deep + 1) for one in value]}
    if kind.__module__ == "datetime":
        module = _library("datetime")
        if kind in (module.date, module.time, module.datetime) and getattr(value, "tzinfo", None) is None:
            return {kind.__name__: value.isoformat()}
        if kind is module.timedelta:
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
    return keep(value)


def decode(told: object, find: object, deep: int = 0) -> object:
    """What `encode` told, made anew. Raises ValueError, TypeError or KeyError for what it never tells."""
    if told is None or isinstance(told, (bool, int, float, str)):
        return told
    if deep > MOST_DEEP + 2:
        raise ValueError("it is nested too deep")
    if isinstance(told, list):
        return [decode(one, find, deep + 1) for one in told]
    ((kind, held),) = told.items()
    if kind == "int":
        return int(held, 16)
    if kind == "float":
        return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[held]
    if kind == "complex":
        return complex(*map(float.fromhex, held))
    if kind in ("bytes", "bytearray"):
        return (bytes if kind == "bytes" else bytearray).fromhex(held)
    if kind in ("tuple", "set", "frozenset"):
        make = {"tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make([decode(one, find, deep + 1) for one in held])
    if kind == "dict":
        return {decode(key, find, deep + 1): decode(one, find, deep + 1) for key, one in held}
    if kind == "range":
        return range(*map(int, held))
    if kind == "Fraction":
        return _library("fractions").Fraction(*[decode(one, find) for one in held])
    if kind == "Decimal":
        return _library("decimal").Decimal(held)
    if kind == "deque":
        return _library("collections").deque(decode(one, find, deep + 1) for one in held)
    if kind in ("date", "time", "datetime"):
        return getattr(_library("datetime"), kind).fromisoformat(held)
    if kind == "timedelta":
        return _library("datetime").timedelta(*map(int, held))
    if kind == "object":
        return find(held)
    raise ValueError("no such kind")


def _send(end, told):
    data = json.dumps(told).encode()
    if len(data) > MOST_BYTES:
        raise ValueError("it is larger than %d bytes" % MOST_BYTES)
    _write_all(end, b"%12d" % len(data) + data)


# --- the process that nobody trusts -----------------------------------------------------------------------------------


class _Served:
    """The program, and what it hands out that is no data."""

    def __init__(self, job, hears, tells):
        self.job, self.hears, self.tells = job, hears, tells
        self.kept, self.module = {}, types.ModuleType(MODULE)

    def run(self):
        sys.stdin = open(os.devnull)
        sys.stdout = open(os.devnull, "w")
        sys.stderr = open(os.devnull, "w")
        sys.argv = [MODULE]
        sys.modules[MODULE] = self.module
        send, read, loads, tells, hears = _send, _read_exactly, json.loads, self.tells, self.hears
        try:
            exec(compile(_join_program(self.job), MODULE, "exec", dont_inherit=True), self.module.__dict__)
            send(tells, {"names": [one for one in vars(self.module) if isinstance(one, str)]})
        except BaseException as error:
            send(tells, self.tell_error(error))
            os._exit(0)
        while True:
            asked = loads(read(hears, int(read(hears, LENGTH))))
            try:
                said = self.answer(asked)
            except BaseException as error:
                said = self.tell_error(error)
            try:
                send(tells, said)
            except ValueError as error:
                send(tells, self.tell_error(error))

    def answer(self, asked):
        do = asked["do"]
        if do == "find":
            return {"value": self.encode(vars(self.module)[asked["name"]])}
        target = self.kept[asked["on"]] if "on" in asked else vars(self.module)[asked["name"]]
        if do == "call":
            args = [decode(one, self.find) for one in asked["args"]]
            kwargs = {key: decode(one, self.find) for key, one in asked["kwargs"].items()}
            value = self.encode(target(*args, **kwargs))
            return {"value": value, "args": self.tell_changed(asked["args"], args)}
        if do == "get":
            return {"value": self.encode(getattr(target, asked["name"]))}
        if do == "item":
            return {"value": self.encode(target[decode(asked["key"], self.find)])}
        if do == "len":
            return {"value": len(target)}
        if do == "list":
            items = []
            for one in target:
                items.append(self.encode(one))
                if len(items) > MOST_ITEMS:
                    raise ValueError("it gives more than %d items" % MOST_ITEMS)
            return {"value": items}
        raise ValueError(do)

    def tell_changed(self, told, args):
        """What the call made of lists and the like that it was given."""
        changed = {}
        for place, (before, value) in enumerate(zip(told, args)):
            if isinstance(before, (list, dict)) and not isinstance(value, (tuple, frozenset, bytes)):
                now = self.encode(value)
                if now != before:
                    changed[str(place)] = now
        return changed

    def encode(self, value):
        return encode(value, self.keep)

    def keep(self, value):
        number = len(self.kept)
        self.kept[number] = value
        try:
            truth = bool(value)
        except Exception:
            truth = True
        return {"object": [number, type(value).__name__[:80], truth]}

    def find(self, held):
        return self.kept[held[0]]

    def tell_error(self, error):
        names = [one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins"]
        try:
            words = str(error)[:MOST_WORDS]
        except BaseException:
            words = ""
        return {"error": type(error).__name__[:80], "kinds": names, "words": words}


# --- the process that checks ------------------------------------------------------------------------------------------


class _SetUpError(Exception):
    """The check itself is none: that says nothing of the program."""


class _Ended(Exception):
    """The program's process is gone, or does not speak as it should."""


class _Program:
    """The program's process, as who checks sees it."""

    def __init__(self, job, shown):
        hears, asks = os.pipe()
        sees, tells = os.pipe()
        self.job, self.ended, self.calls = job, "", 0
        self.deadline = time.monotonic() + job["clock_s"]
        self.child = os.fork()
        if not self.child:
            try:
                nowhere = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nowhere, 0)
                _become_tested(job, (shown, asks, sees, nowhere))
                _Served(job, hears, tells).run()
            finally:
                os._exit(70)
        os.close(hears)
        os.close(tells)
        self.asks, self.sees, self.names = asks, sees, None

    def start(self):
        """Wait until it has run. Returns what it raised."""
        said = self._hear()
        self.names = frozenset(said["names"]) if "names" in said else None
        return None if "names" in said else said

    def ask(self, **asked):
        """What it answers. Raises what it raised, as far as Python has that."""
        said = self.hear(**asked)
        if "error" in said:
            raise _make_error(said)
        return said

    def hear(self, **asked):
        """What it answers, or says that it raised."""
        if self.ended:
            raise _Ended(self.ended)
        self.calls += asked["do"] == "call"
        try:
            _send(self.asks, asked)
        except OSError:
            raise self._end("") from None
        return self._hear()

    def _hear(self):
        try:
            said = json.loads(self._read(int(self._read(LENGTH))))
            if not isinstance(said, dict) or not {"names", "value", "error"} & set(said):
                raise ValueError
            return said
        except EOFError:
            raise self._end(_say_end(self.child, self.deadline, self.job)) from None
        except (ValueError, RecursionError):
            raise self._end("it does not answer as Python does") from None

    def _read(self, count):
        if count > MOST_BYTES:
            raise ValueError
        pieces = bytearray()
        while len(pieces) < count:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.sees], [], [], left)[0]:
                raise EOFError
            piece = os.read(self.sees, min(count - len(pieces), 2**20))
            if not piece:
                raise EOFError
            pieces += piece
        return bytes(pieces)

    def _end(self, words):
        self.ended = self.ended or words or _say_end(self.child, self.deadline, self.job)
        return _Ended(self.ended)

    def open(self, told):
        """A value that it told."""
        try:
            return decode(told, self._find)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            raise self._end("it does not answer as Python does") from None

    def _find(self, held):
        return _Remote(self, {"on": int(held[0])}, str(held[1]), bool(held[2]))

    def call(self, target, args, kwargs):
        told = [encode(one, _hand_over) for one in args]
        said = self.ask(
            do="call", args=told, kwargs={key: encode(one, _hand_over) for key, one in kwargs.items()}, **target
        )
        for place, now in dict(said.get("args") or {}).items():
            _put_back(args[int(place)], self.open(now))
        return self.open(said["value"])


def _put_back(before, now):
    if type(before) is not type(now):
        return
    if isinstance(before, (list, bytearray)):
        before[:] = now
    elif isinstance(before, (dict, set)):
        before.clear()
        before.update(now)


def _hand_over(value):
    if type(value) is _Remote:
        return {"object": [value._at["on"]]} if "on" in value._at else _refuse(value)
    return _refuse(value)


def _refuse(value):
    raise _SetUpError("its check hands over %s: wanted data" % type(value).__name__)


class _Remote:
    """Something of the program's that is no data. It equals itself alone."""

    def __init__(self, program, at, kind, truth=True):
        self._program, self._at, self._kind, self._truth = program, at, kind, truth

    def __call__(self, *args, **kwargs):
        return self._program.call(self._at, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask(do="get", name=name)

    def __getitem__(self, key):
        return self._ask(do="item", key=encode(key, _hand_over))

    def __iter__(self):
        return iter(self._ask(do="list"))

    def __len__(self):
        return int(self._ask(do="len"))

    def __bool__(self):
        return self._truth

    def __repr__(self):
        return "<%s>" % self._kind

    def _ask(self, **asked):
        if "on" not in self._at:
            raise TypeError("a function")
        return self._program.open(self._program.ask(**dict(asked, **self._at))["value"])


def _find_kind(names):
    """The first of them that is one of Python's own exceptions; of none, what all of these are."""
    import builtins

    for name in names if isinstance(names, list) else ():
        kind = getattr(builtins, str(name), None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind
    return BaseException


def _make_error(said):
    """The nearest of Python's own errors to what the program raised; never one that ends us."""
    kind, words = _find_kind(said.get("kinds")), str(said.get("words", ""))
    if not issubclass(kind, Exception):
        return RuntimeError("it raised %s" % str(said["error"])[:80])
    try:
        return kind(words)
    except TypeError:  # some want more than words: other errors, or what could not be read as text
        return kind.__new__(kind, words, [Exception(words)])


def _name_error(said):
    """The names that what the program raised goes by: its class's own, and those of the nearest of Python's own errors
    and of what that stands on.

    That is what raising a class of that name gives. What else the program's process tells counts for nothing: it could
    tell all names there are, and would have raised whatever is wanted.
    """
    import builtins

    name, kinds = str(said["error"])[:80], said.get("kinds")
    nearest = _find_kind([name, *(kinds if isinstance(kinds, list) else ())])
    stands_on = [one for one, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(nearest, kind)]
    return [name, *stands_on]


class _Names(dict):
    """The names of a check: those that it does not have itself are the program's."""

    def __init__(self, program):
        super().__init__(__name__="check")
        self.program = program

    def __missing__(self, name):
        import builtins

        if hasattr(builtins, name) or name not in (self.program.names or ()):
            raise KeyError(name)
        return self.program.open(self.program.ask(do="find", name=name)["value"])


def _start(program, job):
    """Wait until the program has run. Returns why nothing of it can be called; "" where it can."""
    raised = program.start()
    if raised:
        return "it raised %s" % str(raised["error"])[:80]
    entry = job["entry"]
    return "wanted %s in it, found none" % entry if entry and entry not in program.names else ""


def _run_check(program, job, wanted):
    names = _Names(program)
    try:
        exec(compile(job["setup"], "setup", "exec", dont_inherit=True), names)
        tests = [compile(one, "check", "exec", dont_inherit=True) for one in wanted["tests"]]
    except Exception as error:
        raise _SetUpError("its check cannot be run: %s" % _name(error)) from None
    if words := _start(program, job):
        return {"passed": False, "words": words}
    entry = job["entry"]
    if entry:
        names[entry] = _Remote(program, {"name": entry}, "function")
    names.pop("check", None)
    try:
        for test in tests:
            exec(test, names)
        if "check" in names.keys():
            names["check"](names[entry])
    except _SetUpError:
        raise
    except BaseException as error:
        told = (
            "its check fails" if isinstance(error, AssertionError) else "its check ends with %s" % type(error).__name__
        )
        return {"passed": False, "words": told, "calls": program.calls}
    if not program.calls:
        raise _SetUpError("its check never calls it")
    return {"passed": True, "words": "every check passes", "calls": program.calls}


def _run_calls(program, job, wanted):
    if ended := _start(program, job):
        return {"ended": ended, "cases": []}
    cases = []
    for case in wanted["cases"]:
        try:
            said = program.hear(do="call", name=case["function"], args=case["args"], kwargs=case["kwargs"])
            if "error" in said:
                cases.append({"raised": _name_error(said)})
            else:
                program.open(said.get("value"))  # what is no data ends it here, and nobody else has to read it
                cases.append({"value": said.get("value")})
        except _Ended:
            break
    return {"cases": cases}


if __name__ == "__main__":
    main()
