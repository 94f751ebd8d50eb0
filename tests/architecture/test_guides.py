"""What the guides for contributors name is there."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from django.apps import apps

from tentalis.env import VARIABLES
from tests.architecture.trees import read_tree

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"`((?:apps|tentalis|gpu_workers|tests|templates|docs|docker|integrations)/[\w/.-]+)`")


@cache
def read_file(path: Path) -> ast.Module:
    return read_tree(path.read_text(encoding="utf-8"))


def test_every_place_the_guide_for_contributors_names_exists() -> None:
    places = PLACE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_decision_stands_in_the_index_with_its_title() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \| \w", index, re.MULTILINE)
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in pages]
    assert [(f"# {number}. {title}", name) for number, title, name in listed] == list(
        zip(titles, [page.name for page in pages], strict=True)
    )


def test_every_setting_has_a_reader() -> None:
    places = [path for top in ("apps", "tentalis", "gpu_workers", "docker") for path in (ROOT / top).rglob("*.*")]
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for path in places
        if path.suffix in {".py", ".yaml", ".sh"} and path != ROOT / "tentalis" / "env.py"
    )
    read = set(re.findall(r"[A-Z][A-Z0-9_]+", sources))
    assert {name for name in VARIABLES if not {name, name.removeprefix("TENTALIS_")} & read} == set()


def test_a_limit_of_one_name_is_defined_once() -> None:
    """A name that two modules give a value is a limit that drifts. How much a model may answer is each caller's own."""
    places = defaultdict(list)
    for path in (path for top in ("apps", "tentalis", "gpu_workers") for path in (ROOT / top).rglob("*.py")):
        for node in read_file(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name.startswith("MAX_") and name != "MAX_TOKENS":
                    places[name].append(str(path.relative_to(ROOT)))
    assert len(places) > 50
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_module_hands_on_what_another_defines() -> None:
    """Without `__all__` mypy refuses such an import."""
    modules = [path for path in (ROOT / "apps").rglob("*.py") if path.name != "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in modules if "__all__" in path.read_text()] == []


MEASURES = ("apps/adapters/", "apps/gate/", "apps/evals/")
"""They try answers that are nobody's attempts."""


def test_an_attempt_is_verified_in_one_place_and_read_everywhere_else() -> None:
    """Nobody asks a world about what is stored: a world's `verify` takes prompt, reference and draft."""
    asking = set()
    for path in (ROOT / "apps").rglob("*.py"):
        calls = [node for node in ast.walk(read_file(path)) if isinstance(node, ast.Call)]
        asked = {ast.unparse(call.func) for call in calls if len(call.args) + len(call.keywords) == 3}
        if any(name.endswith(".verify") and name != "desk.verify" for name in asked):
            asking.add(str(path.relative_to(ROOT)))
    assert {path for path in asking if not path.startswith(MEASURES)} == {"apps/worlds/verifying.py"}


def test_every_table_is_written_by_something_that_is_no_test() -> None:
    paths = [path for path in (ROOT / "apps").rglob("*.py") if path.name != "admin.py"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    made = set(re.findall(r"(?<!class )\b(\w+)\(", source))
    made |= set(re.findall(r"\b(\w+)\.objects(?:\.\w+\([^()]*\))*\.\w*create\w*\(", source))
    made |= set(re.findall(r"INSERT INTO (\w+)", source))
    models = [model for model in apps.get_models() if model.__module__.startswith("apps.")]
    assert not {model._meta.label for model in models if not {model.__name__, model._meta.db_table} & made}


def test_no_two_classes_of_the_apps_have_one_name() -> None:
    places = defaultdict(list)
    for path in (ROOT / "apps").rglob("*.py"):
        for node in read_file(path).body:
            if isinstance(node, ast.ClassDef) and node.name not in {"Command", "Migration"}:
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


SAYS_NOTHING = {"found", "one", "words", "said"}
OF_A_FIELD = {"FieldError.at", "Checked.refuse", "search", "run_openclaw"}
"""Where `found` stands beside `wanted`, and where words are what a command takes."""


def test_a_parameter_of_a_public_function_says_what_it_is() -> None:
    nameless = set()
    for path in (path for top in ("apps", "tentalis", "gpu_workers") for path in (ROOT / top).rglob("*.py")):
        for owner in ast.walk(read_file(path)):
            if not isinstance(owner, ast.Module | ast.ClassDef) or getattr(owner, "name", "").startswith("_"):
                continue
            for node in owner.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                    taken = {
                        item.arg for item in ast.iter_child_nodes(node.args) if isinstance(item, ast.arg)
                    } & SAYS_NOTHING
                    name = f"{owner.name}.{node.name}" if isinstance(owner, ast.ClassDef) else node.name
                    if taken and name not in OF_A_FIELD:
                        nameless.add((str(path.relative_to(ROOT)), name))
    assert nameless == set()


MAY_NAME_A_WORLD = (
    "apps/worlds/",
    "tentalis/core/desk",  # what the built-in world is made of, read by the training box too
    "gpu_workers/desk/",
    "apps/pipeline/demonstration.py",
    "apps/pipeline/management/commands/demo.py",
    "apps/api/management/commands/bootstrap.py",
    "apps/console/glossary_files.py",
    # where it is the name of the built-in model
    "apps/workers/base_names.py",
    "gpu_workers/",
    "tentalis/cli/",
    "tentalis/platform/",
    "tentalis/core/learning/recipes.py",
)


def test_nothing_but_a_world_itself_and_the_demonstration_names_it() -> None:
    """What differs between worlds is asked of the world, so that one of another package is one like ours."""
    named = set()
    for path in (path for top in ("apps", "tentalis", "gpu_workers") for path in (ROOT / top).rglob("*.py")):
        place = str(path.relative_to(ROOT))
        if place.startswith(MAY_NAME_A_WORLD) or "/migrations/" in place:
            continue
        for node in ast.walk(read_file(path)):
            is_name = isinstance(node, ast.Constant) and node.value in {"desk", "Desk"}
            module = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            if is_name or (module or "").startswith(("apps.worlds.desk", "apps.worlds.chat", "tentalis.core.desk")):
                named.add((place, getattr(node, "lineno", 0)))
    assert named == set()


QUESTIONS = {
    "PPO's clip": ("clip", "gpu_workers/learning/losses.py"),
    "a reviewer's laptop closes": ("claim", "apps/feedback/claims.py"),
    "a token's log-prob": ("log-prob", "apps/rollouts/models.py"),
    "an environment": ("world", "apps/worlds/registry.py"),
    "a scorer": ("scorer", "apps/scoring/scorers/__init__.py"),
    "a model provider": ("provider", "apps/inference/provider_kinds.py"),
    "an algorithm": ("algorithm", "tentalis/core/learning/recipes.py"),
    "a REST resource": ("rest resource", "CONTRIBUTING.md"),
    "a console page": ("console page", "CONTRIBUTING.md"),
    "the fence of durable work": ("fence", "apps/outbox/services.py"),
    "what decides that an adapter may serve": ("gate", "apps/gate/gating.py"),
    "a score becomes a reward": ("reward", "tentalis/core/learning/rewards.py"),
    "the erasure of a person": ("gdpr", "apps/erasure/erase.py"),
    "why nothing trains": ("why_nothing_trains", "apps/rollouts/selectors.py"),
    "which requests go to the canary": ("canary", "tentalis/core/learning/canary_routing.py"),
    "text rendered to tokens": ("chat template", "gpu_workers/backends/chat_templates.py"),
    "a page that updates live": ("live", "apps/console/live.py"),
    "a training result arrives": ("training_result", "apps/pipeline/flow.py"),
    "a training machine dies in a run": ("silent", "apps/training/retrying.py"),
    "the schedule of webhooks' retries": ("schedule", "apps/webhooks/sending.py"),
}
"""What a newcomer asks -> the word that they search for, and the file that answers."""


def test_a_newcomers_twenty_questions_are_answered_by_names() -> None:
    """The word stands in the file's path, a docstring of it, or a name that it defines."""
    assert len(QUESTIONS) == 20
    lost = [asked for asked, (word, place) in QUESTIONS.items() if word not in _list_names(place)]
    assert lost == []


def _list_names(place: str) -> str:
    """What a search for names finds of a file, in lower case."""
    path = ROOT / place
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8").lower()
    found = [place]
    for node in ast.walk(read_file(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found += [getattr(node, "name", ""), (ast.get_docstring(node) or "")]
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return "\n".join(found).lower()
