"""What the agent may do. The same rules decide for other workers of the platform that name them as `supervisor`."""

from .tools import TOOLS

ALLOWED = {tool.__name__ for tool in TOOLS}
MOST_CHARS = 500


def find_objection(tool: str, arguments: dict) -> str:
    """Why a call may not be made; "" where it may."""
    if tool not in ALLOWED:
        return f"there is no tool {tool}"
    if any(len(str(value)) > MOST_CHARS for value in arguments.values()):
        return f"an argument is longer than {MOST_CHARS} characters"
    return ""


class Rules:
    """A supervisor (`tentalis.core.supervision.Supervisor`): approves what the rules allow, and leaves the rest."""

    name = __package__

    def decide(self, action):
        from tentalis.core.scoring.judging import Decision

        if action.kind != "tool":
            return Decision("unsure", "these rules know tools alone")
        objection = find_objection(action.tool, dict(action.arguments))
        return Decision("unsure", objection) if objection else Decision("approve", "")
