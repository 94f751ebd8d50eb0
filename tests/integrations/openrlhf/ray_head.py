"""`python ray_head.py FOLDER PORT`: a Ray cluster of this one machine until standard input ends; it says its URL.

Run by the Python of the peer's own environment. The GPUs are logical: Ray counts them and nobody looks.
"""

import sys
import time
from typing import Any

import ray
import ray._private.services as services

PATIENCE_S = 300.0
find_node = services.get_node


def wait_for_node(*args: Any) -> Any:
    """Ray gives its node 30 seconds to start, which is too little on a busy machine, and cannot be told otherwise."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return find_node(*args)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


services.get_node = wait_for_node
context = ray.init(
    address="local",
    num_cpus=8,
    num_gpus=4,
    include_dashboard=True,
    dashboard_host="127.0.0.1",
    dashboard_port=int(sys.argv[2]),
    object_store_memory=200_000_000,
    log_to_driver=False,
    _node_ip_address="127.0.0.1",
    _temp_dir=sys.argv[1],
)
sys.stdout.write(f"http://{context.dashboard_url}\n")
sys.stdout.flush()
sys.stdin.read()
ray.shutdown()
