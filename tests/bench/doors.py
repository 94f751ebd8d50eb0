"""`python -m tests.bench.doors`: do worlds come through OpenEnv's door, both ways, and say there what they say here?

OpenEnv's own client plays so many episodes of each of our worlds that makes up tasks: half as the world's own solution
goes, half at random. Every reward must be the one that our player gives for the same calls. An environment of
`verifiers` is played here as a world, and every reward must be its own runner's for the same words. Directories in
Harbor's form are verified here, and every reward must be the one that Harbor's own runner gives for the same files: it
wants a Python of 3.12 or newer, and is left out loudly where there is none. Each peer lives in an environment of its
own. Exit 1 when a bar is missed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import django
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
BRIDGE = ROOT / "integrations" / "verifiers" / "serve.py"
PEERS = {
    "openenv": ["openenv-core==0.3.0"],
    "verifiers": ["verifiers==0.1.14", "websockets"],
    "harbor": ["harbor==0.26.0"],
}
HARBOR_PYTHONS = ("python3.12", "python3.13", "python3.14")
CACHE = Path(".cache/bench/doors")
EPISODES = 100
SHELL_WORDS = ("ls", "pwd", "rm -r *", "cat *", "touch a", "id")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each world")
    parser.add_argument("--doors", nargs="+", choices=PEERS, default=[*PEERS])
    parser.add_argument("--python", help="that Harbor's runner is installed with, 3.12 or newer; else one on the path")
    parser.add_argument("--worlds", nargs="*", default=[], help="their names; none: all that make up tasks")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as name:
        place = Path(name)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tentalis.settings.test",
            "TENTALIS_HOME": str(place / "home"),
            "TENTALIS_SANDBOXES": str(place / "sandboxes"),
        }
        django.setup()
        from tentalis.sandbox.client import start_host

        rows = []
        with start_host(place / "sandboxes"):
            if "openenv" in options.doors:
                python = install(CACHE.resolve() / "openenv", PEERS["openenv"])
                rows += [
                    compare_openenv(python, place, world, options.episodes) for world in list_worlds(options.worlds)
                ]
            if "verifiers" in options.doors:
                python = install(CACHE.resolve() / "verifiers", PEERS["verifiers"])
                rows.append(compare_verifiers(python, place, options.episodes))
            if "harbor" in options.doors:
                if newer := options.python or next(filter(None, map(shutil.which, HARBOR_PYTHONS)), None):
                    python = install(CACHE.resolve() / "harbor", PEERS["harbor"], newer)
                    rows.append(compare_harbor(python, place))
                else:
                    print(
                        f"Harbor's own runner: SKIPPED, it wants {' or '.join(HARBOR_PYTHONS)}: say where by --python"
                    )
    print_table(rows)
    bars = {
        f"{row['door']} {row['world']}": {
            "found": row["same"], "wanted": row["episodes"], "met": row["same"] == row["episodes"] and row["right"] > 0
        }
        for row in rows
    }  # fmt: skip
    print(json.dumps({"bench": "doors", "rows": rows, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def install(place: Path, wanted: Sequence[str], interpreter: str = sys.executable) -> Path:
    """Its Python, with what it wants installed once."""
    python = place / "bin" / "python"
    done = place / "installed"
    if not done.exists() or done.read_text() != "\n".join(wanted):
        subprocess.run([interpreter, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        done.write_text("\n".join(wanted))
    return python


def list_worlds(names: Sequence[str]) -> list[Any]:
    from apps.worlds.registry import WORLDS

    found = [world for world in WORLDS.values() if world.draw_prompt(Random(0)) is not None]
    return [world for world in found if not names or world.name in names]


def plan_episodes(world: Any, count: int) -> list[dict[str, Any]]:
    """Prompts, calls and last words: every other episode as the world itself would go."""
    rng = Random(17)
    planned = []
    for place in range(count):
        prompt, seed = world.draw_prompt(rng), rng.randrange(2**31)
        solution = world.solve(prompt, seed) if place % 2 == 0 else None
        if solution is not None:
            calls = [[call.name, json.loads(call.arguments)] for call in solution.calls]
            answers = [solution.draft.answer if world.has_turns else solution.draft.text]
        else:
            tools = [tool["function"] for tool in world.tools(prompt)]
            calls = [make_up_call(rng, rng.choice(tools)) for _ in range(2)] if tools else []
            answers = ["0"]
        planned.append({"prompt": prompt, "seed": seed, "calls": calls, "answers": answers})
    return planned


def make_up_call(rng: Random, tool: dict[str, Any]) -> list[Any]:
    """A call that its schema allows, or nearly so."""
    properties = tool.get("parameters", {}).get("properties", {})
    return [tool["name"], {name: make_up_value(rng, schema) for name, schema in properties.items()}]


def make_up_value(rng: Random, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = str(schema.get("type"))
    return {"integer": rng.randrange(9), "object": {}, "array": [], "boolean": True}.get(kind, rng.choice(SHELL_WORDS))


def play_here(world: Any, plan: Sequence[dict[str, Any]]) -> list[Any]:
    """The rewards of our own player."""
    from queue import SimpleQueue

    from apps.worlds.serving import OutsideAction, OutsideResult, ServedEpisode

    rewards = []
    for place, one in enumerate(plan):
        told: SimpleQueue[OutsideResult] = SimpleQueue()
        episode = ServedEpisode(world, prompt=one["prompt"], seed=one["seed"], key=f"here-{place}", tell=told.put)
        said = told.get(timeout=60)
        actions = [OutsideAction(tool=name, arguments=json.dumps(values)) for name, values in one["calls"]]
        for action in [*actions, *(OutsideAction(answer=answer) for answer in one["answers"])]:
            if not said.is_over:
                episode.do(action)
                said = told.get(timeout=60)
        episode.leave()
        rewards.append(said.verification.outcome if said.verification else None)
    return rewards


@contextmanager
def running(argv: Sequence[str], **more: str) -> Iterator[str]:
    """A server's address, which is the first line that it writes."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=os.environ | more) as process:
        try:
            assert process.stdout
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(f"{' '.join(argv)} did not start")
            yield url
        finally:
            process.terminate()


