"""Runs the tests of a task within a sandbox, and tells which of them passed. Read as text and run by whatever Python
the task wants, from 3.8 on: it imports nothing of ours.

Two processes. This one is there before any of the candidate's code is and reads none of it: it knows which tests must
run, takes what the other tells, and is sealed against it. The other one is forked to import and run. What it tells
carries a word that is drawn for this one run; what is printed, written to files or returned as an exit code is nothing.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import json
import os
import select
import signal
import stat
import sys
import time

MOST_OUTPUT = 16_384
MOST_REPORT = 8 * 2**20
MOST_WORDS = 200
MOST_FAILURES = 100
"""Whose words are kept. A value that a case came to is always."""
PR_SET_DUMPABLE = 4
FIRST_TO_GO = "1000"
SEALED = (
    "builtins", "collections", "contextlib", "copy", "decimal", "difflib", "functools", "inspect", "io", "itertools",
    "math", "operator", "os", "posix", "posixpath", "pprint", "re", "traceback", "types",
)  # fmt: skip
"""Modules that are as they were behind every test, beside those of the runners."""
CHANGED_BY_PYTEST = ("_pytest.config.Config._getini_unknown_type",)
FUNCTION = type(lambda: None)
ASYNC = 0x80
"""What says of code that it is a coroutine's."""
RUNNERS = ("unittest", "pytest", "_pytest", "pluggy")
OFTEN = ("builtins", "unittest.case", "unittest.result", "unittest.suite", "_pytest.python", "_pytest.runner",
         "_pytest.reports", "_pytest.outcomes", "_pytest.unittest", "pluggy._callers", "pluggy._hooks")  # fmt: skip
"""Of these, those that are looked at behind every test; the others behind every so many, and at the end. Those of the
runners are looked at directly behind what a test does, too, before a runner does anything with it."""
EVERY = 50
WATCHED = {
    "sys._getframe": ("_getframe", "currentframe", "inspect.stack"),
    "sys._current_frames": ("_current_frames",),
    "sys.settrace": ("settrace",),
    "sys.setprofile": ("setprofile",),
    "sys.addaudithook": ("addaudithook",),
    "gc.get_objects": ("get_objects",),
    "gc.get_referrers": ("get_referrers",),
    "gc.get_referents": ("get_referents",),
}
"""Ways to look into or steer who tests, which code that is tested has no need of -> what stands in its text before."""
LOOKED_AT = ("__closure__", "tb_frame", "gi_frame", "cr_frame", "ag_frame")
CLOSED = ("__closure__", "cell_contents", "getclosurevars")
"""Ways into what functions of ours know that raise no event: their words in the text of a patch are an alarm."""
PARTS = ("_callSetUp", "_callTearDown", "_callCleanup")
NO_END = "it did not come to its own end"


def main():
    job = json.loads(sys.stdin.buffer.read())
    root = job["root"]
    for path, content in job["write"].items():
        _write(os.path.join(root, path), content)
    for path, content in job["extra"].items():
        _write(path, content)
    for path in job["remove"]:
        os.remove(os.path.join(root, path))
    kept, places = _keep_tests(root, job["guarded"])
    _seal()
    if job["parser"] == "script":
        found = _run_script(job)
    else:
        found = _run_tested(job, kept)
    changed = [path for path, before in places.items() if _stat(path) != before]
    if changed:
        found["tampering"].append("%s was changed while tests ran" % os.path.relpath(changed[0], root))
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()


def _run_tested(job, kept):
    nonce = binascii.hexlify(os.urandom(16)).decode()
    hears, tells = os.pipe()
    sees, shows = os.pipe()
    child = os.fork()
    if not child:
        try:
            _become_tested(job, hears, sees, shows)
            _Tested(job, kept, nonce, tells).run()
        except BaseException as error:
            os.write(2, ("%s: %s\n" % (type(error).__name__, error)).encode(errors="replace"))
        finally:
            os._exit(1)
    os.close(tells)
    os.close(shows)
    return _listen(child, hears, sees, nonce, job["timeout_s"])


