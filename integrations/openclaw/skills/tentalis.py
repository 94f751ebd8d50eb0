#!/usr/bin/env python3
"""What the skills run: some calls of the platform's REST API, with nothing but the standard library.

    TENTALIS_AGENT_KEY=tnt_… python3 tentalis.py assign --worker clerk "Refund order 17."

Prints the answer as one JSON object. Exit 0: done. 1: refused, with the reason. 2: bad use. 3: no answer came; run the
very same command again with the `--key` it prints, and it still acts only once.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any

DEFAULT_URL = "http://127.0.0.1:8000"
TRIES = 4
TIMEOUT_S = 30
LONGEST_WAIT_S = 20
LOOK_EVERY_S = 2.0
SETTLED = {"done", "failed", "cancelled"}
SHOWN = ("id", "project", "worker", "state", "answer", "score", "failure", "task", "index", "text")


class RefusedError(Exception):
    """The platform said no; asking again changes nothing."""


class UnansweredError(Exception):
    """Nobody knows whether it was done."""


class KeepOrigin(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token goes to the address it was given for."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def call(
    method: str, path: str, body: dict[str, Any] | None = None, *, key: str = "", query: dict[str, str] | None = None
) -> Any:
    """One request, sent again where that is safe and may help.

    Raises:
        RefusedError, UnansweredError: in words.
    """
    base = os.environ.get("TENTALIS_URL") or DEFAULT_URL
    token = os.environ.get("TENTALIS_AGENT_KEY") or os.environ.get("TENTALIS_TOKEN")
    if not token:
        raise RefusedError("set TENTALIS_AGENT_KEY to a token of this agent (tentalis token create --help)")
    url = f"{base.rstrip('/')}/api/v1/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    if not url.startswith(("http://", "https://")):
        raise RefusedError(f"TENTALIS_URL must be like {DEFAULT_URL}, found {base!r}")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), KeepOrigin)
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(0.3 * 2**attempt)
        try:
            request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - http(s), see above
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer) if answer.status != 204 else {}
        except urllib.error.HTTPError as error:
            problem = say_problem(error)
            if error.code not in {429, 502, 503, 504} and "still_running" not in problem:
                raise RefusedError(problem) from None
        except (OSError, ValueError) as error:
            problem = f"{base} gave no answer: {error}"
    raise UnansweredError(problem)


def say_problem(error: urllib.error.HTTPError) -> str:
    """The platform's own words, and which field they are about."""
    try:
        problem = json.loads(error.read())
        fields = "; ".join(
            f"{name}: {' '.join(map(str, said))}" for name, said in (problem.get("errors") or {}).items()
        )
        words = f"{problem['detail']} [{problem['code']}]"
        return f"{words} ({fields})" if fields and fields not in words else words
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{error.code} {error.reason}: is TENTALIS_URL the platform?"


