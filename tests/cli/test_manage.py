"""Commands of `manage.py` by the command line, on the installation of this machine."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from apps.accounts.models import User
from tentalis.platform.config import load_config
from tentalis.platform.home import Home
from tentalis.platform.up import running_stack
from tests.chaos.stage import make_environ, own_home
from tests.factories import make_user
from tests.support.clusters import own_address

SECRET = "from django.conf import settings; print(settings.SECRET_KEY)"


def call(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "tentalis", "manage", *words]
    return subprocess.run(asked, env=environ, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.django_db(transaction=True)
def test_a_command_is_passed_on_whole_and_its_exit_code_comes_back(tmp_path: Path) -> None:
    dora = make_user("dora")
    environ = make_environ() | {"TENTALIS_HOME": str(tmp_path / "home"), "TENTALIS_DATABASE_URL": own_address()}
    for words, may in (((), True), (("--no",), False)):
        done = call(environ, "let_make_projects", "dora", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert User.objects.get(pk=dora.pk).may_make_projects is may
    refused = call(environ, "let_make_projects", "nobody")
    assert (refused.returncode, "nobody is called nobody" in refused.stderr) == (1, True)
    shown = call(environ, "shell", "-v", "0", "-c", SECRET)
    assert shown.stdout.strip() == load_config(Home(tmp_path / "home")).secrets.secret_key
    unknown = call(make_environ() | {"TENTALIS_HOME": str(tmp_path / "none")}, "let_make_projects", "dora")
    assert (unknown.returncode, "holds no installation" in unknown.stderr) == (1, True)


def test_the_embedded_database_is_started_where_it_does_not_run() -> None:
    with own_home() as home:
        environ = make_environ() | {"TENTALIS_HOME": str(home.root)}
        with running_stack(home, environ, is_throwaway=True, only=("migrate",)):
            pass
        done = call(
            environ, "shell", "-v", "0", "-c", "from apps.accounts.models import User; print(User.objects.count())"
        )
        assert (done.returncode, done.stdout.strip().isdigit()) == (0, True), done.stderr