def _run_script(job):
    """A script that says by a file what the work is worth. It is read when nobody is left who could write it."""
    told = _make_told()
    for place in job["rewards"]:
        os.makedirs(os.path.dirname(place), exist_ok=True)  # as whoever wrote the script may count on
    for script in job["scripts"]:
        sees, shows = os.pipe()
        child = os.fork()
        if not child:
            try:
                _become_tested(job, sees, sees, shows)
                os.execv("/bin/bash", ["bash", script])
            finally:
                os._exit(127)
        os.close(shows)
        _wait_for(child, sees, job["timeout_s"], told)
        if not told["timed_out"] and _find_others():
            told["tampering"].append("%s left processes behind" % os.path.basename(script))
        _end_all()
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
    for place in job["rewards"]:
        if os.path.isfile(place) and not os.path.islink(place):
            try:
                with open(place, "rb") as stream:
                    told["reward"] = stream.read(4096).decode(errors="replace")
            except OSError as error:  # somebody locked it
                told["reward"] = "%s: %s" % (os.path.basename(place), error.strerror)
            break
    return told


def _wait_for(child, sees, timeout_s, told):
    deadline = time.monotonic() + timeout_s
    output = bytearray()
    while not _has_ended(child):
        left = deadline - time.monotonic()
        if left <= 0:
            told["timed_out"] = True
            break
        if select.select([sees], [], [], min(left, 0.05))[0]:
            piece = os.read(sees, 65_536)
            if not piece:
                time.sleep(0.01)
            output += piece
            del output[:-MOST_OUTPUT]
    os.close(sees)
    told["output"] = output.decode(errors="replace")


def _find_others():
    """Processes beside the first, this one and those that are over."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                with open("/proc/%s/stat" % name) as stream:
                    if stream.read().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(name))
            except OSError:
                continue
    return found


def _write(path, content):
    if os.path.isdir(os.path.dirname(path)) is False:
        os.makedirs(os.path.dirname(path))
    with open(path, "wb") as stream:
        stream.write(binascii.a2b_base64(content))


def _keep_tests(root, guarded):
    """Content of the tests as they are now, and what the kernel knows of each: a change shows there, even one undone.

    Beside each lies an empty directory where Python looks for what it compiled before: nothing can be put there
    unseen.
    """
    kept, places = {}, {}
    for path in guarded:
        whole = os.path.join(root, path)
        if path.endswith(".py"):
            with open(whole, "rb") as stream:
                kept[whole] = stream.read()
        places[whole] = None
    for place in {os.path.join(os.path.dirname(path), "__pycache__") for path in kept}:
        os.makedirs(place)
        places[place] = None
    return kept, {path: _stat(path) for path in places}


def _stat(path):
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size, stat.S_IFMT(found.st_mode)


def _seal(opens=0):
    """Nobody of the same user may look into this process, or take hold of what it has open."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, opens, 0, 0, 0):
        raise OSError("prctl refuses PR_SET_DUMPABLE")


def _make_told():
    told = {"outcomes": {}, "words": {}, "tampering": [], "timed_out": False, "ended": "", "unbuilt": "", "output": ""}
    return dict(told, reward=None)


def _listen(child, hears, sees, nonce, timeout_s):
    """What the other process tells until it ends or its time is over; then everything that it started is ended."""
    told = _make_told()
    deadline = time.monotonic() + timeout_s
    heard, output = bytearray(), bytearray()
    open_ends = {hears, sees}
    is_over = False
    while open_ends:
        left = deadline - time.monotonic()
        if left <= 0:
            told["timed_out"] = True
            break
        ready = select.select(list(open_ends), [], [], min(left, 0.5))[0]
        for end in ready:
            piece = os.read(end, 65_536)
            if not piece:
                open_ends.discard(end)
            elif end == hears:
                heard += piece
            else:
                output += piece
                del output[:-MOST_OUTPUT]
        if len(heard) > MOST_REPORT:
            told["tampering"].append("the report of its tests was flooded")
            break
        while b"\n" in heard:
            line, _, rest = heard.partition(b"\n")
            heard = bytearray(rest)
            is_over = _take_line(line, nonce, told) or is_over
        if is_over:
            break
        if not ready and _has_ended(child):
            break  # who holds the pipes still was left behind
    _end_all()
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if hasattr(os, "waitstatus_to_exitcode") else 0
    except ChildProcessError:
        code = 0
    if not is_over and not told["timed_out"]:
        told["ended"] = "the process of its tests ended before them (%s)" % (
            "exit code %d" % code if code >= 0 else "signal %d" % -code
        )
    told["output"] = output.decode(errors="replace")
    return told


def _has_ended(child):
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _end_all():
    try:
        os.kill(-1, signal.SIGKILL)  # all of this sandbox but its first process and us
    except ProcessLookupError:
        pass


