"""Tasksets: what workers are measured on."""

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.api.filters import filter_by
from apps.api.lookup import refuse
from apps.api.permissions import by_right, current_user, require_scope
from apps.api.serializers.tasksets import AddedOut, ItemOut, ItemsIn, SplitIn, SplitOut, TasksetIn, TasksetOut
from apps.api.serializers.work import PACKED
from apps.api.views.base import ResourceViewSet, command
from apps.base.errors import BadInputError
from apps.base.packed_rows import read_base64, unpack_rows
from apps.conversations import asked
from apps.evals.benchmarks import list_tried_rows, remove_item, remove_taskset
from apps.evals.models import Evaluation, Item, Taskset
from apps.evals.services import ItemRow, draw_rows, freeze_taskset, make_taskset, read_split
from apps.rollouts.items import add_to_taskset, divide, list_task_rows, make_item_rows, read_item_rows
from tentalis.core.task_files import guess_form

SPLIT = OpenApiParameter("split", str, enum=Item.Split.values, description="Items of this split alone.")
SOURCES = ("text", "tasks", "sessions", "count", "evaluation")


class TasksetViewSet(ResourceViewSet):
    """Named, versioned sets of tasks. A frozen version never changes: a change of it makes the next."""

    queryset = Taskset.objects.select_related("project")
    serializer_class = TasksetOut
    filterset_class = filter_by(Taskset, "name", "environment", "origin")
    rights: ClassVar = by_right(
        {
            Right.EVALS_READ: "list retrieve items item",
            Right.EVALS_WRITE: "create add_items remove_item split freeze destroy",
        }
    )

    @extend_schema(request=TasksetIn, responses={201: TasksetOut})
    def create(self, request: Request) -> Response:
        """Make an empty taskset."""
        project, body = self.read_placed(TasksetIn)
        return self.show(make_taskset(project=project, by=current_user(request), **body), 201)

    @extend_schema(responses=ItemOut(many=True), filters=False, parameters=[SPLIT])
    @action(detail=True, filterset_class=None, serializer_class=ItemOut)
    def items(self, request: Request, pk: str) -> Response:
        """Its items, newest first; the words of what is held out are for measuring and for nothing that learns."""
        self.extra_parameters = {"split"}
        taskset = self.get_object()
        rows = taskset.items.select_related("taskset")
        if (split := request.query_params.get("split")) is not None:
            rows = rows.filter(split=read_split(split))
        return self.show_page(rows, ItemOut)

    @extend_schema(request=ItemsIn, responses={201: AddedOut}, filters=False)
    @items.mapping.post
    def add_items(self, request: Request, pk: str) -> Response:
        """Add items, all of them or none. Nearly the same never stands on both sides of a split, and what something
        learnt from is not measured on: both are refused by line. Sessions take the scope `sessions:read` as well."""
        taskset = self.get_object()
        rows = self._read_rows(taskset, self.read_body(ItemsIn))
        made = add_to_taskset(
            project=taskset.project,
            name=taskset.name,
            environment=taskset.environment,
            rows=rows,
            by=current_user(request),
        )
        said = {"added": made.added, "repeated": made.repeated}
        return Response({"taskset": made.taskset.pk, "version": made.taskset.version, **said}, status=201)

    @extend_schema(responses=ItemOut, filters=False)
    @action(detail=True, url_path=r"items/(?P<item>[0-9]{1,18})", filterset_class=None, serializer_class=ItemOut)
    def item(self, request: Request, pk: str, item: str) -> Response:
        """One of its items."""
        return self.show(self._find_item(item))

    @extend_schema(request=None, responses={204: None}, filters=False)
    @item.mapping.delete
    def remove_item(self, request: Request, pk: str, item: str) -> Response:
        """Delete an item of a version that still changes and that nothing was measured on. Its words never change:
        other words are another item."""
        remove_item(item=self._find_item(item), by=current_user(request))
        return Response(status=204)

    def _find_item(self, number: str) -> Item:
        row: Item | None = self.get_object().items.select_related("taskset__project").filter(pk=number).first()
        if row is None:
            raise refuse("item", "item", number)
        return row

    def _read_rows(self, taskset: Taskset, body: dict[str, Any]) -> list[ItemRow]:
        found, split, user = [name for name in SOURCES if name in body], body["split"], current_user(self.request)
        if len(found) != 1:
            message = f"wanted one of {', '.join(SOURCES)}, found {', '.join(found) or 'none'}"
            raise BadInputError(message, errors={name: [message] for name in found or SOURCES[:1]})
        match found[0]:
            case "text":
                text, form = body["text"], body.get("form") or guess_form(body.get("name", ""), body["text"])
                if form == PACKED:
                    name, text = unpack_rows(read_base64(text, field="text"), field="text")
                    form = guess_form(name, text)
                return read_item_rows(
                    text, form=form, split=split, name=body.get("name", ""), checks=body.get("checks")
                )
            case "tasks":
                require_scope(self.request, Right.TASKS_READ)
                return list_task_rows(taskset.project, body["tasks"], split=split)
            case "sessions":
                require_scope(self.request, Right.SESSIONS_READ)
                require_right(user, taskset.project, Right.SESSIONS_READ)
                told = asked.make_rows(asked.require_asked(taskset.project, body["sessions"], by=user))
                return make_item_rows(told, split=split)
            case "evaluation":
                found_one = Evaluation.objects.filter(pk=body["evaluation"], project=taskset.project).first()
                if found_one is None:
                    raise BadInputError.at(
                        "evaluation", f"{taskset.project.slug} has no evaluation {body['evaluation']}"
                    )
                rows = list_tried_rows(found_one, outcome=body.get("outcome", "all"))
                return [row._replace(split=split) for row in rows]
            case _:
                return draw_rows(taskset.environment, count=body["count"], seed=body.get("seed", 0), split=split)

    @command(request=SplitIn, responses=SplitOut)
    def split(self, request: Request, pk: str) -> Response:
        """Put each item on a side by a hash of its words; nearly the same goes together, and what something learnt from
        stays with what may be trained on."""
        taskset = self.get_object()
        return Response(divide(taskset=taskset, by=current_user(request), **({"seed": 0} | self.read_body(SplitIn))))

    @extend_schema(request=None, responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a version with its items and the benchmarks on it; one that something was measured on is kept."""
        remove_taskset(taskset=self.get_object(), by=current_user(request))
        return Response(status=204)

    @command(responses=TasksetOut)
    def freeze(self, request: Request, pk: str) -> Response:
        """Let this version never change again; a change of it makes the next."""
        return self.show(freeze_taskset(taskset=self.get_object(), by=current_user(request)))
