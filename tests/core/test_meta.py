"""A manager's weights: fitted as worked out by hand, trusted as its unseen audits say, taken back when they fall."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tentalis.core.meta import (
    Audit,
    KindOutcomes,
    MetaError,
    MetaPolicy,
    estimate_influence,
    find_fall,
    fit_weights,
    foretell,
    gate_factor,
    judge_items,
    refit,
    trace_influence,
)
from tentalis.core.scoring.ranking import Difference

TRUTH = {"a": 2.0, "b": -2.0, "c": 1.0}
OUTDATED = {"a": -1.5, "b": 1.5, "c": 1.5}
NAMES = st.sampled_from(["a", "b", "c", "d"])
AUDITS = st.lists(
    st.builds(
        Audit,
        items=st.dictionaries(NAMES, st.floats(-1, 1), max_size=4),
        said=st.floats(0, 1),
        truth=st.sampled_from([0.0, 0.25, 1.0]),
    ),
    max_size=25,
)
WEIGHTS = st.dictionaries(NAMES, st.floats(-3, 3), max_size=4)


def draw_rounds(
    rng: random.Random, rounds: int, *, weights: Mapping[str, float] = TRUTH, said: Mapping[str, float] = OUTDATED
) -> list[list[Audit]]:
    """Rounds of 16 audits of attempts that are good as `weights` have it, judged by `said`."""
    found = []
    for _ in range(rounds):
        shown = [{name: float(rng.random() < 0.5) for name in weights} for _ in range(16)]
        found.append(
            [
                Audit(items, judge_items(said, items), float(rng.random() < judge_items(weights, items)))
                for items in shown
            ]
        )
    return found


def test_a_score_is_the_sigmoid_of_the_weighted_items() -> None:
    assert judge_items({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": -0.5}) == 0.5
    assert judge_items({"a": math.log(3)}, {"a": 1.0, "unknown": 1.0}) == pytest.approx(0.75)
    assert 0.0 < judge_items({"a": -1e9}, {"a": 1.0}) < judge_items({"a": 1e9}, {"a": 1.0}) <= 1.0


def test_one_good_audit_moves_one_weight_to_where_its_pull_equals_the_prior_s() -> None:
    """L'(w) = w - (1 - sigmoid(w)) = 0 under N(0, 1): w = 0.4012; its curvature is 1 + p (1 - p) = 1.2402."""
    fitted = fit_weights([Audit({"a": 1.0}, 0.5, 1.0)], prior={"a": 0.0}, tau=1.0)
    weight = fitted.weights["a"]
    assert weight == pytest.approx(0.40106, abs=1e-4)
    assert weight == pytest.approx(1.0 - judge_items(fitted.weights, {"a": 1.0}), abs=1e-9)
    assert fitted.stds["a"] == pytest.approx(1.0 / math.sqrt(1.0 + weight * (1.0 - weight)), abs=1e-6)


def test_two_wide_audits_against_a_rule_turn_it_round() -> None:
    fitted = fit_weights([Audit({"a": 1.0}, 0.8, 0.0)] * 2, prior={"a": 1.5}, tau=3.0)
    assert fitted.weights["a"] < 0.0


def test_without_audits_the_prior_stays() -> None:
    fitted = fit_weights([], prior=OUTDATED, tau=2.0)
    assert fitted.weights == OUTDATED
    assert fitted.stds == pytest.approx(dict.fromkeys(OUTDATED, 2.0))


@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan])
def test_a_prior_without_width_is_refused(tau: float) -> None:
    with pytest.raises(MetaError, match="tau must be above 0"):
        fit_weights([], prior={}, tau=tau)


@pytest.mark.parametrize(("said", "truth"), [(1.1, 0.0), (0.0, -0.1), (math.nan, 0.0)])
def test_an_audit_out_of_range_is_refused(said: float, truth: float) -> None:
    with pytest.raises(MetaError, match="must lie in"):
        Audit({}, said, truth)


