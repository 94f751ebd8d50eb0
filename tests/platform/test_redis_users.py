"""What each kind of process may do in Redis, asked of a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from redis.exceptions import NoPermissionError

from gpu_workers.celery import make_app
from tentalis.celery import app
from tentalis.platform import redis_users
from tests.local_server import find_free_port
from tests.pipeline.line import Broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    server = Broker(tmp_path_factory.mktemp("redis"), find_free_port())
    server.start()
    yield server
    server.stop()


def connect(broker: Broker, user: str) -> "redis.Redis":
    return redis.Redis.from_url(url(broker, user))


def url(broker: Broker, user: str) -> str:
    return redis_users.url_of(user, redis_users.password_of(user, broker.password), broker.url)


FORBIDDEN_TO_THE_BOX = [
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET requirepass",
    "CONFIG SET dir /tmp",
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "MONITOR",
    "SHUTDOWN NOSAVE",
    "ACL LIST",
    "ACL SETUSER box +@all",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "MODULE LIST",
    "REPLICAOF 127.0.0.1 1",
    "SAVE",
    "INFO",
    "SCRIPT FLUSH",
    "PUBLISH /0.celery.pidbox x",
    "PUBLISH tentalis:/0.celery.pidbox x",
    "SUBSCRIBE tentalis:live",
    "PSUBSCRIBE *",
    "GET tentalis:throttle:caller:1",
    "DEL tentalis:throttle:caller:1",
    "INCR tentalis:gateway:token:1",
    "DEL tentalis:gateway:token:1",
    "LPUSH tentalis:control x",
    "LPUSH tentalis:workers x",
    "RPUSH tentalis:scorers x",
    "BRPOP tentalis:control 1",
    "LLEN tentalis:workers",
    "LRANGE tentalis:letters 0 -1",
    "BRPOP tentalis:letters 1",
    "HGET tentalis:unacked x",
    "HDEL tentalis:unacked x",
    "ZADD tentalis:unacked_index 1 x",
    "SREM tentalis:_kombu.binding.control x",
    "SADD tentalis:_kombu.binding.celery.pidbox x",
    "SET other 1",
    "EVAL return(redis.call('flushall')) 0",
    "EVAL return(redis.call('get','tentalis:throttle:x')) 0",
]


@pytest.mark.parametrize("command", FORBIDDEN_TO_THE_BOX)
def test_the_box_may_not(broker: Broker, command: str) -> None:
    with connect(broker, "box") as client, pytest.raises(redis.ResponseError):
        client.execute_command(*command.split(" "))


@pytest.mark.parametrize("user", ["web", "queues", "gateway", "box", "health"])
@pytest.mark.parametrize("command", ["FLUSHALL", "CONFIG GET *", "KEYS *", "ACL LIST", "MONITOR", "SHUTDOWN"])
def test_nobody_clears_configures_or_watches(broker: Broker, user: str, command: str) -> None:
    with connect(broker, user) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split(" "))


def test_the_gateway_reaches_no_queue(broker: Broker) -> None:
    with connect(broker, "gateway") as client:
        assert client.incrbyfloat("tentalis:gateway:token:1", 1.0) == 1.0
        for command in ("LPUSH tentalis:control x", "GET tentalis:unacked", "PUBLISH tentalis:live x"):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command.split(" "))


def test_the_box_writes_letters(broker: Broker) -> None:
    with connect(broker, "box") as client:
        assert client.lpush("tentalis:letters", "x") >= 1


def test_the_box_takes_what_the_queues_send_it_and_gives_back_what_it_did_not_do(broker: Broker) -> None:

    with redis.Redis.from_url(broker.url) as admin:
        admin.acl_log_reset()
    sender = Celery("sender", broker=url(broker, "queues"))
    sender.conf.broker_transport_options = app.conf.broker_transport_options
    sender.send_task("gpu.train", args=[1], queue="gpu", retry=False)
    sender.send_task("gpu.train", args=[2], queue="gpu", retry=False)
    box = make_app(url(broker, "box"))
    with box.connection() as connection, connection.SimpleQueue("gpu") as queue:
        first = queue.get(timeout=20)
        assert first.payload[0] == [1]
        first.ack()
        queue.get(timeout=20).requeue()
        assert queue.get(timeout=20).payload[0] == [2]
    with redis.Redis.from_url(broker.url) as admin:
        assert [(entry["username"], entry["reason"], entry["object"]) for entry in admin.acl_log()] == []


def test_another_users_password_opens_no_other_door(broker: Broker) -> None:
    wrong = redis_users.url_of("queues", redis_users.password_of("box", broker.password), broker.url)
    with redis.Redis.from_url(wrong) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_the_acl_file_switches_the_default_user_off_and_holds_no_password(tmp_path: Path) -> None:
    environ = {f"REDIS_{user.upper()}_PASSWORD": f"password-of-{user}" for user in redis_users.RULES}
    file = tmp_path / "users.acl"
    assert redis_users.main([str(file)], environ) == 0
    content = file.read_text()
    assert content.startswith("user default off\n")
    assert "password-of" not in content
    assert redis_users.main([str(file)], environ | {"REDIS_BOX_PASSWORD": ""}) == 2