def _take_line(line, nonce, told):
    word, _, text = line.decode(errors="replace").partition(" ")
    if word != nonce:
        told["tampering"].append("something else wrote into the report of its tests")
        return False
    said = json.loads(text)
    kind = said["kind"]
    if kind == "end":
        return True
    if kind == "unbuilt":
        told["unbuilt"] = said["words"]
        return True
    if kind == "tampering":
        if len(told["tampering"]) < 20:
            told["tampering"].append(said["words"])
    elif told["outcomes"].setdefault(said["test"], said["outcome"]) != said["outcome"]:
        told["outcomes"][said["test"]] = "failed"
    if said.get("words") and kind == "test" and (said["outcome"] == "value" or len(told["words"]) < MOST_FAILURES):
        told["words"][said["test"]] = said["words"]
    return False


# --- the process that imports and runs what nobody trusts ------------------------------------------------------------


def _become_tested(job, hears, sees, shows):
    os.setsid()
    _seal(1)  # it is as open as any other program
    sys.modules.pop("ctypes", None)
    sys.modules.pop("_ctypes", None)
    with open("/proc/self/oom_score_adj", "w") as stream:
        stream.write(FIRST_TO_GO)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number, end in ((0, nowhere), (1, shows), (2, shows)):
        os.dup2(end, number)
    for end in {hears, sees, shows, nowhere}:
        os.close(end)
    sys.stdin = open(0)
    sys.stdout = open(1, "w", buffering=1, errors="replace")
    sys.stderr = open(2, "w", buffering=1, errors="replace")
    os.environ.update(job["variables"])
    os.chdir(job["root"])
    sys.dont_write_bytecode = True
    sys.argv = [job["root"]]
    sys.path[:] = [one for one in sys.path if one] + job["packages"]


