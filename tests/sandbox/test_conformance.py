"""What every backend of the sandbox host does alike."""

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tentalis.sandbox.agent import SCREEN_BYTES
from tentalis.sandbox.client import Result, SandboxClient
from tentalis.sandbox.errors import SandboxLostError, SandboxRefusedError
from tests.sandbox.conftest import Asked

MIB = 2**20
START = "/work"
"""Where programs start in a sandbox, and what paths without a root are beneath."""


def sh(asked: Asked, sandbox: str, script: str, **options: Any) -> Result:
    return asked.client.run(sandbox, ["/bin/sh", "-c", script], **options)


def test_output_errors_and_exit_code_come_back_apart(asked: Asked, sandbox: str) -> None:
    done = sh(asked, sandbox, "cat; echo bad >&2; exit 3", stdin=b"given \xff\0 as bytes")
    assert (done.code, done.out, done.err) == (3, b"given \xff\0 as bytes", b"bad\n")
    assert (done.timed_out, done.dropped, done.has_ended) == (False, 0, False)


def test_a_program_that_a_signal_ends_counts_as_shells_count(asked: Asked, sandbox: str) -> None:
    assert sh(asked, sandbox, "kill -SEGV $$").code == 128 + 11


def test_a_program_sees_what_it_is_given_and_nothing_of_the_hosts(asked: Asked, sandbox: str) -> None:
    done = asked.client.run(sandbox, ["/usr/bin/env"], environment={"SEED": "7"}, cwd="/tmp")
    names = {line.split("=")[0] for line in done.out.decode().splitlines()}
    assert names == {"PATH", "HOME", "LC_CTYPE", "SHELL", "USER", "SEED"}
    for listed in (sh(asked, sandbox, "ls /proc/self/fd"), asked.client.ask_shell(sandbox, "ls /proc/self/fd")):
        assert listed.out == b"0\n1\n2\n3\n"  # the last one is that of what is listed


def test_a_program_that_is_not_there_is_named(asked: Asked, sandbox: str) -> None:
    with pytest.raises(SandboxRefusedError, match="/no/program: No such file"):
        asked.client.run(sandbox, ["/no/program"])
    with pytest.raises(SandboxRefusedError, match="/no/place: No such file"):
        asked.client.run(sandbox, ["/bin/true"], cwd="/no/place")


def test_an_image_is_there_and_stays_as_it_was(asked: Asked, sandbox: str) -> None:
    assert asked.client.read(sandbox, "hello") == b"hello\n"
    assert asked.client.run(sandbox, ["./program", "x"]).out == b"./program 1\n"
    sh(asked, sandbox, "echo more >> hello; rm -r notes; echo 1 > /tmp/new")
    assert (asked.image_directory / "work/hello").read_text() == "hello\n"
    other = asked.client.create(asked.image)
    assert sh(asked, other, "cat hello link; ls /tmp").out == b"hello\n1\n"
    asked.client.destroy(other)


def test_the_same_content_is_the_same_image(asked: Asked) -> None:
    assert asked.client.add_image(asked.image_directory) == asked.image


def test_what_is_written_is_read_back(asked: Asked, sandbox: str) -> None:
    content = bytes(range(256)) * (3 * MIB // 256)
    asked.client.write(sandbox, "deep/er/file", content, mode=0o750, makes_parents=True)
    assert asked.client.read(sandbox, f"{START}/deep/er/file") == content
    assert asked.client.read(sandbox, "deep/er/file", offset=len(content) - 2, most_bytes=100) == content[-2:]
    asked.client.write(sandbox, "deep/er/file", b"short")
    told = sh(asked, sandbox, "cat deep/er/file; stat -c %a deep/er/file; echo -n hi > seen").out
    assert told == b"short644\n"
    assert asked.client.read(sandbox, "seen") == b"hi"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nothing", "No such file"),
        ("/dev/null", "found a device"),
        ("/tmp", "found a directory"),
        ("pipe", "found a named pipe"),
        ("/proc/version", "found one of the kernel's"),
    ],
)
def test_only_files_are_read(asked: Asked, sandbox: str, path: str, words: str) -> None:
    sh(asked, sandbox, "mkfifo pipe")
    with pytest.raises(SandboxRefusedError, match=words):
        asked.client.read(sandbox, path)


