"""The `tentalis` command itself: fast help, exit codes, one line for an error, `init`."""

import os
import subprocess
import sys
import tomllib

import pytest

from tentalis.cli import COMMANDS, load_command, main
from tentalis.platform.home import Home


def test_help_lists_every_command_and_loads_neither_django_nor_torch() -> None:
    script = (
        "import sys\n"
        "from tentalis.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as leaving:\n    assert not leaving.code\n"
        "heavy = {'django', 'torch', 'celery', 'httpx', 'psycopg'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not [name for name in COMMANDS if name not in done.stdout]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_table_can_be_loaded_and_has_help(name: str) -> None:
    assert load_command(name, COMMANDS[name]).name == name
    with pytest.raises(SystemExit) as leaving:
        main([name, "--help"])
    assert not leaving.value.code


@pytest.mark.parametrize(
    "words", [["nope"], ["status", "--nope"], ["logs", "--lines", "many"], ["down", "--timeout", "-1"]]
)
def test_bad_use_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 2
    assert "Usage: tentalis" in capsys.readouterr().err


def test_an_error_of_ours_is_one_line_and_exit_1(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENTALIS_HOME", str(home.root))
    with pytest.raises(SystemExit) as leaving:
        main(["status"])
    assert leaving.value.code == 1
    assert capsys.readouterr().err == f"tentalis: nothing runs on {home.root}; `tentalis up` starts it\n"


def test_init_makes_the_home_and_remembers_the_answers(home: Home, environ: dict[str, str]) -> None:
    first = init(environ, "--yes", "--web-port", "18080")
    assert first.stdout == f"made {home.config_file}; next: tentalis up\n"
    second = init(environ, "--yes", "--database-url", "postgres://me:pw@db/tickets")
    assert second.stdout == f"kept {home.config_file}; next: tentalis up\n"
    document = tomllib.loads(home.config_file.read_text())
    assert document["settings"] == {"web_port": "18080", "database_url": "postgres://me:pw@db/tickets"}


def test_init_asks_when_it_is_not_told_to_take_the_defaults(home: Home, environ: dict[str, str]) -> None:
    done = init(environ, answers=f"{home.root}\n18081\n\n\n")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(home.config_file.read_text())["settings"] == {"web_port": "18081"}


def test_init_refuses_an_unreadable_address_by_name_and_does_not_keep_it(home: Home, environ: dict[str, str]) -> None:
    done = init(environ, "--yes", "--redis-url", "cache:6379")
    assert done.returncode == 1
    assert "TENTALIS_REDIS_URL must be a URL like redis://" in done.stderr
    assert "Traceback" not in done.stderr
    assert tomllib.loads(home.config_file.read_text())["settings"] == {}


def init(environ: dict[str, str], *words: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tentalis", "init", *words],
        env=environ | {"COLUMNS": "200", "PATH": os.environ["PATH"]},
        input=answers,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
