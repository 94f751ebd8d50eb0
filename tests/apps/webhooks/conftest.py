"""A project whose owner has webhooks, and who receives them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.webhooks.models import Webhook
from apps.webhooks.posting import Poster
from apps.webhooks.services import create_webhook
from tests.apps.webhooks.receiver import Receiver, running_receiver
from tests.factories import make_project, make_user

Make = Callable[..., Webhook]


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with running_receiver(tmp_path_factory.mktemp("receiver") / "log.jsonl") as running:
        yield running


@pytest.fixture(scope="session")
def poster() -> Iterator[Poster]:
    poster = Poster()
    yield poster
    poster.close()


@pytest.fixture
def shop(transactional_db: None) -> Project:
    return make_project()


@pytest.fixture
def owner(shop: Project) -> User:
    """Owns the project, and is an admin who may allow private addresses."""
    user = make_user("olga", is_superuser=True)
    Member.objects.create(project=shop, user=user, role=Role.OWNER)
    return user


@pytest.fixture
def make(shop: Project, owner: User, receiver: Receiver) -> Make:
    """`make("/ok", kinds=[…])`: a webhook of the receiver."""

    def build(path: str, **values: object) -> Webhook:
        values = {"allow_private": True} | values
        return create_webhook(project=shop, url=receiver.url + path, by=owner, **values)[0]  # type: ignore[arg-type]

    return build


@pytest.fixture
def log(receiver: Receiver) -> Path:
    """The receiver's log, empty."""
    receiver.log.write_text("")
    return receiver.log