class _Tested:
    """What is done there. What it needs later is taken now, while everything is as Python brought it: as names of
    functions within functions, since whatever stands in a module or a class can be another by then."""

    def __init__(self, job, kept, nonce, tells):
        self.job = job
        self.wanted = dict.fromkeys(job["tests"])
        self.run_by = {"unittest": self._run_unittest, "django": self._run_django, "pytest": self._run_pytest,
                       "cases": self._run_cases}  # fmt: skip
        self.report = _make_report(nonce, tells)
        self.kept = kept
        self.prints, self.often, self.direct = [], [], []
        self.find_equal, self.equal = _make_equality_check(job["changed"]), []
        self.check, self.tell = self._make_tell()

    def run(self):
        run, report, check, find_equal = self.run_by[self.job["parser"]], self.report, self.check, self.find_equal
        prints, leave = self.prints, os._exit
        run()
        check(prints)
        if words := find_equal():
            report(kind="tampering", words=words)
        report(kind="end")
        leave(0)  # nothing that was to happen at its exit

    def _make_tell(self):
        report, prints, often, direct, equal = self.report, self.prints, self.often, self.direct, self.equal
        every, most, told = EVERY, MOST_WORDS, [0]

        def check(wanted):
            """Whether whoever tests is as before; what is not is told."""
            for space, holder, name, value, code, defaults in wanted:
                found = space.get(name)
                if found is not value or (code and (found.__code__ is not code or found.__defaults__ is not defaults)):
                    report(kind="tampering", words="%s.%s is another" % (holder, name))
            for find in equal:
                if words := find():
                    report(kind="tampering", words=words)

        def tell(test, outcome, words=""):
            told[0] += 1
            if outcome == "passed":
                check(often if told[0] % every else prints)
            else:  # it may be in the middle of a test, which may have changed what is not the runners' for a while
                check(direct)
            report(kind="test", test=test, outcome=outcome, words=str(words)[-most:])

        return check, tell

    def _open(self, *names):
        """Let the repository in, and look at it from now on."""
        import math  # noqa: F401
        import operator  # noqa: F401

        loaded = [name for name in sys.modules if name in SEALED or name.split(".")[0] in names]
        self.prints += _take_prints(loaded)
        self.often += [one for one in self.prints if one[1].startswith(OFTEN)]
        self.direct += [one for one in self.often if one[1].startswith(RUNNERS)]
        if any(_holds(path, b"__eq__") or _holds(path, b"__ne__") for path in self.job["changed"]):
            self.equal.append(self.find_equal)
        self._look_for_closures()
        sys.modules["__main__"] = type(sys)("__main__")  # this one is nobody's to import
        _keep_imports(self.kept)
        _watch(self.job, self.report)
        root = self.job["root"]
        roots = [os.path.normpath(os.path.join(root, one)) for one in self.job["roots"]]
        self._forget_installed(roots)
        sys.path[:0] = roots
        return roots

    def _forget_installed(self, roots):
        """What a runner has imported from the wheels and the repository is itself: tests want the repository's."""
        own = {entry.partition(".")[0] for root in roots if os.path.isdir(root) for entry in os.listdir(root)}
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None) or ""
            if name.partition(".")[0] in own and place.startswith(tuple(self.job["packages"]) or ("/opt/no",)):
                del sys.modules[name]

    def _look_for_closures(self):
        for path, known in self.job["changed"].items():
            for word in CLOSED:
                if word not in known and _holds(path, word.encode()):
                    self.report(kind="tampering", words="%s uses %s" % (os.path.basename(path), word))

    def _import_mock(self):
        if any(b"mock" in content for content in self.kept.values()):
            import unittest.mock  # noqa: F401

    # unittest, and what is built on it

    def _make_tellers(self, has_passed):
        """What a result is told -> what we tell of it. That a test has passed is believed where it did."""
        tell, wanted, say, no_end = self.tell, self.wanted, _say, NO_END

        def name(test):
            whole = test.id()
            if whole in wanted:
                return whole
            told = test.shortDescription() if hasattr(test, "shortDescription") else None
            return told if told in wanted else whole

        def pass_test(test):
            tell(name(test), *(("passed",) if has_passed(test) else ("failed", no_end)))

        return {
            "addSuccess": pass_test,
            "addError": lambda test, err: tell(name(test), "error", say(err)),
            "addFailure": lambda test, err: tell(name(test), "failed", say(err)),
            "addSubTest": lambda test, part, err: err is None or tell(name(test), "failed", say(err)),
            "addSkip": lambda test, reason: tell(name(test), "skipped", reason),
            "addExpectedFailure": lambda test, err: tell(name(test), "failed", "it was expected to fail"),
            "addUnexpectedSuccess": lambda test: tell(name(test), "failed", "it was not expected to pass"),
        }

    def _tell_results(self, kind, has_passed):
        """A class of results tells us too whatever it is told."""

        def join(own, teller):
            def both(self, *words):
                own(self, *words)
                teller(*words)

            return both

        for method, teller in self._make_tellers(has_passed).items():
            setattr(kind, method, join(getattr(kind, method), teller))

    def _make_result(self, kind, has_passed):
        """A result of a class of its own: who changes the class of results changes nothing for it."""

        def alone(teller):
            return lambda self, *words: teller(*words)

        names = {method: alone(teller) for method, teller in self._make_tellers(has_passed).items()}
        return type("TestResult", (kind,), {"__getattribute__": object.__getattribute__, **names})()

    def _hold_cases(self):
        """Each test case holds its checks and its method from its making on, and what they come to is known here before
        a runner hears of it. Whether a test has passed, as far as it is its own doing."""
        import unittest.case

        check, direct = self.check, self.direct
        case, sub_kind = unittest.case.TestCase, unittest.case._SubTest
        went, own_prints, identity, hold = {}, {}, id, _hold
        own_init, own_part = case.__init__, case.subTest

        def note(test, is_good, is_whole=False):
            check(direct)
            check(own_prints.get(type(test), ()))
            known = went.setdefault(identity(test), [False, True])
            known[0] = known[0] or is_whole
            known[1] = known[1] and is_good

        def init(self, *words, **named):
            own_init(self, *words, **named)
            if type(self) is not sub_kind:
                went.pop(identity(self), None)
                hold(self, kept, case, note, own_prints)

        @contextlib.contextmanager
        def subTest(self, *words, **named):
            with own_part(self, *words, **named):
                try:
                    yield
                except BaseException:
                    note(self, False)
                    raise

        case.__init__ = functools.update_wrapper(init, own_init)
        case.subTest = functools.update_wrapper(subTest, own_part)
        kept = {name: value for name, value in vars(case).items() if _is_check(name, value)}
        return lambda test: went.get(identity(test)) == [True, True]

    def _run_unittest(self):
        import importlib
        import unittest

        self._import_mock()
        result = self._make_result(unittest.TestResult, self._hold_cases())
        load, suites, suite = unittest.defaultTestLoader.loadTestsFromModule, unittest.TestSuite, _flatten
        import_module, wanted, tell = importlib.import_module, self.wanted, self.tell
        roots = self._open("unittest")
        chosen = []
        for name, listed in _group_by_module(wanted, roots).items():
            try:
                found = list(suite(load(import_module(name)), suites))
            except BaseException as error:
                for test in listed:
                    tell(test, "error", "%s could not be imported: %s: %s" % (name, type(error).__name__, error))
                continue
            chosen += [test for test in found if {name, test.id(), test.shortDescription()} & set(wanted)]
        suites(chosen).run(result)

    def _run_django(self):
        import runpy
        import unittest
        import unittest.runner

        self._import_mock()
        self._tell_results(unittest.TestResult, self._hold_cases())
        run_path = runpy.run_path
        self._open("unittest")
        script, *rest = self.job["command"]
        sys.argv = [script, *rest]
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        try:
            run_path(script, run_name="__main__")
        except SystemExit:
            pass

    # pytest

    def _run_pytest(self):
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        try:
            import pytest
            import _pytest.unittest  # noqa: F401

            for name in self.job["plugins"]:
                __import__(name)
        except ImportError as error:
            self.report(kind="unbuilt", words=str(error))
            os._exit(0)
        self._hold_cases()
        cases = sys.modules["unittest"].TestCase
        wanted, tell, told, seal, no_end = self.wanted, self.tell, {}, self._seal_items, NO_END
        check, direct, went, follow, function = self.check, self.direct, {}, _follow, pytest.Function
        run_all = pytest.main

        def note(nodeid, part, is_good):
            check(direct)
            went.setdefault(nodeid, {})[part] = is_good

        def watch(when, nodeid):
            """A phase of a test, whatever a runner makes of it."""
            is_good = False
            try:
                done = yield
                is_good = getattr(done, "excinfo", None) is None  # a result, where pluggy is old
                return done
            finally:
                note(nodeid, when, is_good)

        try:
            around = pytest.hookimpl(wrapper=True, tryfirst=True)
        except TypeError:
            around = pytest.hookimpl(hookwrapper=True, tryfirst=True)

        class Reporter:
            @around
            def pytest_runtest_setup(self, item):
                went[item.nodeid] = {}
                return (yield from watch("setup", item.nodeid))

            @around
            def pytest_runtest_call(self, item):
                nodeid = item.nodeid
                if not isinstance(item, function):
                    return (yield from watch("call", nodeid))
                method = item.obj
                went[nodeid]["method"] = False
                item.obj = follow(method, lambda is_good: note(nodeid, "method", is_good))
                case = getattr(method, "__self__", None)
                if isinstance(case, cases):  # one that waits is taken from there
                    setattr(case, item.name, item.obj)
                try:
                    return (yield from watch("call", nodeid))
                finally:
                    item.obj = method

            @around
            def pytest_runtest_teardown(self, item):
                return (yield from watch("teardown", item.nodeid))

            @pytest.hookimpl(trylast=True)
            def pytest_collection_modifyitems(self, config, items):
                chosen = [one for one in items if one.nodeid in wanted or one.nodeid.split("::")[0] in wanted]
                config.hook.pytest_deselected(items=[one for one in items if one not in chosen])
                items[:] = chosen
                seal(chosen)

            @pytest.hookimpl(tryfirst=True)
            def pytest_runtest_logreport(self, report):
                said = told.setdefault(report.nodeid, {})
                if said.get(report.when) != "failed":  # as a part of it may have, which is told under its name
                    said[report.when] = "xfail" if hasattr(report, "wasxfail") else report.outcome
                if report.outcome != "passed":
                    said["words"] = str(getattr(report, "longreprtext", "")).strip().split("\n")[-1]

            @pytest.hookimpl(trylast=True)
            def pytest_runtest_logfinish(self, nodeid):
                said = told.pop(nodeid, {})
                words = said.pop("words", "")
                outcomes = list(said.values())
                parts = went.pop(nodeid, {})
                if outcomes == ["passed"] * 3:
                    is_good = len(parts) >= 3 and all(parts.values())
                    tell(nodeid, *(("passed",) if is_good else ("failed", no_end)))
                elif "failed" in outcomes:
                    tell(nodeid, "failed" if said.get("call") == "failed" else "error", words)
                else:
                    tell(nodeid, "skipped", words or ", ".join(outcomes))

            def pytest_collectreport(self, report):
                if report.failed:
                    words = str(report.longreprtext).strip().split("\n")[-1]
                    for test in wanted:
                        if test.split("::")[0] == report.nodeid.split("::")[0]:
                            tell(test, "error", words)

        files = dict.fromkeys(test.split("::")[0] for test in wanted)
        plugins = [part for name in self.job["plugins"] for part in ("-p", name)]
        options = ["-p", "no:cacheprovider", "-q", "--color=no", "--continue-on-collection-errors"]
        options += [*plugins, *self.job["command"]]
        self._open(*RUNNERS)
        run_all([*options, *(one for one in files if os.path.exists(one))], plugins=[Reporter()])

    def _seal_items(self, items):
        """Tests stay what they were collected as."""
        for one in items:
            for holder in (getattr(one, "cls", None), getattr(one, "module", None)):
                name = getattr(one, "originalname", None) or one.name
                if holder is not None and name in vars(holder):
                    print_of = _print(vars(holder), holder.__name__, name, vars(holder)[name])
                    self.prints.append(print_of)

    # cases: what is wanted is known outside alone

    def _run_cases(self):
        self._open()
        for case in self.job["cases"]:
            self.report(kind="test", test=case["id"], outcome="value", words=_run_case(case["code"]))


