-- A long history for the project and worker given: tasks done, attempts made, rollouts used, batches trained on, audited.
-- Reads its ids and sizes from the temporary table `given` (project, worker, admin; tasks, group_size, batch_tasks).
-- Columns that are not named get the models' defaults.
-- The seals' hashes are made up: this database is for measuring and is never verified.
CREATE TEMP TABLE span ON COMMIT DROP AS SELECT
    (SELECT COALESCE(max(id), 0) FROM tasks_task) AS task,
    (SELECT COALESCE(max(id), 0) FROM inference_exchange) AS exchange,
    (SELECT COALESCE(max(id), 0) FROM tasks_attempt) AS attempt,
    (SELECT COALESCE(max(id), 0) FROM rollouts_rollout) AS rollout,
    (SELECT COALESCE(max(id), 0) FROM rollouts_batch) AS batch,
    (SELECT COALESCE(max(number), 0) FROM rollouts_batch, given WHERE worker_id = given.worker) AS number,
    (SELECT COALESCE(max(id), 0) FROM audit_auditentry) AS entry,
    (SELECT COALESCE(max(seq), 0) FROM audit_auditseal) AS seal;

INSERT INTO tasks_task (id, created_at, updated_at, project_id, worker_id, submitted_by_id, environment, prompt, metadata,
                        group_size, state, answer, score, failed_link, failure)
SELECT span.task + i, now(), now(), given.project, given.worker, given.admin, 'desk', 'Stock: client wants ' || i || ' box.',
       '{}', given.group_size, 'done', 'a', 0.5, '', '' FROM given, span, generate_series(1, given.tasks) i;

INSERT INTO inference_exchange (id, created_at, project_id, worker_name, model, adapter_name, policy_version, messages,
                                text, tool_calls, finish_reason, prompt_token_ids, token_ids, logprobs, sampled,
                                prompt_tokens, completion_tokens, latency_ms, error, choice, shared_messages,
                                shared_tokens, agent, api, turn, request, reasoning, cached_tokens, upstream, status,
                                is_streamed, is_truncated, is_mixed)
SELECT span.exchange + i, now(), given.project, 'desk', 'desk', '', 0, '[]', 'a', '[]', 'stop',
       '\x01000000', '\x01000000', '\x00000000', '\x01', 1, 1, 1.0, '', 0, 0,
       0, '', '', 'main', '{}', '', 0, '', 200, false, false, false
FROM given, span, generate_series(1, given.tasks * given.group_size) i;

INSERT INTO tasks_attempt (id, created_at, task_id, index, worker_id, exchange_id, state, text, answer, error, outcome,
                           score, score_details, missing_steps)
SELECT span.attempt + i, now(), span.task + 1 + (i - 1) / given.group_size, (i - 1) % given.group_size, given.worker,
       span.exchange + i, 'answered', 'a', 'a', '', 1, 0.5, '{}', 0
FROM given, span, generate_series(1, given.tasks * given.group_size) i;

INSERT INTO tasks_step (attempt_id, index, kind, text, tool_name, tool_result, token_start, token_end)
SELECT span.attempt + i, 0, 'answer', 'a', '', '', 0, 1 FROM given, span, generate_series(1, given.tasks * given.group_size) i;

INSERT INTO rollouts_rollout (id, created_at, project_id, worker_id, task_id, attempt_id, is_usable, unusable_reason,
                              reward, reward_source, steps, missing_steps, weight)
SELECT span.rollout + i, now(), given.project, given.worker, span.task + 1 + (i - 1) / given.group_size, span.attempt + i,
       true, '', 1, 'ai', '[[0, 1, 1.0]]', 0, 1 FROM given, span, generate_series(1, given.tasks * given.group_size) i;

INSERT INTO rollouts_batch (id, created_at, project_id, worker_id, number, state, target_tasks, task_count, rollout_count,
                            closed_at, end_user)
SELECT span.batch + i, now(), given.project, given.worker, span.number + i, 'closed', given.batch_tasks, given.batch_tasks,
       given.batch_tasks * given.group_size, now(), ''
FROM given, span, generate_series(1, (given.tasks + given.batch_tasks - 1) / given.batch_tasks) i;

INSERT INTO rollouts_traininguse (rollout_id, batch_id)
SELECT span.rollout + i, span.batch + 1 + (i - 1) / (given.group_size * given.batch_tasks)
FROM given, span, generate_series(1, given.tasks * given.group_size) i;

INSERT INTO training_trainingrun (created_at, project_id, worker_id, batch_id, backend, recipe, recipe_hash, seed, state,
                                  attempt, spec, metrics, summary, versions, failure, end_user, purpose, learnt_from, priority,
                                  waiting_reason, external_id, checkpoint_uri, gates, alarms, cost, tracking)
SELECT now(), given.project, given.worker, span.batch + i, 'standalone', '{}', '', 0, 'succeeded', 1, '{}', '[]', '{}', '{}', '',
       '', 'policy', '[]', 0, '', '', '', '[]', '[]', '{}', '{}'
FROM given, span, generate_series(1, (given.tasks + given.batch_tasks - 1) / given.batch_tasks) i;

INSERT INTO outbox_segment (created_at, kind, subject_id, project_id, state, links, position, queue, published_at,
                            lease_owner, attempts, errors, finished_at)
SELECT now(), kind, span.task + i, given.project, 'done', '["a", "b", "c"]', 3, 'control', now(), '', 0, '[]', now()
FROM given, span, generate_series(1, given.tasks) i, (VALUES ('work'), ('learn')) kinds (kind);

INSERT INTO audit_auditentry (id, kind, subject_type, subject_id, project_id, actor, payload)
SELECT span.entry + (i - 1) * 4 + n, kind, 'task', span.task + i, given.project, 'bench', '{}'
FROM given, span, generate_series(1, given.tasks) i,
     (VALUES (1, 'task.submitted'), (2, 'task.started'), (3, 'task.scored'), (4, 'task.done')) kinds (n, kind);

INSERT INTO audit_auditseal (seq, entry_id, epoch, xid, previous_hash, hash)
SELECT span.seal + row_number() OVER (ORDER BY entry.id), entry.id, entry.epoch, entry.xid, '', ''
FROM given, span, audit_auditentry entry WHERE entry.id > span.entry;
