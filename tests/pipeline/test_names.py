"""Messages carry names: every name somebody sends is a job somebody has, on a queue somebody reads."""

import os
import subprocess
import sys

import pytest

from apps.outbox.kinds import KINDS, queue_of
from apps.pipeline.letter_box import HEARTBEAT_JOB, RECORD_JOB
from apps.training import cluster
from apps.training.box import QUEUE, TRAIN
from tentalis.celery import app
from tentalis.env import VARIABLES

LINKS = sorted({link for chain in KINDS.values() for link in chain.names})


def run_python(code: str, *, without: str = "") -> str:
    """What a fresh process prints. The box's process is not told of Django's settings, and Celery looks for them."""
    environ = {name: value for name, value in os.environ.items() if name != without}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_flow_knows_its_segments() -> None:
    reviewed, learnt = (
        {"work", "episode", "bulk", "unbulk", "cut", "hear", "import"},
        {"learn", "train", "adopt", "meta", "mirror"},
    )
    assert set(KINDS) == reviewed | learnt | {
        "label",
        "adopt_scorer",
        "adopt_manager",
        "evaluate",
        "try",
        "admit",
        "decide",
        "regrade",
        "probe",
    }


@pytest.mark.parametrize("name", [*LINKS, "training.record", "training.heartbeat"])
def test_every_link_is_a_job_on_a_queue_that_is_read(name: str) -> None:
    app.loader.import_default_modules()
    read = {queue for queues, _, _ in VARIABLES["TENTALIS_QUEUE_PROCESSES"].default for queue in queues}
    assert name in app.tasks
    assert queue_of(name) in read
    assert app.amqp.router.route({}, name)["queue"].name == queue_of(name)


def test_the_box_has_the_job_that_we_send_it_and_answers_to_jobs_that_we_have() -> None:
    app.loader.import_default_modules()
    code = (
        "import gpu_workers.jobs; from gpu_workers.celery import app, GPU_QUEUE; "
        f"print({TRAIN!r} in app.tasks, GPU_QUEUE)"
    )
    assert run_python(code).split() == ["True", QUEUE]
    assert {RECORD_JOB, HEARTBEAT_JOB} <= set(app.tasks)


def test_no_process_takes_orders_by_remote_control() -> None:
    told = "from gpu_workers.celery import app; print(app.conf.worker_enable_remote_control)"
    assert run_python(told) == "False"
    assert app.conf.worker_enable_remote_control is False


def test_the_box_tends_the_runs_on_a_cluster_by_the_name_and_the_queue_we_send_to() -> None:
    code = (
        "from gpu_workers.celery import app; app.loader.import_default_modules(); from gpu_workers.cluster_jobs import "
        f"CLUSTER_QUEUE; print({cluster.TEND!r} in app.tasks, CLUSTER_QUEUE)"
    )
    assert run_python(code, without="DJANGO_SETTINGS_MODULE").split() == ["True", cluster.QUEUE]


def test_the_web_side_loads_no_torch_and_nothing_that_only_its_libraries_would_have() -> None:
    """A plug-in may: it is there when somebody asks."""
    code = (
        "import sys, tentalis.asgi; from tentalis.celery import app; app.loader.import_default_modules(); "
        "print([name for name in ('torch', 'gpu_workers', 'opentelemetry.sdk.metrics', 'h2') if name in sys.modules]); "
        "import opentelemetry.sdk.metrics, h2.connection, httpcore; httpcore.ConnectionPool(http2=True).close()"
    )
    assert run_python(code) == "[]"


def test_the_box_loads_no_django() -> None:
    code = "import sys, gpu_workers.jobs; print('django.db' in sys.modules, 'apps' in sys.modules)"
    assert run_python(code, without="DJANGO_SETTINGS_MODULE") == "False False"
