"""What the references say of the same answers. Run as `graders_peer.py PART CASES OUT` by the Python that has them."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def translate(cases: Any) -> Any:
    from sacrebleu.metrics import BLEU, CHRF, TER  # type: ignore[import-not-found]

    metrics = {
        "bleu": BLEU(effective_order=True),
        "bleu none": BLEU(effective_order=True, tokenize="none"),
        "bleu char": BLEU(effective_order=True, tokenize="char"),
        "bleu lowercase": BLEU(effective_order=True, lowercase=True),
        "chrf": CHRF(),
        "chrf++": CHRF(word_order=2),
        "chrf lowercase": CHRF(lowercase=True),
        "ter": TER(),
        "ter case": TER(case_sensitive=True),
    }
    sentences = [
        {name: metric.sentence_score(text, references).score for name, metric in metrics.items()}
        for text, references in cases["sentences"]
    ]
    whole = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    corpora = [
        {name: metric.corpus_score(texts, [references]).score for name, metric in whole.items()}
        for texts, references in cases["corpora"]
    ]
    return {"sentences": sentences, "corpora": corpora}


def compare_math(cases: Any) -> Any:
    from math_verify import parse, verify

    return [bool(verify(parse(reference), parse(answer))) for reference, answer in cases]


def compare_squad(cases: Any) -> Any:
    from transformers.data.metrics.squad_metrics import compute_exact, compute_f1

    return [[compute_exact(text, answer), compute_f1(text, answer)] for text, answer in cases]


def measure(cases: Any) -> Any:
    import numpy
    from sklearn.metrics import (  # type: ignore[import-untyped]
        average_precision_score,
        jaccard_score,
        label_ranking_average_precision_score,
        ndcg_score,
        precision_score,
        recall_score,
    )

    said: dict[str, list[float]] = {"ndcg": [], "map": [], "mrr": [], "precision": [], "recall": [], "iou": []}
    for gains, scores, k in cases["rankings"]:
        relevant = [int(gain > 0) for gain in gains]
        said["ndcg"].append(float(ndcg_score([gains], [scores], k=k)))
        said["map"].append(float(average_precision_score(relevant, scores)))
        first = numpy.argmax([score if hit else -1 for hit, score in zip(relevant, scores, strict=True)])
        alone = [int(place == first) for place in range(len(gains))]
        said["mrr"].append(float(label_ranking_average_precision_score([alone], [scores])))
        kept = set(numpy.argsort(scores)[::-1][:k].tolist())
        picked = [int(place in kept) for place in range(len(gains))]
        said["precision"].append(float(precision_score(relevant, picked)))
        said["recall"].append(float(recall_score(relevant, picked)))
    for one, other, size in cases["boxes"]:
        masks = []
        for x1, y1, x2, y2 in (one, other):
            mask = numpy.zeros((size, size), dtype=int)
            mask[y1:y2, x1:x2] = 1
            masks.append(mask.ravel())
        said["iou"].append(float(jaccard_score(*masks)))
    return said


def apply_patches(cases: Any) -> Any:
    """What git makes of the files; None where it refuses."""
    said: list[dict[str, str] | None] = []
    with tempfile.TemporaryDirectory() as place:
        for number, (files, patch) in enumerate(cases):
            root = Path(place) / str(number)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            argv = ["git", "apply", "--whitespace=nowarn", "-"]
            done = subprocess.run(argv, cwd=root, input=patch.encode(), capture_output=True, check=False)
            left = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
            said.append(None if done.returncode else left)
    return said


PARTS: dict[str, Callable[[Any], Any]] = {
    "translation": translate,
    "math": compare_math,
    "squad": compare_squad,
    "measures": measure,
    "diff": apply_patches,
}


if __name__ == "__main__":
    part, source, out = sys.argv[1:]
    Path(out).write_text(json.dumps(PARTS[part](json.loads(Path(source).read_text()))))
