"""Jobs of training on queue `control`: what goes out. What comes back ends in `apps.pipeline.jobs`."""

from apps.outbox.links import link
from apps.training import managers, preflight, results, scorers, services, verdict_managers


@link("training.ask")
def ask(run_id: int) -> None:
    preflight.ask_run(run_id, by="gate")


@link("training.dispatch")
def dispatch(run_id: int) -> None:
    services.dispatch_run(run_id, by="control")


@link("training.ask_measured")
def ask_measured(adapter_id: int) -> None:
    results.ask_measured(adapter_id, by="gate")


@link("training.meta_train")
def meta_train(run_id: int) -> None:
    managers.meta_train(run_id)


@link("training.gate_scorer")
def gate_scorer(model_id: int) -> None:
    scorers.gate_reward_model(model_id, by="gate")


@link("training.gate_manager")
def gate_manager(fit_id: int) -> None:
    verdict_managers.gate_manager(fit_id, by="gate")
