"""Who may do what in Redis: a user for each kind of process, and what its work needs, no more.

`python -m tentalis.platform.redis_users FILE` writes the users as an ACL file, their passwords from the environment.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from tentalis.platform.derived import derive_password
from tentalis.platform.home import write_private_file

PREFIX = "tentalis:"
BOX_QUEUES = ("gpu", "cluster", "tinker")

CONNECTION = "+auth +hello +select +ping +echo +quit +reset +client|setinfo +client|setname +client|getname +client|id"
TRANSACTIONS = "+multi +exec +discard +watch +unwatch"
QUEUEING = (
    "+lpush +rpush +brpop +rpop +lpop +blpop +llen +lrange +del +exists +sadd +srem +smembers +sismember +scard "
    "+hset +hget +hdel +hlen +zadd +zrem +zrange +zrangebyscore +zrevrangebyscore +zcard +zscore "
    "+set +get +expire +pexpire +ttl +pttl +evalsha +eval +script|load +script|exists"
)
COUNTING = "+incr +incrby +incrbyfloat +decr +decrby +get +mget +set +expire +pexpire +del +ttl +pttl +exists +scan"
COUNTING += " +zadd +zrem +zcard +zcount +zrange +zremrangebyscore +evalsha +eval +script|load +script|exists"
LISTENING = "+subscribe +unsubscribe +psubscribe +punsubscribe +publish"

OURS = f"~{PREFIX}*"
RULES: Mapping[str, str] = {
    "web": f"{OURS} &{PREFIX}live* {CONNECTION} {TRANSACTIONS} {QUEUEING} {COUNTING} {LISTENING}",
    "queues": f"{OURS} {CONNECTION} {TRANSACTIONS} {QUEUEING} {COUNTING}",
    "gateway": f"~{PREFIX}gateway* ~{PREFIX}throttle* {CONNECTION} {TRANSACTIONS} {COUNTING}",
    "box": " ".join(
        [
            *(f"~{PREFIX}{queue} ~{PREFIX}{queue}\x06\x16*" for queue in BOX_QUEUES),
            *(f"~{PREFIX}_kombu.binding.{queue} ~{PREFIX}_kombu.binding_permanent.{queue}" for queue in BOX_QUEUES),
            f"~{PREFIX}box-unacked* %W~{PREFIX}letters {CONNECTION} {TRANSACTIONS} {QUEUEING}",
        ]
    ),
    "health": "+auth +hello +ping +client|setinfo",
}
"""User -> keys, channels and commands. Nobody may clear, configure or list the keys of the server, or watch it."""


def password_of(user: str, redis_password: str) -> str:
    """A user's password, which follows from the server's own and gives none of the others away."""
    return derive_password(redis_password, f"redis user {user}")


def write_user_lines(passwords: Mapping[str, str]) -> list[str]:
    """`user` lines of a configuration or an ACL file; passwords as their SHA-256."""
    return [
        f"user {user} on resetpass resetkeys resetchannels -@all "
        f"#{hashlib.sha256(passwords[user].encode()).hexdigest()} {rules}"
        for user, rules in RULES.items()
    ]


def url_of(user: str, password: str, url: str) -> str:
    """The same server as somebody else."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{host}"))


def main(argv: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Write the ACL file; each user's password is REDIS_<USER>_PASSWORD. The default user is switched off."""
    names = {user: f"REDIS_{user.upper()}_PASSWORD" for user in RULES}
    if len(argv) != 1 or (missing := sorted(name for name in names.values() if not environ.get(name))):
        wanted = f"unset: {', '.join(missing)}" if len(argv) == 1 else "wanted one file to write"
        sys.stderr.write(f"usage: python -m tentalis.platform.redis_users FILE; {wanted}\n")
        return 2
    lines = ["user default off", *write_user_lines({user: environ[name] for user, name in names.items()})]
    write_private_file(Path(argv[0]), "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
