"""Reviews: look, and give one's judgement."""

import re
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, Limit, Match, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
ReviewId = Annotated[int, typer.Argument(min=1, help="Number of the review.")]
STEP = re.compile(r"(?:(\d{1,2}):)?(\d{1,5})(?:=([0-9.]+))?(?: (.*))?", re.DOTALL)


@app.command("list")
def list_reviews(
    project: Project = "",
    state: Annotated[str, typer.Option(help="open, closed, skipped or expired; `all` for every one.")] = "open",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List reviews, oldest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_reviews, limit, project=project, state="" if state == "all" else state)
    columns = ("id", "project", "task", "audience", "state", "claimed_by", "due_at", "reason")
    print_rows(rows, columns, as_json=as_json, empty="no reviews")


@app.command()
def show(review_id: ReviewId, as_json: AsJson = False) -> None:
    """Show a review with its task, the attempts and their steps."""
    with open_client() as client:
        review = client.get_review(review_id)
        task = client.get_task(review["task"])
        attempts = sorted(client.iterate(client.list_attempts, task_id=task["id"]), key=lambda row: int(row["index"]))
        for attempt in attempts:
            attempt["steps"] = list(client.iterate(client.list_steps, attempt_id=attempt["id"]))
    if as_json:
        print_json({**review, "task": task, "attempts": attempts})
        return
    print_row(review, as_json=False)
    print_row({"prompt": task["prompt"]}, as_json=False)
    for attempt in attempts:
        typer.echo()
        print_row({f"attempt {attempt['index']}": attempt["answer"] or attempt["error"]}, as_json=False)
        for step in attempt["steps"]:
            told = {f"step {step['index']}": step["text"], "kind": step["kind"], "tool result": step["tool_result"]}
            print_row(told, as_json=False)


@app.command()
def give(
    review_id: ReviewId,
    score: Annotated[float | None, typer.Option(min=0, max=1, help="Overall, 0 to 1.")] = None,
    text: Annotated[str, typer.Option(help="What was good or bad, in your words.")] = "",
    step: Annotated[
        list[str] | None,
        typer.Option(help="'[ATTEMPT:]STEP[=SCORE] [COMMENT]', e.g. '0:2=0.5 wrong rule'; repeatable."),
    ] = None,
    prefer: Annotated[int | None, typer.Option(min=0, help="The best attempt, from 0.")] = None,
    edited_answer: Annotated[str, typer.Option(help="What the answer should have been.")] = "",
    as_json: AsJson = False,
) -> None:
    """Close a review with your judgement."""
    steps = [read_step(words) for words in step or ()]
    if score is None and prefer is None and not (text or steps or edited_answer):
        raise typer.BadParameter("wanted a judgement: --score, --text, --step, --prefer or --edited-answer")
    with open_client() as client:
        given = client.give_feedback(
            review_id,
            score=score,
            text=text or None,
            steps=steps or None,
            preferred_attempt=prefer,
            edited_answer=edited_answer or None,
        )
    print_result(given, f"review {review_id} is closed", as_json=as_json)


@app.command()
def claim(
    review_id: Annotated[int | None, typer.Argument(min=1, help="Number of the review; default: the next one.")] = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Take a review: the next of the queue, or one you name."""
    with open_client() as client:
        if review_id is not None:
            taken = client.claim_review(review_id)
        else:
            taken = client.claim_next_review(project=choose_project(client, project))
    if taken or as_json:
        print_row(taken, as_json=as_json)
    else:
        typer.echo("no review waits")


@app.command()
def release(review_id: ReviewId) -> None:
    """Give a review back to the others."""
    with open_client() as client:
        client.release_review(review_id)
    typer.echo(f"review {review_id} is open to the others")


@app.command()
def skip(
    review_id: ReviewId,
    reason: Annotated[str, typer.Argument(help="Why.")],
    then: Annotated[str, typer.Option(help="nobody, later, others or expert.")] = "nobody",
    as_json: AsJson = False,
) -> None:
    """Pass a review over."""
    with open_client() as client:
        print_row(client.skip_review(review_id, reason=reason, then=then), as_json=as_json)


@app.command()
def undo(
    feedback_id: Annotated[int, typer.Argument(min=1, help="Number of the feedback.")], as_json: AsJson = False
) -> None:
    """Take your judgement back while its time for that lasts; the review is yours again."""
    with open_client() as client:
        print_row(client.undo_feedback(feedback_id), as_json=as_json)


@app.command()
def retract(
    feedback_id: Annotated[int, typer.Argument(min=1, help="Number of the feedback.")],
    reason: Annotated[str, typer.Argument(help="Reason for retracting.")],
    as_json: AsJson = False,
) -> None:
    """Let a judgement count for nothing from now on."""
    with open_client() as client:
        done = client.retract_feedback(feedback_id, reason=reason)
    print_result(done, done["effect"], as_json=as_json)


@app.command()
def keep(
    feedback_id: Annotated[int, typer.Argument(min=1, help="Number of the feedback.")],
    right: Annotated[str, typer.Option(help="What a right answer is, where the task does not say it.")] = "",
    match: Match = "",
    as_json: AsJson = False,
) -> None:
    """Make a person's correction a regression case, which later adapters are measured on."""
    with open_client() as client:
        made = client.keep_feedback(feedback_id, right=right, match=match)
    print_row(made, as_json=as_json)


@app.command()
def draft(review_id: ReviewId, as_json: AsJson = False) -> None:
    """Show what you typed into a review and have not sent."""
    with open_client() as client:
        kept = client.get_draft(review_id)
    if kept or as_json:
        print_row(kept, as_json=as_json)
    else:
        typer.echo("nothing is kept")


def read_step(text: str) -> dict[str, Any]:
    """'0:2=0.5 wrong rule' -> {"attempt": 0, "index": 2, "score": 0.5, "comment": "wrong rule"}.

    Raises:
        typer.BadParameter: it is nothing like that.
    """
    match = STEP.fullmatch(text)
    score = None
    if match is not None and match[3] is not None:
        try:
            score = float(match[3])
        except ValueError:
            match = None
    if match is None or (score is not None and not 0 <= score <= 1):
        raise typer.BadParameter(
            f"--step wants '[ATTEMPT:]STEP[=SCORE] [COMMENT]' with a score of 0 to 1, found {text!r}"
        )
    word: dict[str, Any] = {"attempt": int(match[1] or 0), "index": int(match[2])}
    if score is not None:
        word["score"] = score
    if match[4]:
        word["comment"] = match[4]
    return word
