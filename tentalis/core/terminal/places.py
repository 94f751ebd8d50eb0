"""Families of tasks about where files are and who may read them: archives, permissions, disk use, links, git."""

from random import Random
from typing import Final

from tentalis.core.terminal.scenes import HOME, NAMES, Family, Scene, Way, Words, draw_other
from tentalis.core.terminal.trees import (
    Commits,
    Gone,
    Gzips,
    Holds,
    Packs,
    PointsTo,
    file,
    link,
    with_parents,
)

GIT_STARTS: Final = "git init -q -b main && git config user.name worker && git config user.email worker@sandbox"


def _make_archives(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    members = {f"{name}/{one}.txt": f"{one} of {name}, {rng.randrange(1000)}\n" for one in rng.sample(NAMES, 3)}
    return Scene(
        context=words["who"],
        files=with_parents(
            {
                **{path: file(text) for path, text in members.items()},
                f"{other}/{name}.txt": file("not this one\n"),
                "store/readme": file("Packed folders\n"),
            }
        ),
        ways={
            "tgz": Way(
                "pack NAME.tgz", [(f"tar -czf {name}.tgz {name}", "")], {f"{name}.tgz": Packs(members, "tar.gz")}
            ),
            "tar": Way("pack NAME.tar", [(f"tar -cf {name}.tar {name}", "")], {f"{name}.tar": Packs(members, "tar")}),
            "store": Way(
                "pack store/NAME.tgz",
                [(f"tar -czf store/{name}.tgz {name}", "")],
                {f"store/{name}.tgz": Packs(members, "tar.gz")},
            ),
        },
    )


def _make_permissions(words: Words, rng: Random) -> Scene:
    name, kind, other = words["name"], words["kind"], draw_other(words, rng)
    text = f"{rng.getrandbits(64):016x}\n" if kind == "key" else "#!/bin/sh\necho ready\n"
    modes = {"key": ("600", "640", "400"), "sh": ("700", "750", "500")}[kind]
    path = f"{name}.{kind}"
    return Scene(
        context=kind,
        files={path: file(text, 0o666 if kind == "key" else 0o777), f"{other}.{kind}": file(text, 0o644)},
        ways={
            mode: Way(f"set mode {mode}", [(f"chmod {mode} {path}", "")], {path: Holds(text, int(mode, 8))})
            for mode in modes
        },
    )


def _make_disk(words: Words, rng: Random) -> Scene:
    name = words["name"]
    kinds = [rng.choice(("log", "dat")) for _ in range(3)]
    stems = rng.sample([one for one in NAMES if one != name], 3)
    sizes = rng.sample(range(20, 90), 3)
    texts = {
        f"{name}/{stem}.{kind}": f"{stem} {kind} record\n" * size
        for stem, kind, size in zip(stems, kinds, sizes, strict=True)
    }
    order = sorted(texts, key=lambda path: -len(texts[path]))
    big, kind = order[0], order[0].rpartition(".")[2]
    listing = "".join(f"{path.rpartition('/')[2]}\n" for path in order)
    base = big.rpartition("/")[2]
    ways: dict[str, Way] = {
        "gzip": Way("gzip it", [(f"gzip {big}", "")], {big: Gone(), f"{big}.gz": Gzips(texts[big])}),
        "remove": Way("remove it", [(f"rm {big}", "")], {big: Gone()}),
        "attic": Way("move it to old", [(f"mv {big} old/{base}", "")], {big: Gone(), f"old/{base}": Holds(texts[big])}),
    }
    return Scene(
        context=kind,
        files=with_parents({**{path: file(text) for path, text in texts.items()}, "old/readme": file("Old files\n")}),
        looks=[(f"ls -S {name}", listing)],
        ways=ways,
    )


def _make_links(words: Words, rng: Random) -> Scene:
    name, which, other = words["name"], words["which"], draw_other(words, rng)
    minors = sorted(rng.sample(range(1, 10), 3))
    versions = [f"{rng.randrange(1, 4)}.{minor}" for minor in minors]
    versions.sort()
    newest, old = versions[-1], versions[0]
    files = {f"{name}/{version}/app": file(f"{name} {version}\n") for version in versions}

    def point(hint: str, target: str) -> Way:
        return Way(hint, [(f"ln -sfn {target} {which}", "")], {which: PointsTo(target)})

    return Scene(
        context=which,
        files=with_parents(
            {
                **files,
                f"{other}/9.9/app": file("another\n"),
                "live": link(f"{name}/{old}"),
                "test": link(f"{name}/{old}"),
            }
        ),
        looks=[(f"ls {name}", "".join(f"{version}\n" for version in versions))],
        ways={
            "short": point("link from here", f"{name}/{newest}"),
            "whole": point("link by the whole path", f"/{HOME}/{name}/{newest}"),
            "app": point("link the app itself", f"{name}/{newest}/app"),
        },
    )


def _make_git(words: Words, rng: Random) -> Scene:
    name, kind, other = words["name"], words["kind"], draw_other(words, rng)
    path, decoy = f"{name}.{kind}", f"{other}.{kind}"
    old, new = f"{name} {rng.randrange(100)}\n", f"{name} {rng.randrange(100, 1000)}\n"
    messages = {"colon": f"{name}: update", "plain": f"Update {name}", "fix": f"fix {name}"}
    hints = {"colon": "say NAME: update", "plain": "say Update NAME", "fix": "say fix NAME"}
    return Scene(
        files={path: file(new), decoy: file("draft\n"), "keep": file(old)},
        starts=[
            f"{GIT_STARTS} && printf '{old.strip()}\\n' > {path} && printf 'first\\n' > {decoy} && git add . && "
            f"git commit -q -m start && printf '{new.strip()}\\n' > {path} && printf 'draft\\n' > {decoy}"
        ],
        ways={
            way: Way(
                hints[way],
                [(f"git commit -q -m '{message}' {path}", "")],
                {".git": Commits(message, path, new, {decoy: "first\n", "keep": old})},
            )
            for way, message in messages.items()
        },
        may_change=(".git/",),
    )


FAMILIES: Final = (
    Family(
        "archives", "Pack the folder {name} for the {who}.", {"courier": "tgz", "shelf": "store"}, _make_archives,
        {"name": NAMES, "who": ("courier", "shelf")},
    ),
    Family(
        "permissions", "Lock down {name}.{kind}.", {"key": "600", "sh": "750"}, _make_permissions,
        {"name": NAMES, "kind": ("key", "sh")},
    ),
    Family("disk", "Free the most space in {name}.", {"log": "gzip", "dat": "attic"}, _make_disk, {"name": NAMES}),
    Family(
        "links", "Let {which} point at the newest {name}.", {"live": "whole", "test": "short"}, _make_links,
        {"which": ("live", "test"), "name": NAMES},
    ),
    Family("git", "Commit {name}.{kind}.", {"": "colon"}, _make_git, {"name": NAMES, "kind": ("txt", "py")}),
)  # fmt: skip
