"""What the gateway saw, skills, tasksets, experiments."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tentalis.client.endpoints.calls import Answer, Sender


class Knowledge(Sender[Answer]):
    """What the gateway saw, skills, tasksets, experiments."""

    def list_asked(self, *, project: str, **params: Any) -> Answer:
        """What was asked first in each session of a project, which `take_from_sessions` makes tasks of."""
        return self._get("sessions/asked", project=project, **params)

    def list_sessions(self, **params: Any) -> Answer:
        return self._get("sessions", **params)

    def get_session(self, session_id: int) -> Answer:
        return self._get(f"sessions/{session_id}")

    def list_exchanges(self, **params: Any) -> Answer:
        """Exchanges, newest first: `session=…` for those of one conversation."""
        return self._get("exchanges", **params)

    def get_exchange(self, exchange_id: int | str) -> Answer:
        """An exchange with its words and exact tokens, by its number or its public id."""
        return self._get(f"exchanges/{quote(str(exchange_id), safe='')}")

    def list_worlds(self) -> Answer:
        """Every environment that tasks can be in, and whether anything may be trained there."""
        return self._get("worlds")

    def list_repo_tasks(self) -> Answer:
        """Every task of own repositories that was added to the installation."""
        return self._get("repo-tasks")

    def remove_repo_task(self, name: str) -> Answer:
        """Remove one for all projects; takes an admin of the installation."""
        return self._delete(f"repo-tasks/{quote(name, safe='@')}")

    def hand_in_repo_tasks(
        self,
        *,
        text: str,
        split: str,
        repository: str,
        wheels: Mapping[str, str] | None = None,
        python: str = "",
        parser: str = "",
    ) -> Answer:
        """Tasks of one repository, to be looked at and added for all projects; takes an admin of the installation.

        Args:
            text: JSON lines: rows of SWE-bench, or tasks as task.json has them.
            repository: sha256 of a file that was sent by `add_upload_part`; wheels: name -> sha256 of such files.
        """
        said = {"wheels": wheels or {}, "python": python, "parser": parser}
        return self._post("repo-tasks", text=text, split=split, repository=repository, **said)

    def list_repo_task_admissions(self) -> Answer:
        """The newest tasks that were handed in, and what was found of each so far."""
        return self._get("repo-task-admissions")

    def get_repo_task_admission(self, admission_id: int) -> Answer:
        return self._get(f"repo-task-admissions/{admission_id}")

    def get_upload(self, sha256: str) -> Answer:
        """How far a file has come that is sent in parts."""
        return self._get(f"uploads/{sha256}")

    def add_upload_part(self, sha256: str, *, size_bytes: int, offset: int, part: str) -> Answer:
        """Put a part, in base64, behind what has come; a client's `upload` sends a whole file."""
        return self._post(f"uploads/{sha256}", size_bytes=size_bytes, offset=offset, part=part)

    def list_checks(self, **params: Any) -> Answer:
        return self._get("checks", **params)

    def get_check(self, check_id: int) -> Answer:
        return self._get(f"checks/{check_id}")

    def write_check(self, *, project: str, name: str, spec: Any, about: str = "") -> Answer:
        """A new check, or the next version of the one of this name."""
        return self._post("checks", project=project, name=name, spec=spec, about=about)

    def set_default_check(self, check_id: int, *, default_for: str) -> Answer:
        """Have a version check the tasks of an environment that bring no checks of their own."""
        return self._patch(f"checks/{check_id}", default_for=default_for)

    def remove_check(self, check_id: int) -> Answer:
        """Delete a version that nothing uses."""
        return self._delete(f"checks/{check_id}")

    def try_check(self, *, project: str, spec: Any, answers: list[str] | None = None) -> Answer:
        """What a check says of stored answers, or of given ones."""
        return self._post("checks/try", project=project, spec=spec, answers=answers)

    def list_skills(self, **params: Any) -> Answer:
        return self._get("skills", **params)

    def get_skill(self, skill_id: int) -> Answer:
        return self._get(f"skills/{skill_id}")

    def write_skill(self, *, project: str, name: str, description: str, body: str) -> Answer:
        """A new skill, or the next version of the one of this name."""
        return self._post("skills", project=project, name=name, description=description, body=body)

    def switch_skill(self, skill_id: int, *, is_active: bool) -> Answer:
        return self._patch(f"skills/{skill_id}", is_active=is_active)

    def list_catalogue(self) -> Answer:
        return self._get("catalogue")

    def list_datasets(self, **params: Any) -> Answer:
        """Tasksets, every version, each with the benchmark that asks it."""
        return self._get("datasets", **params)

    def get_dataset(self, dataset_id: int) -> Answer:
        return self._get(f"datasets/{dataset_id}")

    def register_dataset(self, *, project: str, name: str, **rows: Any) -> Answer:
        """Rows by a benchmark of the catalogue, as `install_benchmark` takes them: the taskset that holds them."""
        return self._post("datasets", project=project, name=name, **rows)

    def remove_dataset(self, dataset_id: int) -> Answer:
        """Delete a version that nothing was measured on."""
        return self._delete(f"datasets/{dataset_id}")

    def list_benchmarks(self, **params: Any) -> Answer:
        return self._get("benchmarks", **params)

    def get_benchmark(self, benchmark_id: int) -> Answer:
        return self._get(f"benchmarks/{benchmark_id}")

    def get_leaderboard(self, benchmark_id: int, *, worker: str = "") -> Answer:
        """A benchmark's models, ranked as far as they are told apart; `worker`: only of its line."""
        told = {"worker": worker} if worker else {}
        return self._get(f"benchmarks/{benchmark_id}/leaderboard", **told)

    def install_benchmark(self, *, project: str, name: str, **changes: Any) -> Answer:
        return self._post("benchmarks", project=project, name=name, **changes)

    def start_course(self, *, project: str, worker: str, benchmark: int, **asked: Any) -> Answer:
        """Have a worker learn a benchmark.

        Args:
            asked: `rounds`, `tasks`, `group_size`, `patience`, `backend`, `recipe`, `shown`, `shown_recipe`, `seed`.
        """
        return self._post("courses", project=project, worker=worker, benchmark=benchmark, **asked)

    def list_courses(self, **params: Any) -> Answer:
        return self._get("courses", **params)

    def get_course(self, course_id: int) -> Answer:
        return self._get(f"courses/{course_id}")

    def get_curve(self, course_id: int) -> Answer:
        """A course's learning curve: what the gate measured after each round."""
        return self._get(f"courses/{course_id}/curve")

    def pause_course(self, course_id: int) -> Answer:
        return self._post(f"courses/{course_id}/pause")

    def resume_course(self, course_id: int) -> Answer:
        return self._post(f"courses/{course_id}/resume")

    def cancel_course(self, course_id: int) -> Answer:
        return self._post(f"courses/{course_id}/cancel")

    def send_piece(self, *, project: str, packed: str) -> Answer:
        """A packed file of rows, in base64, which waits for `install_benchmark` to ask for it by its hash."""
        return self._post("benchmarks/pieces", project=project, packed=packed)

    def list_tasksets(self, **params: Any) -> Answer:
        return self._get("tasksets", **params)

    def get_taskset(self, taskset_id: int) -> Answer:
        return self._get(f"tasksets/{taskset_id}")

    def make_taskset(self, *, project: str, name: str, environment: str, about: str | None = None) -> Answer:
        return self._post("tasksets", project=project, name=name, environment=environment, about=about)

    def add_items(
        self,
        taskset_id: int,
        *,
        split: str,
        text: str | None = None,
        form: str | None = None,
        name: str | None = None,
        checks: Any = None,
        tasks: Sequence[int] | None = None,
        sessions: Sequence[int] | None = None,
        count: int | None = None,
        seed: int | None = None,
        evaluation: int | None = None,
        outcome: str | None = None,
    ) -> Answer:
        """Add items from one source, all of them or none: a text, tasks, sessions, an evaluation's items, or so many
        that the environment makes up."""
        return self._post(
            f"tasksets/{taskset_id}/items",
            split=split,
            text=text,
            form=form,
            name=name,
            checks=checks,
            tasks=tasks,
            sessions=sessions,
            count=count,
            seed=seed,
            evaluation=evaluation,
            outcome=outcome,
        )

    def split_taskset(self, taskset_id: int, *, shares: Mapping[str, int], seed: int = 0) -> Answer:
        return self._post(f"tasksets/{taskset_id}/split", shares=shares, seed=seed)

    def get_item(self, taskset_id: int, item_id: int) -> Answer:
        return self._get(f"tasksets/{taskset_id}/items/{item_id}")

    def remove_item(self, taskset_id: int, item_id: int) -> Answer:
        """Delete an item of a version that still changes and that nothing was measured on."""
        return self._delete(f"tasksets/{taskset_id}/items/{item_id}")

    def remove_taskset(self, taskset_id: int) -> Answer:
        return self._delete(f"tasksets/{taskset_id}")

    def freeze_taskset(self, taskset_id: int) -> Answer:
        return self._post(f"tasksets/{taskset_id}/freeze")

    def list_items(self, taskset_id: int, **params: Any) -> Answer:
        """Items of a taskset: `split=…` for those of one."""
        return self._get(f"tasksets/{taskset_id}/items", **params)

    def ask_evaluation(self, *, project: str, worker: str, **asked: Any) -> Answer:
        """Have a model try the items of a `taskset` (and `split`), or what an `environment` makes up (`size`, `draw`);
        `adapter`, `tries`, `seed` and `is_greedy` say whose, how often and how."""
        return self._post("evaluations", project=project, worker=worker, **asked)

    def list_evaluations(self, **params: Any) -> Answer:
        return self._get("evaluations", **params)

    def get_evaluation(self, evaluation_id: int) -> Answer:
        return self._get(f"evaluations/{evaluation_id}")

    def get_figures(self, evaluation_id: int) -> Answer:
        """How sure an evaluation's mean is, what k tries would do, and what is not known."""
        return self._get(f"evaluations/{evaluation_id}/figures")

    def list_tries(self, evaluation_id: int, **params: Any) -> Answer:
        """Each try at an item, with its outcome or why there is none."""
        return self._get(f"evaluations/{evaluation_id}/tries", **params)

    def get_try(self, evaluation_id: int, try_id: int) -> Answer:
        """One try, with its conversation, what was verified, and what it took."""
        return self._get(f"evaluations/{evaluation_id}/tries/{try_id}")

    def grade_try(self, evaluation_id: int, try_id: int, *, value: float, text: str = "") -> Answer:
        """Say how right its answer is, from 0 to 1, beside the grader's word."""
        told = {"text": text} if text else {}
        return self._post(f"evaluations/{evaluation_id}/tries/{try_id}/grade", value=value, **told)

    def keep_try(self, evaluation_id: int, try_id: int, *, right: str, match: str = "") -> Answer:
        """Make its item a regression case, where a person's grade contradicts the grader's; `right`: what is right,
        `match`: exact, contains or number."""
        told = {"right": right, "match": match}
        path = f"evaluations/{evaluation_id}/tries/{try_id}/keep"
        return self._post(path, **{name: value for name, value in told.items() if value})

    def get_agreement(self, evaluation_id: int) -> Answer:
        """How far an evaluation's graders agree with what people say of the same tries, and where they differ."""
        return self._get(f"evaluations/{evaluation_id}/agreement")

    def import_run(self, *, project: str, file: str, **told: Any) -> Answer:
        """Take in a run that another tool made (`file`: its bytes in base64), as an evaluation that is done."""
        return self._post("evaluations/import", project=project, file=file, **told)

    def pause_evaluation(self, evaluation_id: int) -> Answer:
        return self._post(f"evaluations/{evaluation_id}/pause")

    def resume_evaluation(self, evaluation_id: int, *, limits: Mapping[str, Any] | None = None) -> Answer:
        """Let a paused or failed one go on, maybe with other limits."""
        return self._post(f"evaluations/{evaluation_id}/resume", limits=limits)

    def replay_evaluation(self, evaluation_id: int, *, limits: Mapping[str, Any] | None = None) -> Answer:
        """Ask the very prompts of a run once more."""
        return self._post(f"evaluations/{evaluation_id}/replay", limits=limits)

    def cancel_evaluation(self, evaluation_id: int) -> Answer:
        return self._post(f"evaluations/{evaluation_id}/cancel")

    def compare_evaluations(self, a: int, b: int) -> Answer:
        """The first minus the second, paired by item."""
        return self._get("comparisons", a=a, b=b)

    def compare_together(self, a: int, others: Sequence[int]) -> Answer:
        """The first minus each of the others, each p corrected for all of them."""
        return self._get("comparisons/together", a=a, b=",".join(map(str, others)))

    def get_confounds(self, evaluation_id: int) -> Answer:
        """What may mislead whoever reads an evaluation's figures."""
        return self._get(f"evaluations/{evaluation_id}/confounds")

    def ask_regrading(self, *, project: str, **asked: Any) -> Answer:
        """Grade anew what was answered before, by one of `grader`, `scorer`, `checks` and `rubric`: an `evaluation`
        or a project's `history` (attempts, reviews or rollouts)."""
        return self._post("regradings", project=project, **asked)

    def rescore_evaluation(self, evaluation_id: int, **asked: Any) -> Answer:
        """Grade a run's answers anew, by one of `grader`, `scorer`, `checks` and `rubric`: the regrading."""
        return self._post(f"evaluations/{evaluation_id}/rescore", **asked)

    def get_regrading(self, regrading_id: int) -> Answer:
        return self._get(f"regradings/{regrading_id}")

    def list_grades(self, regrading_id: int, **params: Any) -> Answer:
        """Each new grade beside the old one: `changed=side` for who changed sides."""
        return self._get(f"regradings/{regrading_id}/grades", **params)

    def list_regradings(self, **params: Any) -> Answer:
        return self._get("regradings", **params)

    def probe_judge(self, *, project: str, model: str = "") -> Answer:
        """Ask a judge fixed questions with known answers: SERVER/MODEL, or the installation's judge."""
        return self._post("judge-probes", project=project, **({"model": model} if model else {}))

    def get_judge_probe(self, probe_id: int) -> Answer:
        """What a probe found, each figure with its interval."""
        return self._get(f"judge-probes/{probe_id}")

    def list_judge_probes(self, **params: Any) -> Answer:
        return self._get("judge-probes", **params)

    def make_experiment(self, *, project: str, experiment: str, scenarios: Sequence[Mapping[str, Any]]) -> Answer:
        """Write down which evaluations are compared: each scenario has a name, a `candidate` and a `reference`."""
        return self._post("experiments", project=project, experiment=experiment, scenarios=scenarios)

    def list_experiments(self, **params: Any) -> Answer:
        return self._get("experiments", **params)

    def get_experiment(self, experiment_id: int) -> Answer:
        return self._get(f"experiments/{experiment_id}")

    def list_scenarios(self, experiment_id: int, **params: Any) -> Answer:
        """What each question of an experiment was answered, each p corrected for all of them."""
        return self._get(f"experiments/{experiment_id}/scenarios", **params)