def compare_openenv(python: Path, place: Path, world: Any, count: int) -> dict[str, Any]:
    plan = plan_episodes(world, count)
    asked, answered = place / f"{world.name}.json", place / f"{world.name}.out.json"
    asked.write_text(json.dumps(plan))
    with running([sys.executable, "-m", "django", "serve_world", world.name]) as url:
        script = str(Path(__file__).with_name("doors_openenv.py"))
        subprocess.run([str(python), script, url, str(asked), str(answered)], check=True)
    there = json.loads(answered.read_text())
    here = play_here(world, plan)
    return {
        "door": "OpenEnv's client plays", "world": world.name, "episodes": count,
        "same": sum(one["done"] and one["reward"] == mine for one, mine in zip(there, here, strict=True)),
        "right": sum(one["reward"] == 1.0 for one in there),
    }  # fmt: skip


def compare_verifiers(python: Path, place: Path, count: int) -> dict[str, Any]:
    from apps.worlds.elsewhere.openenv import OpenEnvWorld
    from apps.worlds.registry import WORLDS
    from tentalis.core.world_servers import WorldServer
    from tests.bench.doors_items import ITEMS

    rng = Random(3)
    rows = len(ITEMS) // 5 * 5
    plan = []
    for seed in range(count):
        item = ITEMS[seed % rows]
        answer = rng.choice([str(len(item)), f"It has {len(item)}.", "0"])
        calls = [["count_letters", {"word": item}]] if rng.random() < 0.5 else []
        told = {"prompt": f"Count. seed {seed}", "seed": seed, "row": seed % rows}
        plan.append({**told, "calls": calls, "answers": [answer]})
    asked, answered = place / "verifiers.json", place / "verifiers.out.json"
    asked.write_text(json.dumps(plan))
    there = os.pathsep.join([str(Path(__file__).parent), str(BRIDGE.parent)])
    script = str(Path(__file__).with_name("doors_verifiers.py"))
    subprocess.run([str(python), script, str(asked), str(answered)], check=True, env=os.environ | {"PYTHONPATH": there})
    own = json.loads(answered.read_text())
    with running([str(python), str(BRIDGE), "doors_verifiers", "--port", "0"], PYTHONPATH=there) as url:
        world = OpenEnvWorld("letters", WorldServer(url=url))
        vars(WORLDS)["_loaded"] = ({**{one.name: one for one in WORLDS.values()}, "letters": world}, ())
        here = play_here(world, plan)
    return {
        "door": "a verifiers environment here", "world": "letters", "episodes": count,
        "same": sum(abs(one - (mine or 0.0)) < 1e-9 and mine is not None for one, mine in zip(own, here, strict=True)),
        "right": sum(one == 1.0 for one in own),
    }  # fmt: skip


