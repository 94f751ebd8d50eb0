"""TypeScript types of the REST API: made by openapi-typescript, and a client that uses them compiles."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

pytestmark = [pytest.mark.typescript, pytest.mark.slow]
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
OPTIONS = {
    "strict": True,
    "noEmit": True,
    "module": "esnext",
    "moduleResolution": "bundler",
    "target": "es2022",
    "types": [],
    "lib": ["es2022", "dom"],
}
CLIENT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./tentalis";

const api = createClient<paths>({ baseUrl: "http://127.0.0.1:8000", headers: { Authorization: "Bearer tnt_x" } });

export async function submit(prompt: string): Promise<number> {
  const { data, error } = await api.POST("/api/v1/tasks", {
    body: { project: "shop", prompt, environment: "chat" },
  });
  if (error) throw new Error(error.detail);
  const task: components["schemas"]["TaskOut"] = data;
  return task.id;
}

export async function wait(id: number): Promise<string> {
  const asked = { path: { id: String(id) }, query: { wait: 20, seen: "queued" as const } };
  const { data } = await api.GET("/api/v1/tasks/{id}", { params: asked });
  return data?.state ?? "";
}

// @ts-expect-error: there is no such path
void api.GET("/api/v1/nothing");
// @ts-expect-error: a task takes a prompt
void api.POST("/api/v1/tasks", { body: { project: "shop", environment: "chat" } });
"""


def run(place: Path, *argv: str) -> None:
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"[-3000:]


def test_a_typescript_client_compiles_against_the_types_of_the_schema(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm here")
    (tmp_path / "package.json").write_text('{"private": true}')
    run(tmp_path, "npm", "install", "--no-fund", "--no-audit", "--loglevel=error", *PACKAGES)
    call_command("spectacular", "--format", "openapi-json", "--file", str(tmp_path / "openapi.json"))
    run(tmp_path, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "tentalis.d.ts")
    (tmp_path / "client.ts").write_text(CLIENT)
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": ["client.ts"]}))
    run(tmp_path, "node_modules/.bin/tsc", "-p", ".")
