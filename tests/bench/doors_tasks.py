"""Three tasks in Harbor's form, as strangers write them, and ways to work on them."""

from pathlib import Path

GREETING = {
    "instruction.md": "Write a greeting of the world into answer.txt.\n",
    "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nENV GREETING=hello\nCOPY . .\n",
    "environment/note.txt": "A greeting is what GREETING says.\n",
    "tests/test.sh": """#!/bin/bash
echo 0 > /logs/verifier/reward.txt
[ "$(cat answer.txt)" = "$GREETING world" ] && echo 1 > /logs/verifier/reward.txt
""",
    "solution/solve.sh": '#!/bin/bash\necho "$GREETING world" > answer.txt\n',
}
SUMS = {
    "instruction.md": "Write the sum of each line of numbers.txt into sums.txt, a line each.\n",
    "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY . .\n",
    "environment/numbers.txt": "1 2\n3 4\n10 20\n7 7\n",
    "tests/test.sh": "#!/bin/bash\npython3 /tests/compare.py\n",
    "tests/compare.py": """from pathlib import Path

wanted = [str(sum(map(int, line.split()))) for line in Path("/app/numbers.txt").read_text().splitlines()]
place = Path("/app/sums.txt")
found = place.read_text().splitlines() if place.exists() else []
right = sum(one == other for one, other in zip(wanted, found))
Path("/logs/verifier/reward.txt").write_text(str(right / len(wanted)))
""",
    "solution/solve.sh": "#!/bin/bash\nawk '{print $1 + $2}' numbers.txt > sums.txt\n",
}
CLEANED = {
    "instruction.md": "Sort names.txt, each name once, into sorted.txt.\n",
    "environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\nCOPY . .\n",
    "environment/names.txt": "Mo\nAda\nMo\nKim\n",
    "tests/test.sh": """#!/bin/bash
sorted=0; once=0
[ -s sorted.txt ] && sort -c sorted.txt 2>/dev/null && sorted=1
[ -s sorted.txt ] && [ "$(sort -u sorted.txt)" = "$(sort -u names.txt)" ] && [ -z "$(uniq -d sorted.txt)" ] && once=1
echo 0.25 > /logs/verifier/reward.txt
echo "{\\"reward\\": $(( sorted * once )), \\"sorted\\": $sorted}" > /logs/verifier/reward.json
""",
    "solution/solve.sh": "#!/bin/bash\nsort -u names.txt > sorted.txt\n",
}
TASKS = {"greeting": GREETING, "sums": SUMS, "cleaned": CLEANED}
WAYS = (
    {"answer.txt": "hello world\n", "sums.txt": "3\n7\n30\n14\n", "sorted.txt": "Ada\nKim\nMo\n"},
    {"answer.txt": "hello\n", "sums.txt": "3\n7\n3\n", "sorted.txt": "Ada\nKim\nMo\nMo\n"},
    {"answer.txt": "no\n", "sums.txt": "none\n", "sorted.txt": "Mo\nAda\n"},
)
"""What lies in the working directory at the end: right, partly right, wrong."""


def write_tasks(place: Path) -> list[Path]:
    for name, files in TASKS.items():
        told = "[verifier]\ntimeout_sec = 30.0\n\n[agent]\ntimeout_sec = 30.0\n"
        for path, text in {"task.toml": told, **files}.items():
            file = place / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return [place / name for name in TASKS]