def test_a_shell_lasts(asked: Asked, sandbox: str) -> None:
    def ask(command: str) -> tuple[int, bytes]:
        done = asked.client.ask_shell(sandbox, command)
        return done.code, done.out

    assert ask("cd /tmp; name='a  b'; double() { echo $(($1 * 2)); }") == (0, b"")
    assert ask('pwd; echo "$name"; double 21') == (0, b"/tmp\na  b\n42\n")
    assert ask("false") == (1, b"")
    assert ask("echo $?; (exit 77)") == (77, b"1\n")
    assert ask("for i in 1 2\ndo echo it\\'s $i\ndone >&2") == (0, b"it's 1\nit's 2\n")
    code, out = ask("if (")
    assert code == 2
    assert b"syntax error" in out
    assert ask("{ while [ ! -e go ]; do sleep 0.01; done; echo went > gone; } &") == (0, b"")
    assert ask("touch go; wait; cat gone") == (0, b"went\n")
    assert ask("cat; echo read nothing") == (0, b"read nothing\n")
    other = asked.client.ask_shell(sandbox, 'pwd; echo "<$name>"', shell="second")
    assert other.out == b"/work\n<>\n"


def test_shells_are_kept_apart_however_many_there_are(asked: Asked) -> None:
    """Enough that the agent's own descriptors reach the numbers that each shell's have: a program that runs shifts them
    so that they meet."""
    is_counted = asked.client.describe()["backend"] != "subprocess"
    sandbox = asked.client.create(asked.image, limits={"processes": 100} if is_counted else {})
    names = [f"shell {number}" for number in range(70)]
    with ThreadPoolExecutor() as pool:
        running = pool.submit(asked.client.run, sandbox, ["/bin/sh", "-c", "touch runs; exec sleep 1000"])
        while sh(asked, sandbox, "ls runs").code:
            time.sleep(0.01)
        for name in names:
            asked.client.ask_shell(sandbox, f"mine='{name}'", shell=name)
        for name in names[-12:]:
            assert asked.client.ask_shell(sandbox, 'echo "$mine"', shell=name).out == f"{name}\n".encode()
        asked.client.destroy(sandbox)
        assert isinstance(running.exception(), SandboxLostError)


def test_a_shell_that_was_opened_beforehand_is_the_one_that_is_asked(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, opens_shell=True)
    while not any("/dev/fd/198" in words for words in asked.client.read_processes(sandbox)):
        time.sleep(0.01)
    (opened,) = asked.client.read_processes(sandbox)
    assert asked.client.ask_shell(sandbox, "tr '\\0' ' ' < /proc/$$/cmdline").out.split() == [
        word.encode() for word in opened
    ]
    assert asked.client.ask_shell(sandbox, "echo $PWD $((6 * 7))").out.endswith(b"/work 42\n")
    asked.client.destroy(sandbox)


DRAWS = r"""
pwd; printf '\033[2J\033[5;10Hhello'; read -rsn1 key; printf '\033[6;1Hgot %s in %s' "$key" "$(stty size)"
read -rsn1 key; exit 3
"""


def wait_for_drawing(asked: Asked, sandbox: str, words: bytes, **asks: Any) -> None:
    """Ask with `asks`, and on until `words` were drawn: they may come with the first answer."""
    said = asked.client.ask_screen(sandbox, **asks)
    data = said.data
    while words not in data:
        assert not said.has_ended, data
        time.sleep(0.01)
        said = asked.client.ask_screen(sandbox)
        data += said.data
    assert not said.has_ended