@settings(deadline=None)
@given(AUDITS, WEIGHTS, st.floats(0.3, 5))
def test_at_the_mode_the_gradient_is_nothing(audits: list[Audit], prior: dict[str, float], tau: float) -> None:
    fitted = fit_weights(audits, prior=prior, tau=tau)
    for name, weight in fitted.weights.items():
        pull = (weight - prior.get(name, 0.0)) / tau**2
        pull += math.fsum(
            (judge_items(fitted.weights, audit.items) - audit.truth) * audit.items.get(name, 0.0) for audit in audits
        )
        assert pull == pytest.approx(0.0, abs=1e-6)
        assert 0.0 < fitted.stds[name] <= tau * (1 + 1e-9)


@settings(deadline=None)
@given(AUDITS, WEIGHTS, st.randoms(use_true_random=False))
def test_the_order_of_audits_does_not_matter(audits: list[Audit], prior: dict[str, float], rng: random.Random) -> None:
    shuffled = rng.sample(audits, len(audits))
    there, back = fit_weights(audits, prior=prior), fit_weights(shuffled, prior=prior)
    assert there.weights == pytest.approx(back.weights, abs=1e-6)


@pytest.mark.parametrize(("auc", "gate"), [(None, 0.0), (0.2, 0.0), (0.5, 0.0), (0.75, 0.25), (1.0, 1.0)])
def test_the_gate_opens_with_the_auc(auc: float | None, gate: float) -> None:
    assert gate_factor(auc) == gate


def test_what_is_foretold_of_a_round_knows_only_earlier_ones() -> None:
    rounds = draw_rounds(random.Random(0), 4)
    told = foretell(rounds, prior=OUTDATED)
    assert told[0] == [judge_items(OUTDATED, audit.items) for audit in rounds[0]]
    turned = [*rounds[:3], [Audit(audit.items, audit.said, 1.0 - audit.truth) for audit in rounds[3]]]
    assert foretell(turned, prior=OUTDATED) == told
    assert foretell([rounds[0][::-1], *rounds[1:]], prior=OUTDATED)[1] == pytest.approx(told[1], abs=1e-6)


def test_an_outdated_manager_is_refitted_and_trusted_more_with_every_round() -> None:
    rounds = draw_rounds(random.Random(1), 10)
    found = refit(rounds, prior=OUTDATED)
    assert found.applies
    assert found.fit.weights["a"] > 0.5 > -0.5 > found.fit.weights["b"]
    assert (found.candidate.value or 0) > (found.present.value or 1) + 0.2
    assert found.gate == gate_factor(found.candidate.value) > 0.1
    assert found.words.startswith("not worse: AUC")


def test_for_two_rounds_a_manager_s_word_counts_only_where_it_is_audited() -> None:
    rounds = draw_rounds(random.Random(2), 2)
    first, second = refit(rounds[:1], prior=OUTDATED), refit(rounds, prior=OUTDATED)
    assert first.gate == 0.0
    assert "only where it is audited" in first.words
    assert second.gate == gate_factor((second.candidate if second.applies else second.present).value)
    assert (
        refit(rounds[1:], prior=OUTDATED, past_rounds=1).words
        == refit(rounds[1:], prior=OUTDATED).words.partition(";")[0]
    )


def test_a_fit_that_orders_worse_than_the_manager_does_is_refused() -> None:
    """The manager sees what no item shows; refitting would only know the items."""
    rng = random.Random(3)
    rounds = []
    for _ in range(6):
        truths = [float(rng.random() < 0.5) for _ in range(16)]
        rounds.append([Audit({"a": rng.random()}, 0.9 if truth else 0.1, truth) for truth in truths])
    found = refit(rounds, prior={"a": 0.0})
    assert not found.applies
    assert found.words.startswith("not shown to be as good")
    assert found.gate == 1.0


def test_too_few_audits_change_nothing() -> None:
    found = refit([[Audit({"a": 1.0}, 0.9, 1.0)] * 20], prior={"a": 1.0}, past_rounds=5)
    assert not found.applies
    assert found.gate == 0.0
    assert found.words == "wanted 4 good and as many bad audits, found 20 and 0"


def fall_of(since: Sequence[Audit], before: Mapping[str, float], **changes: object) -> tuple[bool, str]:
    former = [judge_items(before, audit.items) for audit in since]
    found = find_fall(since, former=former, **{"promised": 0.9} | changes)  # type: ignore[arg-type]
    return found.rolls_back, found.words


BACKWARDS = [Audit({"a": truth}, 1.0 - truth, truth) for truth in (0.0, 1.0)] * 10