def _make_report(nonce, tells):
    write, dumps = os.write, json.dumps

    def report(**said):
        line = memoryview(("%s %s\n" % (nonce, dumps(said))).encode())
        while line:
            line = line[write(tells, line) :]

    return report


def _run_case(code):
    import ast

    names = {"__name__": "case"}
    try:
        tree = ast.parse(code)
        last = tree.body.pop()
        exec(compile(tree, "<case>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<case>", "eval"), names)
    except BaseException as error:
        return "raised %s" % type(error).__name__
    return repr(value) if _is_plain(value) else "<%s>" % type(value).__name__


def _is_plain(value, depth=0):
    kind = type(value)
    if kind in (list, tuple):
        return depth < 20 and all(_is_plain(one, depth + 1) for one in value)
    if kind is dict:
        return depth < 20 and all(_is_plain(one, depth + 1) for pair in value.items() for one in pair)
    return value is None or kind in (bool, int, float, str, bytes)


def _holds(path, words):
    try:
        with open(path, "rb") as stream:
            return words in stream.read()
    except OSError:
        return False


def _say(err):
    return "%s: %s" % (err[0].__name__, err[1])


def _flatten(suite, kind):
    for one in suite:
        if isinstance(one, kind):
            yield from _flatten(one, kind)
        else:
            yield one