def test_a_program_has_a_screen_keys_and_an_end(asked: Asked, sandbox: str) -> None:
    ask = asked.client.ask_screen
    asked.client.ask_shell(sandbox, "cd notes")
    with pytest.raises(SandboxRefusedError, match="no program is on the screen"):
        ask(sandbox, keys=b"x")
    wait_for_drawing(asked, sandbox, b"\x1b[5;10Hhello", command=DRAWS)
    with pytest.raises(SandboxRefusedError, match="a program is on the screen"):
        ask(sandbox, "true")
    wait_for_drawing(asked, sandbox, b"got k in 24 80", keys=b"k")
    assert asked.client.ask_shell(sandbox, "echo here").out == b"here\n"  # beside it
    ask(sandbox, keys=b"q")
    while not (said := ask(sandbox)).has_ended:
        time.sleep(0.01)
    assert said.code == 3
    with pytest.raises(SandboxRefusedError, match="no program is on the screen"):
        ask(sandbox)
    data = ask(sandbox, "pwd; yes").data
    while len(data) <= SCREEN_BYTES:  # more than one look shows
        more = ask(sandbox).data
        assert len(more) <= SCREEN_BYTES
        data += more
        time.sleep(0.01)
    assert b"/notes\r\n" in data
    ask(sandbox, keys=b"\x03")
    while not (ended := ask(sandbox)).has_ended:
        time.sleep(0.01)
    assert ended.code == 130


def test_a_shell_that_is_left_says_so_and_the_next_command_gets_a_new_one(asked: Asked, sandbox: str) -> None:
    asked.client.ask_shell(sandbox, "x=1")
    left = asked.client.ask_shell(sandbox, "echo bye; exit 7")
    assert (left.code, left.out, left.has_ended) == (7, b"bye\n", True)
    again = asked.client.ask_shell(sandbox, "echo new $x")
    assert (again.code, again.out, again.has_ended) == (0, b"new\n", False)


def test_output_comes_while_a_program_runs(asked: Asked, sandbox: str) -> None:
    """It ends only when somebody who heard its first word says so."""
    second = SandboxClient(asked.directory)

    def on_output(stream: str, data: bytes) -> None:
        if data == b"ready\n":
            second.write(sandbox, "go", b"")

    script = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo gone"
    assert sh(asked, sandbox, script, on_output=on_output, timeout_s=60).out == b"ready\ngone\n"
    second.close()


def test_output_beyond_the_limit_is_counted_and_dropped(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, limits={"output_bytes": 1000})
    done = sh(asked, sandbox, f"head -c {3 * MIB} /dev/zero; echo err >&2")
    assert (len(done.out), done.err, done.dropped, done.code) == (1000, b"err\n", 3 * MIB - 1000, 0)
    done = asked.client.ask_shell(sandbox, f"head -c {3 * MIB} /dev/zero")
    assert (len(done.out), done.dropped) == (1000, 3 * MIB - 1000)
    assert asked.client.ask_shell(sandbox, "echo next").out == b"next\n"
    asked.client.destroy(sandbox)


def test_who_takes_too_long_is_killed_from_outside(asked: Asked, sandbox: str) -> None:
    done = sh(asked, sandbox, "trap '' TERM INT HUP; echo on; sleep 1000 & wait", timeout_s=0.3)
    assert (done.code, done.out, done.timed_out) == (137, b"on\n", True)
    asked.client.ask_shell(sandbox, "x=kept; cd /tmp")
    done = asked.client.ask_shell(sandbox, "trap '' TERM; sleep 1000", timeout_s=0.3)
    assert (done.timed_out, done.has_ended) == (True, False)
    assert asked.client.ask_shell(sandbox, "echo $x $PWD").out == b"kept /tmp\n"
    assert sh(asked, sandbox, "grep -ls ^sleep /proc/[0-9]*/cmdline").out == b""


def test_a_shell_that_hangs_in_itself_is_ended(asked: Asked, sandbox: str) -> None:
    done = asked.client.ask_shell(sandbox, "while :; do :; done", timeout_s=0.2)
    assert (done.code, done.timed_out, done.has_ended) == (137, True, True)
    assert asked.client.ask_shell(sandbox, "echo on").out == b"on\n"