def test_a_fit_that_fell_goes_when_the_weights_before_do_better() -> None:
    rolls_back, words = fall_of(BACKWARDS, {"a": 1.0})
    assert rolls_back
    assert words.startswith("fell: AUC 0.00")


def test_a_fit_stays_when_it_is_the_work_that_changed() -> None:
    mixed = BACKWARDS + [Audit({"a": audit.truth}, audit.truth, audit.truth) for audit in BACKWARDS[:4]]
    rolls_back, words = fall_of(mixed, {"a": -1.0})
    assert not rolls_back
    assert words.startswith("fell, but what was before would do worse")


def test_a_fit_stays_while_it_keeps_its_promise_or_little_is_known() -> None:
    good = [Audit({"a": audit.truth}, audit.truth, audit.truth) for audit in BACKWARDS]
    assert fall_of(good, {"a": 1.0})[1].startswith("holds")
    assert fall_of(BACKWARDS[:6], {"a": 1.0})[1].startswith("too few audits")


def test_harm_alone_takes_nothing_back_and_makes_a_doubtful_fall_one() -> None:
    harm = Difference(-0.5, -0.8, -0.2)
    good = [Audit({"a": audit.truth}, audit.truth, audit.truth) for audit in BACKWARDS]
    assert not fall_of(good, {"a": 1.0}, influence=harm)[0]
    rng = random.Random(4)
    noisy = [Audit({"a": audit.truth}, 0.3 * audit.truth + 0.7 * rng.random(), audit.truth) for audit in BACKWARDS]
    assert not fall_of(noisy, {"a": 1.0}, promised=0.9)[0]
    rolls_back, words = fall_of(noisy, {"a": 1.0}, promised=0.9, influence=harm)
    assert rolls_back
    assert words.endswith("its feedback made the work worse")
    assert not fall_of(noisy, {"a": 1.0}, influence=Difference(-0.5, -0.9, 0.1))[0]


def test_influence_is_the_gain_of_the_kinds_heard_over_that_of_the_others() -> None:
    """Heard: .25 -> .75 (+.5). Others: .5 -> .75 and .5 -> .25 (0). Difference .5."""
    heard = KindOutcomes(True, [0, 0, 0, 1], [1, 1, 1, 0])
    others = [KindOutcomes(False, [0, 1], [1, 1, 1, 0]), KindOutcomes(False, [1, 0], [1, 0, 0, 0])]
    found = estimate_influence([heard, *others])
    assert found.value == 0.5
    assert found.low < 0.5 < found.high
    assert estimate_influence([heard]).value is None
    assert estimate_influence([heard, KindOutcomes(False, [], [1.0])]).value is None


def test_each_kind_that_was_heard_has_an_influence_of_its_own() -> None:
    """Others gained .25; a gained .5 and b lost .5: .25 and -.75 more than they."""
    kinds = {
        "a": KindOutcomes(True, [0, 0, 0, 1], [1, 1, 1, 0]),
        "b": KindOutcomes(True, [1.0], [0.5]),
        "c": KindOutcomes(True, [], [1.0]),
        "d": KindOutcomes(False, [0, 1], [1, 1, 1, 0]),
    }
    assert trace_influence(kinds) == {"a": 0.25, "b": -0.75}
    assert trace_influence({name: kinds[name] for name in "abc"}) == {}


@given(st.integers(1, 6), st.integers(0, 9))
def test_more_outcomes_narrow_the_influence(times: int, seed: int) -> None:
    rng = random.Random(seed)
    one = [KindOutcomes(heard, [float(rng.random() < 0.5)] * 2, [0.0, 1.0]) for heard in (True, False)]
    more = [KindOutcomes(kind.heard, [*kind.before] * (times + 1), [*kind.after] * (times + 1)) for kind in one]
    few, many = estimate_influence(one), estimate_influence(more)
    assert few.value == many.value
    assert many.high - many.low < few.high - few.low


def test_a_policy_decides_how_wide_the_prior_is() -> None:
    rounds = draw_rounds(random.Random(5), 6)
    narrow = refit(rounds, prior=OUTDATED, policy=MetaPolicy(tau=0.05))
    assert narrow.fit.weights == pytest.approx(OUTDATED, abs=0.2)