def _group_by_module(wanted, roots):
    """Module -> its tests, in order: the longest part of a test's name that a file stands for."""
    groups, last = {}, ""
    for test in wanted:
        parts = test.split(".")
        for count in range(len(parts), 0, -1):
            place = os.path.join(*parts[:count])
            if any(os.path.isfile(os.path.join(root, place + ".py")) for root in roots) or any(
                os.path.isfile(os.path.join(root, place, "__init__.py")) for root in roots
            ):
                last = ".".join(parts[:count])
                groups.setdefault(last, []).append(test)
                break
    return groups


def _is_check(name, value):
    return callable(value) and (not name.startswith("__") or name == "__call__")


def _hold(test, kept, base, note, own_prints):
    """Give a test the checks themselves, and itself: who changes them in a class changes nothing for it.

    Args:
        note: is told, directly behind each part of the test, whether it came to its end.
        own_prints: of each class of tests, what stands in it behind that.
    """
    kind, spaces = type(test), {}
    if kind not in own_prints:
        for name, value in kept.items():
            has_it = next((one for one in kind.__mro__ if name in vars(one)), None)
            if has_it is base and type(value) is FUNCTION and "__class__" not in value.__code__.co_freevars:
                names = spaces.setdefault(id(value.__globals__), dict(value.__globals__))
                copied = FUNCTION(value.__code__, names, name, value.__defaults__, value.__closure__)
                copied.__kwdefaults__ = value.__kwdefaults__
                setattr(kind, name, copied)
        own = vars(kind)
        own_prints[kind] = [_print(own, kind.__name__, name, own.get(name)) for name in kept]
    for name in PARTS:
        if hasattr(test, name):
            setattr(test, name, _follow(getattr(test, name), lambda is_good: note(test, is_good)))
    method = getattr(test, "_testMethodName", "")
    if hasattr(test, method):
        setattr(test, method, _follow(getattr(test, method), lambda is_good: note(test, is_good, True)))


