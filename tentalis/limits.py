"""The limits in force in this process: `tentalis.core.edge_limits` with what the setting `LIMITS` changes."""

from typing import Final

from tentalis.core.edge_limits import EdgeLimits
from tentalis.env import read_variable

LIMITS: Final[EdgeLimits] = read_variable("LIMITS")
