-- A long history for the project and worker given: tasks done, attempts made, rollouts used, batches trained on, audited.
-- psycopg parameters: project, worker, admin (ids); tasks, group_size, batch_tasks (counts).
-- The seals' hashes are made up: this database is for measuring and is never verified.
CREATE TEMP TABLE span AS SELECT
    (SELECT COALESCE(max(id), 0) FROM tasks_task) AS task,
    (SELECT COALESCE(max(id), 0) FROM inference_exchange) AS exchange,
    (SELECT COALESCE(max(id), 0) FROM tasks_attempt) AS attempt,
    (SELECT COALESCE(max(id), 0) FROM rollouts_rollout) AS rollout,
    (SELECT COALESCE(max(id), 0) FROM rollouts_batch) AS batch,
    (SELECT COALESCE(max(number), 0) FROM rollouts_batch WHERE worker_id = %(worker)s) AS number,
    (SELECT COALESCE(max(id), 0) FROM audit_auditentry) AS entry,
    (SELECT COALESCE(max(seq), 0) FROM audit_auditseal) AS seal;

INSERT INTO tasks_task (id, created_at, updated_at, project_id, worker_id, submitted_by_id, environment, prompt, metadata,
                        group_size, state, answer, score, failed_link, failure)
SELECT span.task + i, now(), now(), %(project)s, %(worker)s, %(admin)s, 'desk', 'Stock: client wants ' || i || ' box.',
       '{}', %(group_size)s, 'done', 'a', 0.5, '', '' FROM span, generate_series(1, %(tasks)s) i;

INSERT INTO inference_exchange (id, created_at, project_id, worker_name, model, adapter_name, policy_version, messages,
                                text, tool_calls, finish_reason, prompt_token_ids, token_ids, logprobs, sampled,
                                prompt_tokens, completion_tokens, latency_ms, error, choice, shared_messages,
                                shared_tokens, agent, api, turn, request, reasoning, cached_tokens, upstream, status,
                                is_streamed, is_truncated, is_mixed)
SELECT span.exchange + i, now(), %(project)s, 'desk', 'desk', '', 0, '[]', 'a', '[]', 'stop',
       '\x01000000', '\x01000000', '\x00000000', '\x01', 1, 1, 1.0, '', 0, 0,
       0, '', '', 'main', '{}', '', 0, '', 200, false, false, false
FROM span, generate_series(1, %(tasks)s * %(group_size)s) i;

INSERT INTO tasks_attempt (id, created_at, task_id, index, worker_id, exchange_id, state, text, answer, error, outcome,
                           score, score_details, missing_steps)
SELECT span.attempt + i, now(), span.task + 1 + (i - 1) / %(group_size)s, (i - 1) %% %(group_size)s, %(worker)s,
       span.exchange + i, 'answered', 'a', 'a', '', 1, 0.5, '{}', 0
FROM span, generate_series(1, %(tasks)s * %(group_size)s) i;

INSERT INTO tasks_step (attempt_id, index, kind, text, tool_name, tool_result, token_start, token_end)
SELECT span.attempt + i, 0, 'answer', 'a', '', '', 0, 1 FROM span, generate_series(1, %(tasks)s * %(group_size)s) i;

INSERT INTO rollouts_rollout (id, created_at, project_id, worker_id, task_id, attempt_id, is_usable, unusable_reason,
                              reward, reward_source, steps, missing_steps, weight)
SELECT span.rollout + i, now(), %(project)s, %(worker)s, span.task + 1 + (i - 1) / %(group_size)s, span.attempt + i,
       true, '', 1, 'ai', '[[0, 1, 1.0]]', 0, 1 FROM span, generate_series(1, %(tasks)s * %(group_size)s) i;

INSERT INTO rollouts_batch (id, created_at, project_id, worker_id, number, state, target_tasks, task_count, rollout_count,
                            closed_at, end_user)
SELECT span.batch + i, now(), %(project)s, %(worker)s, span.number + i, 'closed', %(batch_tasks)s, %(batch_tasks)s,
       %(batch_tasks)s * %(group_size)s, now(), ''
FROM span, generate_series(1, (%(tasks)s + %(batch_tasks)s - 1) / %(batch_tasks)s) i;

INSERT INTO rollouts_traininguse (rollout_id, batch_id)
SELECT span.rollout + i, span.batch + 1 + (i - 1) / (%(group_size)s * %(batch_tasks)s)
FROM span, generate_series(1, %(tasks)s * %(group_size)s) i;

INSERT INTO training_trainingrun (created_at, project_id, worker_id, batch_id, backend, recipe, recipe_hash, seed, state,
                                  attempt, spec, metrics, summary, versions, failure, end_user, purpose, learnt_from, priority,
                                  waiting_reason, external_id, checkpoint_uri, gates, alarms, cost, tracking)
SELECT now(), %(project)s, %(worker)s, span.batch + i, 'standalone', '{}', '', 0, 'succeeded', 1, '{}', '[]', '{}', '{}', '',
       '', 'policy', '[]', 0, '', '', '', '[]', '[]', '{}', '{}'
FROM span, generate_series(1, (%(tasks)s + %(batch_tasks)s - 1) / %(batch_tasks)s) i;

INSERT INTO outbox_segment (created_at, kind, subject_id, project_id, state, links, position, queue, published_at,
                            lease_owner, attempts, errors, finished_at)
SELECT now(), kind, span.task + i, %(project)s, 'done', '["a", "b", "c"]', 3, 'control', now(), '', 0, '[]', now()
FROM span, generate_series(1, %(tasks)s) i, (VALUES ('work'), ('learn')) kinds (kind);

INSERT INTO audit_auditentry (id, kind, subject_type, subject_id, project_id, actor, payload)
SELECT span.entry + (i - 1) * 4 + n, kind, 'task', span.task + i, %(project)s, 'bench', '{}'
FROM span, generate_series(1, %(tasks)s) i,
     (VALUES (1, 'task.submitted'), (2, 'task.started'), (3, 'task.scored'), (4, 'task.done')) kinds (n, kind);

INSERT INTO audit_auditseal (seq, entry_id, xid, previous_hash, hash)
SELECT span.seal + row_number() OVER (ORDER BY entry.id), entry.id, entry.xid, '', ''
FROM span, audit_auditentry entry WHERE entry.id > span.entry;

SELECT setval(pg_get_serial_sequence(name, 'id'), last) FROM (VALUES
    ('tasks_task', (SELECT max(id) FROM tasks_task)),
    ('inference_exchange', (SELECT max(id) FROM inference_exchange)),
    ('tasks_attempt', (SELECT max(id) FROM tasks_attempt)),
    ('rollouts_rollout', (SELECT max(id) FROM rollouts_rollout)),
    ('rollouts_batch', (SELECT max(id) FROM rollouts_batch)),
    ('audit_auditentry', (SELECT max(id) FROM audit_auditentry))) ends (name, last);