def _follow(method, note):
    """The same, and its end is told to `note` before anybody else can hear of it."""
    if getattr(getattr(method, "__code__", None), "co_flags", 0) & ASYNC:

        async def follow(*words, **named):
            is_good = False
            try:
                value = await method(*words, **named)
                is_good = True
                return value
            finally:
                note(is_good)

    else:

        def follow(*words, **named):
            is_good = False
            try:
                value = method(*words, **named)
                is_good = True
                return value
            finally:
                note(is_good)

    functools.update_wrapper(follow, method)
    for name in ("__self__", "__func__"):
        if hasattr(method, name):
            setattr(follow, name, getattr(method, name))
    return follow


# --- looking whether it keeps off who tests it -----------------------------------------------------------------------


def _take_prints(names):
    """What stands in these modules and in their classes: the very things, and each function's code."""
    prints = []
    for name in names:
        module = sys.modules[name]
        for key, value in list(vars(module).items()):
            if callable(value):
                prints.append(_print(vars(module), name, key, value))
            if isinstance(value, type) and value.__module__ == name:
                whole = "%s.%s" % (name, value.__name__)
                for inner, held in list(vars(value).items()):
                    if "%s.%s" % (whole, inner) in CHANGED_BY_PYTEST:
                        continue
                    if callable(held) or isinstance(held, (staticmethod, classmethod, property)):
                        prints.append(_print(vars(value), whole, inner, held))
    return prints


def _print(space, holder, name, value):
    code = value.__code__ if type(value) is FUNCTION else None
    return space, holder, name, value, code, value.__defaults__ if code else None


def _make_equality_check(changed):
    """Whether a class of the candidate's says that it is equal to whatever there is, as no honest one does."""
    subclasses, function = type.__subclasses__, FUNCTION

    def check():
        waiting, seen = [object], {object}
        while waiting:
            for kind in subclasses(waiting.pop()):
                if kind in seen:
                    continue
                seen.add(kind)
                waiting.append(kind)
                for name, wrong in (("__eq__", True), ("__ne__", False)):
                    method = vars(kind).get(name)
                    if type(method) is function and method.__code__.co_filename in changed:
                        try:
                            found = method(object(), object())
                        except Exception:
                            continue
                        if found is not NotImplemented and bool(found) is wrong:
                            return "%s says that it is equal to everything" % kind.__name__
        return ""

    return check


def _keep_imports(kept):
    """Tests are imported as they were read at first, not as they may lie there by then."""
    from importlib.machinery import PathFinder, SourceFileLoader

    find = PathFinder.find_spec

    class Loader(SourceFileLoader):
        def get_code(self, fullname):
            return compile(kept[self.path], self.path, "exec", dont_inherit=True)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            spec = find(name, path, target)
            if spec is not None and spec.origin in kept:
                spec.loader = Loader(name, spec.origin)
            return spec

    place = sys.meta_path.index(PathFinder)
    sys.meta_path.insert(place, Finder)


def _watch(job, report):
    """Tell when the candidate's code looks into the frames, the objects or the interpreter of who tests it."""
    changed, get_frame, busy = job["changed"], sys._getframe, []
    watched, looked_at, base = WATCHED, LOOKED_AT, os.path.basename

    def hook(event, args):
        if busy or not (event in watched or event.startswith(("ctypes.", "object.__"))):
            return
        busy.append(event)
        try:
            words = name_look(event, args)
            frame = get_frame(1) if words else None
            while frame is not None and (frame.f_code.co_filename.startswith("<") or is_looker(frame, event)):
                frame = frame.f_back
            if frame is not None and frame.f_code.co_filename in changed:
                known = changed[frame.f_code.co_filename]
                if not any(one in known for one in watched.get(event, (words,))):
                    report(kind="tampering", words="%s uses %s" % (base(frame.f_code.co_filename), words))
        finally:
            busy.clear()

    def is_looker(frame, event):
        return event == "sys._getframe" and frame.f_globals.get("__name__") == "inspect"

    def name_look(event, args):
        if event == "object.__getattr__":
            return args[1] if args[1] in looked_at else ""
        if event == "object.__setattr__":
            return args[1] if args[1] == "__code__" else ""
        if event.startswith("object.__"):
            return ""
        return "ctypes" if event.startswith("ctypes.") else event

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