def show(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row an agent can use."""
    return {name: row[name] for name in SHOWN if row.get(name) not in (None, "")}


def assign(given: argparse.Namespace) -> dict[str, Any]:
    project = given.project or only_project()
    body = {"project": project, "prompt": read(given.prompt), "environment": given.environment}
    if given.worker:
        body["worker"] = given.worker
    if given.metadata:
        body["metadata"] = read_json(given.metadata, dict, "--metadata")
    return show(call("POST", "tasks", body, key=given.key))


def only_project() -> str:
    slugs = [one["project"] for one in call("GET", "whoami")["memberships"]]
    if len(slugs) != 1:
        raise RefusedError(f"say --project: this token may be used in {', '.join(slugs) or 'none'}")
    return str(slugs[0])


def submit_result(given: argparse.Namespace) -> dict[str, Any]:
    steps = read_json(given.steps, list, "--steps") if given.steps else []
    steps = [{"text": step} if isinstance(step, str) else step for step in steps]
    return show(
        call("POST", "attempts", {"task": given.task, "steps": steps, "answer": read(given.answer)}, key=given.key)
    )


def submit_feedback(given: argparse.Namespace) -> dict[str, Any]:
    path, quote = "feedback", urllib.parse.quote
    body: dict[str, Any] = {"text": read(given.text)}
    if given.session:
        path = f"sessions/{quote(given.session, safe='')}/feedback"
    elif given.exchange:
        path = f"exchanges/{quote(given.exchange, safe='')}/feedback"
    else:
        body["task"] = given.task
    if given.score is not None:
        body["score"] = given.score
    if given.better:
        body["edited_answer"] = read(given.better)
    return show(call("POST", path, body, key=given.key))


def check(given: argparse.Namespace) -> dict[str, Any]:
    until = time.monotonic() + given.wait
    task = first = call("GET", f"tasks/{given.task}")
    while task["state"] == first["state"] not in SETTLED and (left := int(until - time.monotonic())) > 0:
        query = {"wait": str(min(left, LONGEST_WAIT_S)), "seen": first["state"]}
        task = call("GET", f"tasks/{given.task}", query=query)
    return show(task)


def wait_for_work(given: argparse.Namespace) -> dict[str, Any]:
    """The oldest task that waits for a worker; {} where none came in time."""
    query = {"state": "queued", "worker": given.worker, "sort": "submitted", "limit": "1"}
    if given.project:
        query["project"] = given.project
    until = time.monotonic() + given.wait
    while not (found := call("GET", "tasks", query=query)["results"]) and time.monotonic() + LOOK_EVERY_S <= until:
        time.sleep(LOOK_EVERY_S)
    return {**show(found[0]), "prompt": found[0]["prompt"]} if found else {}


def claim(given: argparse.Namespace) -> dict[str, Any]:
    """A review that is this caller's now, with what is to be judged, and without what scorers said of it."""
    if given.review:
        review = call("POST", f"reviews/{given.review}/claim", {}, key=given.key)
    else:
        review = call("POST", "reviews/claim", {"project": given.project or only_project()}, key=given.key)
    if not review:
        return {}
    task = call("GET", f"tasks/{review['task']}")
    attempts = call("GET", f"tasks/{review['task']}/attempts", query={"limit": "64"})["results"]
    answers = [{name: one[name] for name in ("index", "answer", "error")} for one in attempts]
    shown = {"review": review["id"], "task": task["id"], "prompt": task["prompt"], "until": review["lease_until"]}
    return shown | {"answers": sorted(answers, key=lambda one: one["index"])}


def submit_review(given: argparse.Namespace) -> dict[str, Any]:
    if given.skip:
        body = {"reason": read(given.text), "then": given.skip}
        return show(call("POST", f"reviews/{given.review}/skip", body, key=given.key))
    judged: dict[str, Any] = {"text": read(given.text)}
    said = {"score": given.score, "preferred_attempt": given.best, "edited_answer": given.better or None}
    judged |= {name: value for name, value in said.items() if value is not None}
    return show(call("POST", f"reviews/{given.review}/feedback", judged, key=given.key))


def list_adapters(given: argparse.Namespace) -> dict[str, Any]:
    query = {"limit": str(given.limit)} | {
        name: value for name, value in (("project", given.project), ("worker", given.worker)) if value
    }
    names = ("name", "worker", "version", "state", "created_at")
    rows = call("GET", "adapters", query=query)["results"]
    return {"adapters": [{name: row[name] for name in names} for row in rows]}


def read(text: str) -> str:
    """`-` is standard input: long texts need no quoting there."""
    return sys.stdin.read() if text == "-" else text


def read_json(text: str, kind: type, name: str) -> Any:
    try:
        value = json.loads(read(text))
    except ValueError as error:
        raise RefusedError(f"{name} must be JSON: {error}") from None
    if not isinstance(value, kind):
        raise RefusedError(f"{name} must be a JSON {'list' if kind is list else 'object'}, found {text[:60]}")
    return value


def score(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, found {text}")
    return value


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)

    one = commands.add_parser("assign", help="give a worker a task")
    one.add_argument("prompt", help="what is to be done; - reads it from standard input")
    one.add_argument("--worker", default="", help="who does it; default: the project's only one")
    one.add_argument("--project", default="", help="default: the only one of this token")
    one.add_argument("--environment", default="chat", help="the world it is in, as `tentalis world list` names it")
    one.add_argument("--metadata", default="", help="a JSON object kept with the task")
    one.set_defaults(run=assign)

    two = commands.add_parser("result", help="hand in your own work on a task")
    two.add_argument("--task", type=int, required=True)
    two.add_argument("answer", help="the result; - reads it from standard input")
    two.add_argument("--steps", default="", help='a JSON list of texts or {"text", "kind", "tool_name", "tool_result"}')
    two.set_defaults(run=submit_result)

    three = commands.add_parser("feedback", help="pass on what a person said of a task's answer")
    about = three.add_mutually_exclusive_group(required=True)
    about.add_argument("--task", type=int)
    about.add_argument("--session", default="", help="id of a session of this agent: its last answer is meant")
    about.add_argument("--exchange", default="", help="id of one answer, as its body or X-Tentalis-Exchange says it")
    three.add_argument("--score", type=score, default=None, help="from 0 to 1, only if the person gave one")
    three.add_argument("--better", default="", help="what would have been right")
    three.add_argument("text", help="what the person said, in their words; - reads it from standard input")
    three.set_defaults(run=submit_feedback)

    four = commands.add_parser("check", help="how far a task is")
    four.add_argument("--task", type=int, required=True)
    four.add_argument("--wait", type=float, default=0, help="seconds to wait for its state to change, at most")
    four.set_defaults(run=check)

    five = commands.add_parser("wait", help="wait for work")
    five.add_argument("--worker", required=True, help="whose work")
    five.add_argument("--project", default="", help="default: all of this token")
    five.add_argument("--wait", type=float, default=0, help="seconds, at most")
    five.set_defaults(run=wait_for_work)

    six = commands.add_parser("claim", help="take a review")
    six.add_argument("--review", type=int, default=0, help="this one; default: the next that nobody has")
    six.add_argument("--project", default="", help="default: the only one of this token")
    six.set_defaults(run=claim)

    seven = commands.add_parser("review", help="judge the work of a review that you took")
    seven.add_argument("--review", type=int, required=True)
    seven.add_argument("--score", type=score, default=None, help="from 0 to 1")
    seven.add_argument("--best", type=int, default=None, help="index of the best answer")
    seven.add_argument("--better", default="", help="what would have been right")
    seven.add_argument(
        "--skip", default="", choices=["nobody", "later", "others", "expert"], help="pass it over to them instead"
    )
    seven.add_argument("text", help="what was good or bad, or why it is passed over; - reads it from standard input")
    seven.set_defaults(run=submit_review)

    eight = commands.add_parser("adapters", help="what was learnt")
    eight.add_argument("--project", default="", help="default: all of this token")
    eight.add_argument("--worker", default="")
    eight.add_argument("--limit", type=int, default=20)
    eight.set_defaults(run=list_adapters)

    for command in (one, two, three, six, seven):
        command.add_argument("--key", default="", help="of an earlier run of this very command that had no answer")
    return parser


def main() -> int:
    given = make_parser().parse_args()
    given.key = getattr(given, "key", "") or str(uuid.uuid4())
    try:
        sys.stdout.write(json.dumps(given.run(given), ensure_ascii=False) + "\n")
    except RefusedError as error:
        sys.stderr.write(f"refused: {error}\n")
        return 1
    except UnansweredError as error:
        sys.stderr.write(f"no answer: {error}\nrun the same command again with --key {given.key}\n")
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
