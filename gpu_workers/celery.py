"""The training box's queue application: queue `gpu`, one job at a time, JSON only.

It acknowledges early: a training longer than the broker's visibility timeout would otherwise run twice at once. The web
side's sweep sees a silent heartbeat and retries the run with a new attempt number.
"""

from celery import Celery

from tentalis.env import read_environment

KEY_PREFIX = "tentalis:"
GPU_QUEUE = "gpu"


def make_app(redis_url: str) -> Celery:
    """An application on this broker; its key prefix is the web side's, or neither would hear the other."""
    made = Celery("gpu_workers", broker=redis_url, include=["gpu_workers.jobs", "gpu_workers.cluster_jobs"])
    made.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_default_queue=GPU_QUEUE,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_concurrency=1,
        worker_pool="solo",
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "global_keyprefix": KEY_PREFIX,
            # what it took and has not done yet: names of its own, for it may not see what others took
            "unacked_key": "box-unacked",
            "unacked_index_key": "box-unacked-index",
            "unacked_mutex_key": "box-unacked-mutex",
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
    )
    return made


def _read_broker_url() -> str:
    values = read_environment()
    return values["REDIS_URL"] or f"redis://127.0.0.1:{values['REDIS_PORT']}/0"


app = make_app(_read_broker_url())