def test_what_is_asked_again_under_its_key_is_not_done_again(asked: Asked, sandbox: str) -> None:
    script = "echo x >> count; cat count; exit 5"
    first = sh(asked, sandbox, script, key="turn 1")
    assert sh(asked, sandbox, script, key="turn 1") == first
    assert (first.out, first.code) == (b"x\n", 5)
    with pytest.raises(SandboxRefusedError, match="another command was asked under it"):
        sh(asked, sandbox, "other", key="turn 1")
    asked.client.ask_shell(sandbox, "n=$((n + 1)); echo $n", key="turn 2")
    assert asked.client.ask_shell(sandbox, "n=$((n + 1)); echo $n", key="turn 2").out == b"1\n"
    assert sh(asked, sandbox, script, key="turn 3").out == b"x\nx\n"


def test_two_who_ask_under_one_key_hear_the_same_run(asked: Asked, sandbox: str) -> None:
    heard: list[Result] = []
    script = "echo x >> count; while [ ! -e go ]; do sleep 0.01; done; cat count"

    def ask() -> None:
        client = SandboxClient(asked.directory)
        heard.append(client.run(sandbox, ["/bin/sh", "-c", script], key="k", timeout_s=60))
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    while asked.client.stats(sandbox)["commands"] < 1:
        time.sleep(0.01)
    asked.client.write(sandbox, "go", b"")
    for thread in threads:
        thread.join()
    assert [result.out for result in heard] == [b"x\n"] * 3


def test_an_answer_that_is_not_kept_any_more_is_said_to_be(asked: Asked, sandbox: str) -> None:
    for number in range(6):
        sh(asked, sandbox, f"head -c {MIB} /dev/zero", key=f"k{number}")
    with pytest.raises(SandboxRefusedError, match="its answer is not kept any more"):
        sh(asked, sandbox, f"head -c {MIB} /dev/zero", key="k0")
    assert len(sh(asked, sandbox, f"head -c {MIB} /dev/zero", key="k5").out) == MIB


def test_a_sandbox_is_made_once_under_its_name(asked: Asked, sandbox: str) -> None:
    asked.client.write(sandbox, "mine", b"")
    assert asked.client.create(asked.image, sandbox=sandbox) == sandbox
    assert asked.client.read(sandbox, "mine") == b""
    with pytest.raises(SandboxRefusedError, match="made of something else"):
        asked.client.create(asked.image, sandbox=sandbox, limits={"processes": 10})


def test_a_snapshot_holds_what_was_changed_and_what_was_deleted(asked: Asked, sandbox: str) -> None:
    script = """
    rm hello; rm -r notes; mkdir notes; echo 3 > notes/three; ln notes/three again; ln -s /etc/passwd out
    mkfifo pipe; truncate -s 1T holes; echo end >> holes; chmod 600 notes/three; mkdir -m 700 shut
    """
    assert sh(asked, sandbox, script).code == 0
    image = asked.client.snapshot(sandbox)
    sh(asked, sandbox, "echo later > later; rm -r notes")
    copy = asked.client.create(image)
    told = sh(
        asked, copy, "ls; ls notes; cat again; stat -c '%h %a' again; readlink out; stat -c %s holes; tail -c4 holes"
    )
    names = b"again\nholes\nlink\nnotes\nout\npipe\nprogram\nshut\n"
    assert told.out == names + b"three\n3\n2 600\n/etc/passwd\n1099511627780\nend\n"
    assert asked.client.stats(copy)["disk_bytes"] < MIB
    asked.client.destroy(copy)
    asked.client.drop_image(image)


def test_a_snapshot_is_taken_once_under_its_name(asked: Asked, sandbox: str) -> None:
    asked.client.write(sandbox, "a", b"1")
    assert asked.client.snapshot(sandbox, image="before") == "before"
    asked.client.write(sandbox, "a", b"2")
    asked.client.snapshot(sandbox, image="before")
    copy = asked.client.create("before")
    assert asked.client.read(copy, "a") == b"1"
    asked.client.destroy(copy)
    asked.client.drop_image("before")