def compare_harbor(python: Path, place: Path) -> dict[str, Any]:
    """Each task worked on in each way, by Harbor's runner in one job, and by ours."""
    from tentalis.core.swe.patches import write_patch
    from tentalis.sandbox.client import SandboxClient
    from tentalis.verification.harbor import load_harbor
    from tentalis.verification.verifying import Verifier
    from tests.bench.doors_tasks import WAYS, write_tasks

    tasks = write_tasks(place / "harbor")
    scripted = {"import_path": "doors_harbor:ScriptedAgent"}
    agents: list[dict[str, Any]] = [{"name": "oracle"}, {"name": "nop"}]
    agents += [{**scripted, "kwargs": {"files": {f"/app/{path}": text for path, text in way.items()}}} for way in WAYS]
    job = place / "job.json"
    job.write_text(json.dumps({
        "job_name": "job", "jobs_dir": str(place / "harbor-jobs"), "quiet": True, "n_concurrent_trials": 2,
        "environment": {"import_path": "doors_harbor:PlainEnvironment"},
        "agents": agents, "tasks": [{"path": str(task)} for task in tasks],
    }))  # fmt: skip
    shutil.copy(Path(__file__).with_name("doors_harbor.py"), place)
    there = os.environ | {"PYTHONPATH": str(place), "HOME": str(place), "HARBOR_TELEMETRY": "off"}
    subprocess.run([str(python.with_name("harbor")), "run", "-c", str(job), "--yes"], check=True, env=there)
    theirs = {}
    for file in (place / "harbor-jobs" / "job").glob("*/result.json"):
        trial = json.loads(file.read_text())
        agent = trial["config"]["agent"]
        way = agent["name"] or str(WAYS.index({path[5:]: text for path, text in agent["kwargs"]["files"].items()}))
        theirs[Path(trial["config"]["task"]["path"]).name, way] = (trial["verifier_result"] or {}).get("rewards") or {}
    verifier = Verifier(lambda: SandboxClient(place / "sandboxes"))
    ours: dict[tuple[str, str], float | None] = {}
    for task in tasks:
        loaded = load_harbor(task)
        patches = {
            str(number): write_patch({}, {path: text.encode() for path, text in way.items()})
            for number, way in enumerate(WAYS)
        }
        ours |= {
            (task.name, way): verifier.verify(loaded, patch).reward for way, patch in {"nop": "", **patches}.items()
        }
        ours[task.name, "oracle"] = verifier.run_tests(loaded, {}, is_solved=True).reward
    return {
        "door": "Harbor's directories here", "world": "three tasks", "episodes": len(ours),
        "same": sum(theirs.get(which, {}).get("reward") == mine for which, mine in ours.items()),
        "right": sum(mine == 1.0 for mine in ours.values()),
    }  # fmt: skip


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table("door", "world", "episodes", "same reward", "right")
    for row in rows:
        table.add_row(row["door"], row["world"], *(f"{row[name]}" for name in ("episodes", "same", "right")))
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
