"""A manager that is the worker's own model with one word to say, yes or no. Audits can train an adapter for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from django.conf import settings

from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.errors import WrongAdapterServedError
from apps.base.errors import TentalisError
from apps.calibration.selectors import find_adapter
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.inference.client import ModelClient
from apps.inference.errors import ModelNotServedError, ProviderRefusedError, raise_if_paced
from apps.inference.services import client_for
from apps.judges.models import tell_judge
from apps.judges.selectors import find_bar
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.registry import find_world
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.scoring.verdicts import VerdictQuestion, ask_verdict, score_verdict
from tentalis.outbound.scopes import ScopedThreadPool

AT_ONCE = 8
PREFIX = "agent:verdict:"


@dataclass(frozen=True)
class JudgingModel:
    """What a manager judges by.

    Args:
        name: as the server knows it.
        uri, sha256: of the adapter behind the name; "" for the model as it is.
    """

    name: str
    uri: str = ""
    sha256: str = ""


def name_verdict_manager(worker: Worker) -> str:
    """Handle of the verdict manager of a worker's work: it judges by that worker's model, and learns on it."""
    return f"{PREFIX}{worker.name}"


def ask_about(attempt: Attempt, task: Task) -> VerdictQuestion:
    """The question about one attempt, as its manager asks it now."""
    own = find_world(task.environment).ask_verdict(task.prompt, attempt.text)
    return own or ask_verdict(
        prompt=task.prompt,
        text=attempt.text,
        rubric=task.project.rubric,
        constitution=task.project.constitution,
    )


@dataclass(frozen=True)
class VerdictManager:
    """Scores an attempt by the probability of yes against no.

    Args:
        worker: whose work it judges.
    """

    worker: Worker

    @property
    def author(self) -> str:
        return name_verdict_manager(self.worker)

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        if not attempts:
            return NoWord("no attempt gave an answer")
        adapter, gate = find_adapter(task.project_id, self.author)
        base = find_base_model(self.worker)
        if not base:
            return NoWord(f"{self.worker.name} has no model to judge by")
        if not adapter and (barred := find_bar(task.project, self.worker.provider, base)):
            return NoWord(barred)
        try:
            client = client_for(self.worker.provider, task.project_id)
            model = JudgingModel(**adapter) if adapter else JudgingModel(base)
            scores = judge(client, model, [ask_about(attempt, task) for attempt in attempts], base=base)
        except TentalisError as error:
            raise_if_paced(error)
            return NoWord(f"the model cannot be asked: {error}")
        pairs = list(zip(attempts, scores, strict=True))
        said = {one.pk: ManagerScore(score) for one, score in pairs if not isinstance(score, Unscored)}
        if not said:
            return NoWord("; ".join(f"attempt {one.index}: {x.reason}" for one, x in pairs if isinstance(x, Unscored)))
        is_audited_only = gate is None and settings.TENTALIS["META_RL_ENABLED"]
        return ManagerWord(
            text="",
            score=fmean(one.score for one in said.values() if one.score is not None),
            attempts=said,
            trust=0.0 if is_audited_only else 1.0,
            judge={} if adapter else tell_judge(self.worker.provider_id, base),
        )


def judge(
    client: ModelClient, model: JudgingModel, questions: Sequence[VerdictQuestion], *, base: str
) -> list[float | Unscored]:
    """The score of each question, in [0, 1]; a server that was restarted is given the adapter again.

    Args:
        base: name of the model without an adapter, whose tokenizer is the adapter's.
    Raises:
        ProviderBusyError, ProviderRefusedError: the server cannot be asked, or tells no tokens.
        WrongAdapterServedError: another model answered.
        AdapterBrokenError: the adapter's files are not what their hashes say.
    """
    if not client.tells_tokens:
        raise ProviderRefusedError(f"{client.base_url} tells no tokens: wanted the Tentalis engine or vLLM")
    if model.uri:
        load(client, model)
    with ScopedThreadPool(AT_ONCE) as pool:
        prompts = list(pool.map(lambda question: _read_prompt(client, model, question), questions))
    rows, places = [], []
    for place, (question, prompt) in enumerate(zip(questions, prompts, strict=True)):
        if not isinstance(prompt, Unscored):
            rows += [(prompt, client.tokenize(word, model=base)) for word in question.words]
            places.append(place)
    sums = list(map(sum, client.score_answers(rows, model=model.name)))
    scored: list[float | Unscored] = [one if isinstance(one, Unscored) else Unscored("not asked") for one in prompts]
    for place, yes, no in zip(places, sums[::2], sums[1::2], strict=True):
        scored[place] = score_verdict(yes, no)
    return scored


def load(client: ModelClient, model: JudgingModel) -> None:
    """Have the server serve the adapter under its name; what does already is left alone."""
    directory = path_of(model.uri)
    if model.name in client.list_models():
        return
    read_manifest(directory, sha256=model.sha256)
    client.load_adapter(model.name, str(directory))


def _read_prompt(client: ModelClient, model: JudgingModel, question: VerdictQuestion) -> Sequence[int] | Unscored:
    """The prompt's tokens as the server sees them, and proof that this model is the one that reads them."""
    try:
        sample = client.chat(question.messages, model=model.name, max_tokens=1, temperature=0.0)[0]
    except ModelNotServedError:
        raise
    except ProviderRefusedError as error:
        return Unscored(f"{type(error).__name__}: {error}")
    if sample.served_by != model.name:
        raise WrongAdapterServedError(f"asked for {model.name}, {sample.served_by} answered")
    return sample.prompt_token_ids