def test_a_fork_goes_its_own_way(asked: Asked, sandbox: str) -> None:
    asked.client.ask_shell(sandbox, "x=1; echo base > file; rm hello")
    fork = asked.client.fork(sandbox, to=f"{sandbox}-fork")
    assert asked.client.fork(sandbox, to=fork) == fork
    asked.client.write(fork, "file", b"fork")
    assert asked.client.ask_shell(sandbox, "cat file; echo $x").out == b"base\n1\n"
    assert asked.client.ask_shell(fork, 'cat file; ls hello; echo "<$x>"').out.startswith(b"fork")
    further = asked.client.fork(fork)
    assert asked.client.read(further, "file") == b"fork"
    asked.client.destroy(fork)
    assert sh(asked, further, "ls").out == b"file\nlink\nnotes\nprogram\n"
    asked.client.destroy(further)


def test_an_image_that_is_dropped_serves_who_stands_on_it(asked: Asked, sandbox: str) -> None:
    image = asked.client.snapshot(sandbox)
    copy = asked.client.create(image)
    asked.client.drop_image(image)
    assert asked.client.read(copy, "hello") == b"hello\n"
    with pytest.raises(SandboxRefusedError, match="wanted an image"):
        asked.client.create(image)
    asked.client.destroy(copy)


def test_what_is_over_says_why(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, limits={"lifetime_s": 1})
    with pytest.raises(SandboxLostError):
        sh(asked, sandbox, "sleep 1000")
    with pytest.raises(SandboxLostError, match="its 1 s were over"):
        sh(asked, sandbox, "echo")
    with pytest.raises(SandboxLostError, match="its 1 s were over"):
        asked.client.create(asked.image, sandbox=sandbox, limits={"lifetime_s": 1})
    asked.client.destroy(sandbox)
    with pytest.raises(SandboxRefusedError, match="none called"):
        sh(asked, sandbox, "echo")


def test_a_program_that_wants_too_much_memory_ends_and_the_sandbox_goes_on(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, limits={"memory_bytes": 64 * MIB})
    done = sh(asked, sandbox, "head -c 200M /dev/zero | tail > /dev/null; exit ${PIPESTATUS:-1}")
    assert done.code != 0
    assert asked.client.ask_shell(sandbox, "echo on").out == b"on\n"
    stats = asked.client.stats(sandbox)
    assert stats.get("memory_peak_bytes", 0) <= 64 * MIB
    asked.client.destroy(sandbox)


def test_a_full_disk_is_the_sandboxs_own_trouble(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, limits={"disk_bytes": 2 * MIB})
    done = sh(asked, sandbox, "head -c 3M /dev/zero > big")
    assert done.code
    with pytest.raises(SandboxRefusedError, match="No space left"):
        asked.client.write(sandbox, "more", bytes(3 * MIB))
    assert sh(asked, sandbox, "rm big more; echo ok > small; cat small").out == b"ok\n"
    asked.client.destroy(sandbox)


