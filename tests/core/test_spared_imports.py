import subprocess
import sys

from tentalis.garbage import UNUSED

STARTED = """
import sys
from tentalis.garbage import spare_imports
spare_imports()
import httpx
httpx.Client().close()
print(*sys.modules)
"""


def test_a_client_that_asks_over_http_starts_without_the_command_line_of_its_library() -> None:
    """A test of the names: another version of it may keep its command line elsewhere."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert {"httpx", *UNUSED} <= imported
    assert not {"rich", "rich.console", "pygments", "click"} & imported
