import assert from "node:assert/strict";
import { test } from "node:test";
import { findTurnType, Turns } from "./turns.ts";

test("only what a person asked is a main turn", () => {
  assert.equal(findTurnType({ trigger: "user" }), "main");
  assert.equal(findTurnType({ trigger: "user", inputProvenance: { kind: "external_user" } }), "main");
  for (const trigger of ["heartbeat", "cron", "memory", "overflow", "manual"]) {
    assert.equal(findTurnType({ trigger }), "side", trigger);
  }
  for (const kind of ["inter_session", "internal_system"]) {
    assert.equal(findTurnType({ trigger: "user", inputProvenance: { kind } }), "side", kind);
  }
});

test("two sessions at work at once keep their own headers", () => {
  const turns = new Turns();
  turns.begin({ sessionId: "a", trigger: "user" });
  turns.begin({ sessionId: "b", trigger: "heartbeat" });
  assert.deepEqual(turns.headersFor("a"), { "X-Session-Id": "a", "X-Turn-Type": "main" });
  assert.deepEqual(turns.headersFor("b"), { "X-Session-Id": "b", "X-Turn-Type": "side" });
  turns.end({ sessionId: "a" });
  assert.equal(turns.headersFor("a")["X-Turn-Type"], "side");
});

test("summing up in the middle of a turn is a side turn", () => {
  const turns = new Turns();
  turns.begin({ sessionId: "a", trigger: "user" });
  turns.compact({ sessionId: "a" }, true);
  assert.equal(turns.headersFor("a")["X-Turn-Type"], "side");
  turns.compact({ sessionId: "a" }, false);
  assert.equal(turns.headersFor("a")["X-Turn-Type"], "main");
});

test("where a summary is begun and never said to be done, the person's next turn is a main turn", () => {
  const turns = new Turns();
  turns.begin({ sessionId: "a", trigger: "user" });
  turns.compact({ sessionId: "a" }, true); // OpenClaw says nothing of one that it skips, gives up or that fails
  turns.end({ sessionId: "a" });
  turns.begin({ sessionId: "a", trigger: "user" });
  assert.equal(turns.headersFor("a")["X-Turn-Type"], "main");
});

test("a task of the platform gives the session its name", () => {
  const turns = new Turns();
  turns.begin({ sessionId: "uuid", sessionKey: "agent:main:tentalis:17:0af3", trigger: "user" });
  assert.deepEqual(turns.headersFor("uuid"), {
    "X-Session-Id": "tentalis:17:0af3",
    "X-Turn-Type": "main",
    "X-Tentalis-Task": "17",
  });
  assert.equal(turns.close({ sessionId: "uuid" }), "tentalis:17:0af3");
  assert.deepEqual(turns.headersFor("uuid"), { "X-Session-Id": "uuid" });
});

test("of a session whose turns nobody tells us, nothing is claimed but its name", () => {
  const turns = new Turns();
  assert.deepEqual(turns.headersFor("a"), { "X-Session-Id": "a" });
  assert.deepEqual(turns.headersFor(undefined), {});
});

test("sessions do not pile up", () => {
  const turns = new Turns();
  for (let number = 0; number <= 10_000; number++) turns.begin({ sessionId: `s${number}`, trigger: "user" });
  assert.deepEqual(turns.headersFor("s0"), { "X-Session-Id": "s0" });
  assert.equal(turns.headersFor("s10000")["X-Turn-Type"], "main");
});