def test_stats_count(asked: Asked, sandbox: str) -> None:
    asked.client.write(sandbox, "file", hashlib.sha256().digest() * 32_768)
    sh(asked, sandbox, "true")
    stats = asked.client.stats(sandbox)
    assert stats["commands"] == 1
    assert MIB <= stats["disk_bytes"] < 2 * MIB
    assert stats["files"] > 0
    assert stats["age_s"] >= 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"memory_bytes": 1}, "memory_bytes: wanted a number from 16,777,216"),
        ({"processes": "many"}, "processes: wanted a number"),
        ({"wheels": 4}, "found wheels"),
    ],
)
def test_impossible_limits_are_refused_in_words(asked: Asked, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(SandboxRefusedError, match=words):
        asked.client.create(asked.image, limits=limits)


def test_nonsense_is_refused_in_words(asked: Asked, sandbox: str) -> None:
    client = asked.client
    for ask, words in (
        (lambda: client.create("no-image"), "wanted an image or a snapshot"),
        (lambda: client.run("no-sandbox", ["true"]), "wanted a sandbox, found none called 'no-sandbox'"),
        (lambda: client.run(sandbox, []), "argv: wanted a program"),
        (lambda: client.run(sandbox, ["true", "a\0b"]), "argv: wanted a program"),
        (lambda: client.run(sandbox, ["true"], timeout_s=0), "timeout_s: wanted more than 0"),
        (lambda: client.run(sandbox, ["true"], environment={"A": "b\0"}), "environment: wanted"),
        (lambda: client.ask_shell(sandbox, "a\0b"), "without a NUL"),
        (lambda: client.write(sandbox, "", b""), "path: wanted a path"),
        (lambda: client.write(sandbox, "f", bytes(17 * MIB)), "wanted at most 1,048,576 bytes of JSON and 16,777,216"),
        (lambda: client.write(sandbox, "/no/where", b""), "No such file"),
        (lambda: client.write(sandbox, "f", b"", mode=0o4755), "mode: wanted"),
        (lambda: client.create(asked.image, sandbox="x" * 201), "a name of 1 to 200"),
        (lambda: client.add_image(asked.directory / "nothing"), "wanted an image directory"),
        (lambda: client._ask({"do": "fly"}), "do: wanted one of describe"),
        (lambda: client._ask({"do": "stats"}), "stats: wanted sandbox, found none"),
        (lambda: client._ask({"do": "stats", "sandbox": 1}), "sandbox: wanted str, found int"),
        (lambda: client._ask({"do": "stats", "sandbox": "a", "walls": []}), "found walls"),
    ):
        with pytest.raises(SandboxRefusedError, match=words):
            ask()
    assert sh(asked, sandbox, "echo on").out == b"on\n"


def test_destroying_ends_what_hides(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image)
    sh(
        asked,
        sandbox,
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > pid; exec sleep 1017' & while [ ! -s pid ]; do sleep 0.01; done",
    )
    assert sh(asked, sandbox, "tr '\\0' ' ' < /proc/$(cat pid)/cmdline").out == b"sleep 1017 "
    asked.client.destroy(sandbox)
    asked.client.destroy(sandbox)
    assert find_processes(b"sleep\x001017\0") == []


def find_processes(command_line: bytes) -> list[int]:
    from pathlib import Path

    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes() == command_line:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_all_that_lies_in_a_directory_is_told_at_once(asked: Asked, sandbox: str) -> None:
    sh(asked, sandbox, "chmod 640 hello; echo s > secret; chmod 0 secret; mkfifo pipe; ln -s notes there; ln -s / all")
    found, left_out = asked.client.read_tree(sandbox, START)
    told = {one.path: (one.kind, one.mode, one.content, one.target) for one in found}
    assert left_out == 0
    assert told["hello"] == ("file", 0o640, b"hello\n", "")
    assert told["secret"] == ("file", 0, None, "")
    assert told["pipe"][0] == "other"
    assert told["there"] == ("link", 0, None, "notes")
    assert told["notes/old/two"] == ("file", 0o644, b"2\n", "")
    assert not any(path.startswith(("there/", "all/")) for path in told)
    found, _ = asked.client.read_tree(sandbox, "/", without=["proc", "dev", "usr", "sys", "work"])
    assert {"etc", "etc/passwd", "tmp"} <= {one.path for one in found}
    assert not any(one.path.startswith(("work", "usr", "proc")) for one in found)


def test_a_tree_that_is_too_large_is_told_in_part_and_says_so(asked: Asked, sandbox: str) -> None:
    sh(asked, sandbox, "head -c 5000000 /dev/zero > long; mkdir many; cd many; seq 1 500 | xargs touch")
    found, left_out = asked.client.read_tree(sandbox, START)
    assert left_out == 0
    assert [(one.size_bytes, one.content) for one in found if one.path == "long"] == [(5_000_000, None)]
    found, left_out = asked.client.read_tree(sandbox, START, most_bytes=2_000)
    assert len(found) < 50
    assert left_out > 0
    with pytest.raises(SandboxRefusedError, match="hello: wanted a directory, found none"):
        asked.client.read_tree(sandbox, "hello")


def test_what_runs_is_told_by_its_command_lines(asked: Asked, sandbox: str) -> None:
    asked.client.ask_shell(sandbox, "sleep 271 & until grep -q sleep /proc/$!/cmdline; do :; done")
    assert ["sleep", "271"] in asked.client.read_processes(sandbox)
    asked.client.ask_shell(sandbox, "kill $!; wait")
    assert not [words for words in asked.client.read_processes(sandbox) if words[0] == "sleep"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda asked, name: asked.client.run(name, ["/bin/echo", "\ud800"]),
        lambda asked, name: asked.client.write(name, "half \ud800", b""),
        lambda asked, name: asked.client.write(name, "a/" * 1_500 + "b", b"", makes_parents=True),
        lambda asked, name: asked.client.read(name, "hello", offset=2**70),
    ],
    ids=["argument", "path", "depth", "offset"],
)
def test_what_cannot_be_done_is_refused_and_ends_nothing(asked: Asked, sandbox: str, ask: Any) -> None:
    with pytest.raises(SandboxRefusedError, match="it cannot be done: "):
        ask(asked, sandbox)
    assert asked.client.read(sandbox, "hello") == b"hello\n"


