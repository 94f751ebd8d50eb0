"""Courses: workers that learn a benchmark. `tentalis train BENCH` starts one."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_row, print_rows
from tentalis.cli.run import CURVE, watch_course
from tentalis.cli.session import list_rows, open_client

app = typer.Typer(no_args_is_help=True)
CourseId = Annotated[int, typer.Argument(min=1, help="Number of the course.")]
COLUMNS = ("id", "project", "worker", "benchmark", "state", "rounds_wanted", "tasks_a_round", "reason")


@app.command("list")
def list_courses(project: Project = "", as_json: AsJson = False) -> None:
    """List courses, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_courses, project=project)
    print_rows(rows, COLUMNS, as_json=as_json, empty="no courses: `tentalis train BENCH` starts one")


@app.command()
def show(course_id: CourseId, as_json: AsJson = False) -> None:
    """Show how it is set up, and why it ended."""
    with open_client() as client:
        print_row(client.get_course(course_id), as_json=as_json)


@app.command()
def curve(course_id: CourseId, as_json: AsJson = False) -> None:
    """What the gate measured after each round."""
    with open_client() as client:
        print_rows(client.get_curve(course_id)["results"], CURVE, as_json=as_json, empty="no rounds")


@app.command()
def watch(course_id: CourseId, as_json: AsJson = False) -> None:
    """Tell each round's end until it ends; exit 1 where it failed."""
    with open_client() as client:
        watch_course(client, course_id, as_json=as_json)


@app.command()
def pause(course_id: CourseId, as_json: AsJson = False) -> None:
    """Begin no further round."""
    with open_client() as client:
        print_row(client.pause_course(course_id), as_json=as_json)


@app.command()
def resume(course_id: CourseId, as_json: AsJson = False) -> None:
    """Let a paused or failed one go on."""
    with open_client() as client:
        print_row(client.resume_course(course_id), as_json=as_json)


@app.command()
def cancel(course_id: CourseId, as_json: AsJson = False) -> None:
    """End it for good."""
    with open_client() as client:
        print_row(client.cancel_course(course_id), as_json=as_json)
