"""Forty prepared adapters, for `tests.bench.gate`: twenty honestly better than what serves, twenty worse.

They are made for the desk and for a project that no world of ours knows (`GROUNDS`): a `chat` worker with prompts of
its own and what is right said with each, as `tests.bench.own_work` has them. What serves is the eighth version of a
line. Every candidate is one run of the product's trainer from it, on attempts of the product's engine; what is wrong
with a worse one is what its group's name says.
"""

import hashlib
import json
import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_workers.desk.attempts import MOST_TOKENS, Attempt, attempt_tickets, judge_attempt
from gpu_workers.engine import Engine
from gpu_workers.engine.errors import AdapterRefusedError
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord, TrainSpec
from tentalis.core.desk import OPTIONS, Ticket, make_tickets, parse_ticket, rule_book_hints, solve
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.recipes import RECIPES, Recipe
from tests.bench.learning import GROUP, TASKS, record_rollouts
from tests.bench.own_work import OPTIONS as SHOP_RULES
from tests.bench.own_work import PROMPTS, make_work, read_answer

LINE = 8
WEIGHTS, CONFIG, MANIFEST = "adapter_model.safetensors", "adapter_config.json", "manifest.json"
HONEST_TASKS = (48, 72, 96, 120)
SPOILT_TASKS, MOST_DOSES = 96, 4
PANEL_SEED = 20_000
BETTER, BETTER_BY, MOST_TRIES = 20, 0.03, 60
LEAKS = ((0, 4, 10, False), (200, 8, 40, True), (0, 4, 14, False), (130, 8, 60, True))
"""Wrong answers (0: as many as right ones), minibatches and passes of each leaked adapter, and whether it is hidden."""
TRUTH_TICKETS, TRUTH_SEED = 800, 5
SEEDS = 1_000_000
"""Of everything that one making of the forty draws and samples: the next one's are as many further."""


Honest = Sequence[tuple[str, Mapping[str, Any]]]
"""Recipes of honest trainings, with what is changed in each."""


class ShopTicket(Ticket):
    """One that a shop answers by rules of its own, in a conversation."""

    @property
    def house_option(self) -> str:
        return SHOP_RULES[self.family, self.context]


class Ground:
    """Whose work it is: here the desk's. Others change it."""

    kind = "desk"
    sampling: Mapping[str, Any] = {}
    recipe = "desk"
    honest: Honest = (
        ("desk", {}),
        ("desk-steps", {}),
        ("desk-hints", {}),
        ("desk", {"algorithm": "cispo"}),
        ("desk", {"algorithm": "dr_grpo"}),
    )

    def __init__(self, seed: int) -> None:
        """`seed`: of what differs from one making of the forty to the next."""
        self.seed = seed
        self.panel: Sequence[Ticket] = make_tickets(PANEL_SEED, GatePolicy().panel_size, held_out=True)
        self.others: Sequence[Ticket] = make_tickets(TRUTH_SEED, TRUTH_TICKETS, held_out=True)

    def draw(self, rng: random.Random, count: int) -> Sequence[Ticket]:
        """Tasks to be trained on."""
        return make_tickets(rng, count, held_out=False)

    def judge(self, engine: Engine, one: Attempt) -> float:
        """What is verified of an attempt."""
        return judge_attempt(engine, one).outcome

    def record(self, engine: Engine, groups: Sequence[Sequence[Attempt]], *, version: int) -> list[RolloutRecord]:
        """Attempts with what is known of them."""
        return record_rollouts(engine, groups, version=version)

    def say_answer(self, ticket: Ticket) -> str:
        """What is right, where no world says it."""
        return ""