def test_a_tree_of_wild_names_is_told_as_far_as_there_is_room(asked: Asked, sandbox: str) -> None:
    """A letter of a name may take a dozen in what is told of it."""
    deep = "/".join(["\U0001f600" * 60] * 12)
    asked.client.run(sandbox, ["/bin/mkdir", "-p", deep])
    sh(asked, sandbox, f"cd {deep}; seq -f '%04g' 4000 | xargs touch", timeout_s=120)
    found, left_out = asked.client.read_tree(sandbox, START)
    assert 300 < len(found) < 4_000 < len(found) + left_out
    assert max(len(one.path) for one in found) > len(deep)
    assert asked.client.read_tree(sandbox, START, most_bytes=0)[0] == []


def test_a_tree_too_deep_to_be_told_is_refused_and_ends_nothing(asked: Asked, sandbox: str) -> None:
    dig = "import os\nfor _ in range(1100):\n os.mkdir('d')\n os.chdir('d')\n"
    assert asked.client.run(sandbox, ["/usr/bin/python3", "-c", dig]).code == 0
    with pytest.raises(SandboxRefusedError, match="it cannot be done: RecursionError"):
        asked.client.read_tree(sandbox, START)
    assert asked.client.read(sandbox, "hello") == b"hello\n"
    empty = f"{dig.splitlines()[0]}\nos.chdir('d/' * 1100)\nfor _ in range(1100):\n os.chdir('..')\n os.rmdir('d')\n"
    asked.client.run(sandbox, ["/usr/bin/python3", "-c", empty])


def test_a_shell_that_was_stopped_holds_up_nobody_but_who_asks_it(asked: Asked, sandbox: str) -> None:
    """Also where it has no room for all that it is to read."""
    assert asked.client.ask_shell(sandbox, "(until [ -e go ]; do :; done; kill -STOP $$; touch went) & true").code == 0
    asked.client.write(sandbox, "go", b"")
    until_there(asked, sandbox, "went")
    done = asked.client.ask_shell(sandbox, ": " + "'" * 40_000, timeout_s=0.5)
    assert (done.timed_out, done.has_ended) == (True, True)
    assert asked.client.ask_shell(sandbox, "echo another").out == b"another\n"


def until_there(asked: Asked, sandbox: str, path: str) -> None:
    sh(asked, sandbox, f"until [ -e {path} ]; do sleep .01; done", timeout_s=120)