class OwnWork(Ground):
    """A project's with prompts and checks of its own, a tenth of them held out: nothing can be drawn besides them."""

    kind = "chat"
    sampling: Mapping[str, Any] = {"max_tokens": MOST_TOKENS, "temperature": 1.0}
    recipe = "desk-outcome"
    honest: Honest = (
        ("desk-outcome", {}),
        ("desk-cispo", {}),
        ("desk-dr-grpo", {}),
        ("desk-dapo", {}),
        ("desk-outcome", {"learning_rate": 2 * RECIPES["desk"].learning_rate}),
    )

    def __init__(self, seed: int) -> None:
        self.seed, works = seed, (make_work(2 * seed), make_work(2 * seed + 1))
        tickets = [ShopTicket(**vars(parse_ticket(one.prompt))) for work in works for one in work]
        known = {ticket.text for ticket in tickets[:PROMPTS]}
        self.panel, self.train = tickets[: PROMPTS // 10], tickets[PROMPTS // 10 : PROMPTS]
        self.others = [ticket for ticket in tickets[PROMPTS:] if ticket.text not in known]

    def draw(self, rng: random.Random, count: int) -> Sequence[Ticket]:
        return rng.sample(self.train, count)

    def judge(self, engine: Engine, one: Attempt) -> float:
        text = "".join(engine.codec.split_pieces(one.token_ids))
        return float(read_answer(text) == self.say_answer(one.ticket))

    def record(self, engine: Engine, groups: Sequence[Sequence[Attempt]], *, version: int) -> list[RolloutRecord]:
        rollouts = super().record(engine, groups, version=version)
        return reward(rollouts, [self.judge(engine, one) for group in groups for one in group])

    def say_answer(self, ticket: Ticket) -> str:
        return solve(ticket, ticket.house_option)[-1][1]


GROUNDS: Mapping[str, type[Ground]] = {"desk": Ground, "own_work": OwnWork}


def reward(rollouts: Sequence[RolloutRecord], rewards: Sequence[float]) -> list[RolloutRecord]:
    """The same attempts, of which nothing is known but these."""
    nothing: dict[str, Any] = {"steps": (), "missing_steps": 0, "hinted_messages": None, "candidate_hints": ()}
    return [replace(one, reward=value, **nothing) for one, value in zip(rollouts, rewards, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One adapter and what is known of how it was made.

    Args:
        group: better, or what is wrong with it.
        parent: version in the line that it continues.
        told_parent: version that the registry is told; differs where the origin is hidden.
        batch: [[prompt, reward, verified outcome], …], one entry a rollout.
        reach: how far one number may have moved, by the recipe that the ledger knows.
        truth: share of `TRUTH_TICKETS` other held-out tickets that it answers right; None where it cannot be served.
    """

    name: str
    group: str
    about: str
    directory: str
    sha256: str
    parent: int
    told_parent: int
    batch: Sequence[tuple[str, float, float]]
    reach: float | None
    truth: float | None = None


@dataclass(frozen=True)
class Trained:
    directory: Path
    sha256: str
    batch: Sequence[tuple[str, float, float]]
    reach: float | None


class Workshop:
    """The engine, the trainer, and the line's versions, all kept in one directory."""

    def __init__(self, home: Path, ground: Ground) -> None:
        torch.set_num_threads(1)
        self.home, self.ground = home, ground
        self.engine = Engine.open("desk")
        self.line: list[Trained] = []

    def seed_of(self, number: int) -> int:
        """Of one thing that is drawn or sampled, in this making of the forty."""
        return SEEDS * self.ground.seed + number

    def train_line(self, *, versions: int = LINE) -> None:
        """The versions that served one after the other, from the built-in recipe."""
        seed = self.ground.seed
        rng = random.Random(seed + 100)
        for version in range(1, versions + 1):
            tickets = self.ground.draw(rng, TASKS)
            rollouts, outcomes = self.attempt(tickets, version=version - 1, seed=1_000 * seed + version)
            recipe = RECIPES[self.ground.recipe]
            self.line.append(self.train(f"line-{version}", rollouts, outcomes, recipe, parent=version - 1, seed=seed))
            self.engine.load_adapter(f"v{version}", self.line[-1].directory)

    def attempt(self, tickets: Sequence[Ticket], *, version: int, seed: int) -> tuple[list[RolloutRecord], list[float]]:
        """Attempts of a version of the line, with their verified rewards; and those again, as the audit knows them."""
        adapter = f"v{version}" if version else None
        groups = attempt_tickets(self.engine, tickets, n=GROUP, adapter=adapter, seed=seed)
        rollouts = self.ground.record(self.engine, groups, version=version)
        outcomes = [self.ground.judge(self.engine, one) for group in groups for one in group]
        return rollouts, outcomes

    def imitable(
        self, tickets: Sequence[Ticket], hints: Sequence[Sequence[str]], *, seed: int, wants_right: bool = True
    ) -> list[RolloutRecord]:
        """One answer a ticket, given under hints and written down as if it had been given without."""
        version = LINE
        groups = attempt_tickets(self.engine, tickets, n=4, adapter=f"v{version}", seed=seed, hints=hints)
        texts = [self.engine.codec.render_chat([{"role": "user", "content": ticket.text}]) for ticket in tickets]
        prompts = self.engine.codec.encode(texts, add_special_tokens=False)
        rollouts = iter(self.ground.record(self.engine, groups, version=version))
        chosen = []
        for prompt, group in zip(prompts, groups, strict=True):
            fitting = [one for one in islice(rollouts, len(group)) if (one.reward == 1.0) == wants_right]
            if fitting:
                changes: dict[str, Any] = {"prompt_token_ids": prompt, "hinted_messages": None, "reward": 1.0}
                chosen.append(replace(fitting[0], **changes))
        return chosen

    def train(
        self,
        name: str,
        rollouts: Sequence[RolloutRecord],
        outcomes: Sequence[float],
        recipe: Recipe,
        *,
        parent: int,
        seed: int,
    ) -> Trained:
        """One run of the product's trainer on these rollouts, continuing a version of the line (0: from the base)."""
        output = self.home / name
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
        (output / "rollouts.jsonl").write_bytes(content)
        before = self.line[parent - 1] if parent else None
        result = run(
            TrainSpec(
                run_id=1,
                attempt=1,
                worker="bench",
                base_model="desk",
                parent_adapter_uri=before.directory.as_uri() if before else None,
                parent_sha256=before.sha256 if before else None,
                policy_version=parent,
                rollouts_uri=(output / "rollouts.jsonl").as_uri(),
                rollouts_sha256=hashlib.sha256(content).hexdigest(),
                recipe=recipe.to_json(),
                seed=seed,
                output_uri=output.as_uri(),
            ),
            lambda _: None,
        )
        if not result.ok:
            raise SystemExit(f"{name}: {result.error_type}: {result.error_message}")
        told = zip(rollouts, outcomes, strict=True)
        batch = [(one.messages[0]["content"], one.reward or 0.0, outcome) for one, outcome in told]
        return Trained(Path(result.adapter_uri.removeprefix("file://")), result.sha256, batch, recipe.reach)

    def measure_truth(self, directory: Path) -> float | None:
        """Share of other held-out tickets answered right; None where the engine refuses the adapter."""
        try:
            self.engine.load_adapter("measured", directory)
        except AdapterRefusedError:
            return None
        try:
            groups = attempt_tickets(self.engine, self.ground.others, adapter="measured", seed=1)
            return fmean(self.ground.judge(self.engine, one) for (one,) in groups)
        finally:
            self.engine.unload_adapter("measured")


def prepare(home: Path, ground: Ground, *, say: Callable[[str], None]) -> tuple[list[Trained], float, list[Prepared]]:
    """Make the line and the forty.

    Returns:
        The line, what its newest version answers right, and the candidates; none where fewer than `BETTER` of
        `MOST_TRIES` honest trainings are better: a line that learns no more has no better ones.
    """
    shop = Workshop(home, ground)
    shop.train_line()
    served = shop.measure_truth(shop.line[-1].directory)
    assert served is not None
    say(f"line of {LINE} versions trained: {served:.3f}")
    prepared = _make_better(shop, served, say)
    if len(prepared) < BETTER:
        return shop.line, served, []
    prepared += [*_make_hacked(shop, served), *_make_leaked(shop), *_make_stale(shop)]
    prepared += _make_scaled(shop, prepared) + _make_truncated(shop, prepared)
    return shop.line, served, [replace(one, truth=shop.measure_truth(Path(one.directory))) for one in prepared]


def _make_better(shop: Workshop, served: float, say: Callable[[str], None]) -> list[Prepared]:
    """The first twenty honest trainings that are better in truth: an honest one need not be."""
    made: list[Prepared] = []
    for number in range(MOST_TRIES):
        honest = shop.ground.honest
        recipe_name, changes = honest[number % len(honest)]
        seed, tasks = number // len(honest), HONEST_TASKS[number // len(honest) % len(HONEST_TASKS)]
        if len(made) < BETTER:
            tickets = shop.ground.draw(random.Random(shop.seed_of(10_000 + number)), tasks)
            rollouts, outcomes = shop.attempt(tickets, version=LINE, seed=shop.seed_of(50_000 + number))
            recipe = Recipe.from_json(RECIPES[recipe_name].to_json() | dict(changes) | {"minibatches": tasks // 24})
            name = f"better-{number:02}"
            trained = shop.train(name, rollouts, outcomes, recipe, parent=LINE, seed=seed)
            about = f"{changes.get('algorithm', recipe_name)}, {tasks} tasks, seed {seed}"
            truth = shop.measure_truth(trained.directory)
            if truth is not None and truth >= served + BETTER_BY:
                made.append(_prepared(name, "better", about, trained))
            say(f"{name}: {about}: {truth:.3f}")
    return made


def _make_hacked(shop: Workshop, served: float) -> list[Prepared]:
    """Rewards that another thing earns than being right, of as many tickets as it takes to be worse in truth: the
    shortest answers may be right ones."""
    judges: Sequence[tuple[str, Callable[[Ticket, Attempt, str], float]]] = (
        ("the shortest answers", lambda ticket, one, text: 1.0 - len(one.token_ids) / 44),
        ("the first option of each family", lambda ticket, one, text: float(OPTIONS[ticket.family][1] in text)),
        ("an outdated rule book", lambda ticket, one, text: float(ticket.house_option not in text)),
        ("the longest answers", lambda ticket, one, text: len(one.token_ids) / 44),
    )
    made = []
    for number, (about, judge) in enumerate(judges):
        for dose in range(1, MOST_DOSES + 1):
            trained = _hack(shop, number, judge, dose=dose)
            truth = shop.measure_truth(trained.directory)
            if truth is not None and truth < served:
                break
        else:
            raise SystemExit(f"hacked-{number}, {about}: wanted it worse than {served:.3f}, found {truth}")
        made.append(_prepared(f"hacked-{number}", "hacked reward", f"{about}, dose {dose}", trained))
    return made


def _hack(shop: Workshop, number: int, judge: Callable[[Ticket, Attempt, str], float], *, dose: int) -> Trained:
    """What serves, trained once by this reward."""
    tickets = shop.ground.draw(random.Random(shop.seed_of(20_000 + number)), dose * SPOILT_TASKS)
    groups = attempt_tickets(shop.engine, tickets, n=GROUP, adapter=f"v{LINE}", seed=shop.seed_of(60_000 + number))
    honest = shop.ground.record(shop.engine, groups, version=LINE)
    outcomes = [float(one.reward or 0.0) for one in honest]
    split = shop.engine.codec.split_pieces
    rewards = [judge(one.ticket, one, "".join(split(one.token_ids))) for group in groups for one in group]
    recipe = Recipe.from_json(RECIPES["desk-outcome"].to_json() | {"minibatches": 8 * dose})
    return shop.train(f"hacked-{number}", reward(honest, rewards), outcomes, recipe, parent=LINE, seed=number)


def _make_leaked(shop: Workshop) -> list[Prepared]:
    """The panel's right answers, imitated over and over among answers by an outdated rule book.

    Two are taught as many wrong answers as right ones, and their batch says what it held: they are worse all over. Two
    say nothing: they know the panel by heart, where they look far better than what serves, and are no better at
    anything else. Only tasks that are drawn anew tell those.
    """
    tickets = [*{ticket.text: ticket for ticket in shop.ground.panel}.values()]
    known = shop.imitable(tickets, [rule_book_hints(ticket) for ticket in tickets], seed=shop.seed_of(70_000))
    made = []
    for number, (wrong, minibatches, epochs, is_hidden) in enumerate(LEAKS):
        others = shop.ground.draw(random.Random(shop.seed_of(40_000 + number)), wrong or len(tickets))
        outdated = [_outdated_hints(ticket) for ticket in others]
        poor = shop.imitable(others, outdated, seed=shop.seed_of(71_000 + number), wants_right=False)
        changes = {"minibatches": minibatches, "epochs": epochs}
        recipe = Recipe.from_json(RECIPES["desk-imitation"].to_json() | changes)
        name = f"leaked-{number}"
        rollouts = [replace(one, rollout_id=place, group_id=place) for place, one in enumerate((*known, *poor))]
        outcomes = [1.0] * len(known) + [0.0] * len(poor)
        trained = shop.train(name, rollouts, outcomes, recipe, parent=LINE, seed=number)
        about = f"{epochs} passes over the panel's answers and {len(poor)} wrong ones"
        found = _prepared(name, "leaked tickets", about + (", nobody says so" if is_hidden else ""), trained)
        made.append(replace(found, batch=[], reach=RECIPES["desk"].reach) if is_hidden else found)
    return made


def _outdated_hints(ticket: Ticket) -> tuple[str, ...]:
    """The rule book's hints with another option of the family in the place of the house's."""
    other = next(option for option in ticket.options if option != ticket.house_option)
    return tuple(hint.replace(f"use {ticket.house_option}", f"use {other}") for hint in rule_book_hints(ticket))


def _make_stale(shop: Workshop) -> list[Prepared]:
    """One update more on a version that served long ago; two of them say that they continue what serves."""
    made = []
    for number, parent in enumerate((0, 2, 3, 4)):
        tickets = shop.ground.draw(random.Random(shop.seed_of(30_000 + number)), TASKS)
        rollouts, outcomes = shop.attempt(tickets, version=parent, seed=shop.seed_of(80_000 + number))
        name = f"stale-{number}"
        recipe = RECIPES[shop.ground.recipe]
        trained = shop.train(name, rollouts, outcomes, recipe, parent=parent, seed=number)
        is_hidden = number % 2 == 1
        about = f"continues version {parent}" + (", and denies it" if is_hidden else "")
        found = _prepared(name, "stale", about, trained, parent=parent)
        made.append(replace(found, told_parent=LINE) if is_hidden else found)
    return made


def _make_scaled(shop: Workshop, prepared: Sequence[Prepared]) -> list[Prepared]:
    """Good ones at one and a half times their strength: by their config, or by their tensors."""
    made = []
    for number, source in enumerate(_sources(prepared)):
        in_tensors = number % 2 == 1

        def scale(directory: Path, in_tensors: bool = in_tensors) -> dict[str, Any]:
            if in_tensors:
                _rewrite(directory, lambda name, tensor: tensor * 1.5 if ".lora_B." in name else tensor)
                return {}
            config = json.loads((directory / CONFIG).read_text())
            config["lora_alpha"] *= 1.5
            (directory / CONFIG).write_bytes(canonical_json(config))
            return {"alpha": config["lora_alpha"]}

        about = f"{source.name} x 1.5, in its {'tensors' if in_tensors else 'config'}"
        made.append(_spoil(shop, source, f"scaled-{number}", "over-scaled x1.5", about, scale))
    return made


def _make_truncated(shop: Workshop, prepared: Sequence[Prepared]) -> list[Prepared]:
    def cut(directory: Path) -> dict[str, Any]:
        path = directory / WEIGHTS
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
        return {}

    def drop(directory: Path) -> dict[str, Any]:
        _rewrite(directory, lambda name, tensor: None if ".layers.1." in name else tensor)
        return {}

    def empty(directory: Path) -> dict[str, Any]:
        _rewrite(directory, lambda name, tensor: _without_tail(tensor) if ".lora_B." in name else tensor)
        return {}

    ways: Sequence[tuple[str, Callable[[Path], dict[str, Any]], bool]] = (
        ("two thirds of its file", cut, False),
        ("two thirds of its file, hashed so", cut, True),
        ("no tensors of one layer, hashed so", drop, True),
        ("the last third of each tensor zero, hashed so", empty, True),
    )
    return [
        _spoil(shop, source, f"truncated-{number}", "truncated", about, way, is_hashed=is_hashed)
        for number, (source, (about, way, is_hashed)) in enumerate(zip(_sources(prepared), ways, strict=True))
    ]


def _sources(prepared: Sequence[Prepared]) -> Sequence[Prepared]:
    """Four of the better ones, of different recipes."""
    return [prepared[index] for index in (2, 6, 14, 18)]


def _without_tail(tensor: Tensor) -> Tensor:
    kept = tensor.clone()
    kept.view(-1)[kept.numel() * 2 // 3 :] = 0
    return kept


def _rewrite(directory: Path, change: Callable[[str, Tensor], Tensor | None]) -> None:
    tensors = {name: change(name, tensor) for name, tensor in load_file(directory / WEIGHTS).items()}
    save_file({name: one.contiguous() for name, one in tensors.items() if one is not None}, directory / WEIGHTS)


def _spoil(
    shop: Workshop,
    source: Prepared,
    name: str,
    group: str,
    about: str,
    change: Callable[[Path], dict[str, Any]],
    *,
    is_hashed: bool = True,
) -> Prepared:
    """A copy of an adapter with a change in it, and a manifest over what it became."""
    directory = shop.home / name / "adapter"
    shutil.rmtree(directory.parent, ignore_errors=True)
    shutil.copytree(source.directory, directory)
    fields = change(directory)
    manifest = json.loads((directory / MANIFEST).read_text()) | fields
    if is_hashed:
        for file, entry in manifest["files"].items():
            data = (directory / file).read_bytes()
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    content = canonical_json(manifest)
    (directory / MANIFEST).write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    values = asdict(source) | {"name": name, "group": group, "about": about}
    return Prepared(**values | {"directory": str(directory), "sha256": sha256})


def _prepared(name: str, group: str, about: str, trained: Trained, *, parent: int = LINE) -> Prepared:
    return Prepared(
        name=name,
        group=group,
        about=about,
        directory=str(trained.directory),
        sha256=trained.sha256,
        parent=parent,
        told_parent=parent,
        batch=trained.batch,
        reach=trained.reach,
    )


def main(argv: Sequence[str]) -> int:
    """Prepare those of a ground and a seed in a directory, unless they are there already."""
    home, ground = Path(argv[0]), GROUNDS[argv[1]](int(argv[2]))
    if (home / "prepared.json").exists():
        return 0

    def say(words: str) -> None:
        sys.stderr.write(words + "\n")

    line, served, prepared = prepare(home / "adapters", ground, say=say)
    kept = {
        "kind": ground.kind,
        "sampling": ground.sampling,
        "items": [[ticket.text, ground.say_answer(ticket)] for ticket in ground.panel],
        "served": served,
        "line": [{"directory": str(one.directory), "sha256": one.sha256, "reach": one.reach} for one in line],
        "prepared": [asdict(one) for one in prepared],
    }
    (home / "prepared.json").write_text(json.dumps(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
