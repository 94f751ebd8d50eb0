-- Years of a busy project. Reads its sizes from the temporary table `given`
-- (project, owner, first_reviewer, reviewers, desk, phone, tasks, reviews, group_size, batch_tasks).
-- Columns that are not named get the models' defaults. Seals carry made-up hashes: this database is never verified.

CREATE OR REPLACE FUNCTION pg_temp.prompt(i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
SELECT 'Ticket ' || (40000 + i) || ': “' || (array[
    'Two parcels, 3 kg and 5 kg, to Zurich by Friday. What will it cost me?',
    'I was charged twice for the blue lamp. Please sort it out today.',
    'Can I still send the shoes back? They arrived 29 days ago and I wore them once.',
    'Our school needs 40 rulers, do we get a discount?'])[1 + i % 4]
    || '” Customer since ' || (2001 + i % 23) || ', order total ' || (i * 7 % 900) || '.50, ' || (i % 9)
    || ' tickets before this one. The house rules of the shipping desk apply; name the rule you use in each step, '
    || 'then give the total in francs with two digits and one sentence for the customer.' $$;

CREATE OR REPLACE FUNCTION pg_temp.words(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
SELECT '<step>The customer writes about order ' || n || '; the rule for neighbouring countries applies, zone 2.</step>'
    || '<step>Two parcels of ' || (n % 30) || ' kg: base 32.10, surcharge 9.10 unless older than five years.</step>'
    || '<call tool="rate">weight=' || (n % 30) || ', zone=CH</call>'
    || '<step>No surcharge on Fridays for customers of more than five years.</step>' $$;

CREATE OR REPLACE FUNCTION pg_temp.share(n bigint) RETURNS float LANGUAGE sql IMMUTABLE AS $$
SELECT (n * 7919 % 1000) / 1000.0 $$;

-- every task with its fate, rich in steps at the front of the queue, where reviewers are: one open review each on as many as were asked for, 7919 a prime that spreads them
CREATE TEMP TABLE seeded ON COMMIT DROP AS
SELECT i, i * 7919 % given.tasks < given.reviews AS waits,
    CASE WHEN i * 7919 % given.tasks < given.reviews THEN 'in_review'
         WHEN i / 5 % 50 = 0 THEN 'failed' WHEN i / 5 % 50 = 1 THEN 'cancelled' WHEN i / 5 % 50 = 2 THEN 'queued'
         WHEN i / 5 % 50 = 3 THEN 'working' WHEN i / 5 % 50 = 4 THEN 'learning' ELSE 'done' END AS state,
    CASE WHEN i % 10 < 7 THEN given.desk ELSE given.phone END AS worker,
    i / 5 % 5 = 0 OR i <= given.tasks / 20 AS is_rich,
    now() - interval '60 days' * (given.tasks - i + 1) / given.tasks AS at
FROM given, generate_series(1::bigint, given.tasks) i;

ALTER TABLE seeded ADD PRIMARY KEY (i);

ANALYZE seeded;

INSERT INTO tasks_task (id, created_at, updated_at, project_id, worker_id, submitted_by_id, environment, prompt,
                        group_size, state, answer, score, failed_link, failure)
SELECT i, at, at, given.project, worker, given.owner, 'desk', pg_temp.prompt(i), given.group_size, state, '38.60',
       CASE WHEN state NOT IN ('queued', 'working') THEN pg_temp.share(i) END,
       CASE state WHEN 'failed' THEN 'tasks.work' ELSE '' END,
       CASE state WHEN 'failed' THEN 'ProviderBusyError: the engine answered 503 five times' ELSE '' END
FROM given, seeded;

CREATE TEMP TABLE places ON COMMIT DROP AS
SELECT (i - 1) * given.group_size + place + 1 AS n, i, place, worker, is_rich, state, at,
       CASE WHEN state = 'done' THEN (dense_rank() OVER (PARTITION BY worker, state ORDER BY i) - 1)
                / given.batch_tasks END AS batch
FROM given, seeded, generate_series(0, given.group_size - 1) place;

ANALYZE places;

INSERT INTO inference_session (id, created_at, last_seen_at, project_id, key, worker_name)
SELECT i, now() - interval '1 hour' * i, now() - interval '1 hour' * i, given.project, 'chat-' || i, 'desk'
FROM given, generate_series(1, 2000) i;

INSERT INTO inference_exchange (id, created_at, project_id, session_id, worker_name, model, messages, text, finish_reason,
                                prompt_token_ids, token_ids, logprobs, sampled, prompt_tokens, completion_tokens, latency_ms)
SELECT n, at, given.project, CASE WHEN place = 0 THEN 1 + i % 2000 END, 'desk', 'desk',
       jsonb_build_array(jsonb_build_object('role', 'user', 'content', pg_temp.prompt(i))), pg_temp.words(n), 'stop',
       decode(repeat('01000000', 60), 'hex'), decode(repeat('02000000', 120), 'hex'),
       decode(repeat('000000bf', 120), 'hex'), decode(repeat('ff', 15), 'hex'), 60, 120, 180 + n % 90
FROM given, places WHERE is_rich;

-- batches, the runs they made and the adapters of those: only full ones
CREATE TEMP TABLE trained ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY max(at)) AS id, worker, batch + 1 AS number, max(at) AS at, count(*) AS rollouts
FROM places, given WHERE batch IS NOT NULL GROUP BY worker, batch, given.group_size, given.batch_tasks
HAVING count(*) = given.group_size * given.batch_tasks;

INSERT INTO rollouts_batch (id, created_at, closed_at, project_id, worker_id, number, state, target_tasks, task_count,
                            rollout_count)
SELECT id, at, at, given.project, worker, number, 'closed', given.batch_tasks, given.batch_tasks, rollouts
FROM given, trained;

INSERT INTO rollouts_batch (id, created_at, project_id, worker_id, number, state, target_tasks, task_count, rollout_count)
SELECT coalesce(max(id), 0) + 1, now(), given.project, given.desk,
       coalesce(max(number) FILTER (WHERE worker = given.desk), 0) + 1, 'open', given.batch_tasks, 15, 120
FROM given LEFT JOIN trained ON true GROUP BY given.project, given.desk, given.batch_tasks;

INSERT INTO training_trainingrun (id, created_at, project_id, worker_id, batch_id, backend, recipe, recipe_hash, state,
                                  attempt, metrics, summary, started_at, finished_at, failure)
SELECT id, at, given.project, worker, id, 'standalone', '{"algorithm": "grpo", "learning_rate": 0.004, "lora_rank": 8}',
       repeat('5e1c', 16), CASE WHEN id % 25 = 0 THEN 'failed' ELSE 'succeeded' END, 1,
       (SELECT jsonb_agg(jsonb_build_object('update', u, 'reward', 0.3 + 0.04 * u, 'kl', 0.002 * u, 'entropy', 0.62 - 0.02 * u,
               'clip_fraction', 0.04, 'max_ratio', 1.4, 'grad_norm', 0.8, 'tokens_per_s', 41000)) FROM generate_series(1, 8) u),
       '{"reward": 0.6, "updates": 8, "rollouts": 192, "train_seconds": 1.3}', at, at + interval '4 seconds',
       CASE WHEN id % 25 = 0 THEN 'the loss was not finite at update 1' ELSE '' END
FROM given, trained;

INSERT INTO adapters_adapter (id, created_at, project_id, worker_id, name, version, line_version, run_id, parent_id, uri,
                              sha256, manifest, state, is_anchor)
SELECT trained.id, at, given.project, worker, 'w' || worker || '@v' || number || '-' || left(md5(trained.id::text), 8), number, number, trained.id, NULL,
       'file:///adapters/' || trained.id, repeat(md5(trained.id::text), 2), '{"rank": 8, "alpha": 16.0, "files": {}}',
       CASE WHEN number = max(number) OVER (PARTITION BY worker) THEN 'deployed'
            WHEN trained.id % 5 = 0 THEN 'refused' ELSE 'retired' END,
       number = max(number) OVER (PARTITION BY worker)
FROM given, trained WHERE trained.id % 25 > 0;

INSERT INTO adapters_verdict (created_at, adapter_id, question, outcome, words, details)
SELECT created_at, id, 'safe', CASE state WHEN 'refused' THEN 'no' ELSE 'yes' END,
       '+3.1 points [+0.4, +5.8] against the adapter before: safe to serve', '{"metric": "outcome", "items": 300}'
FROM adapters_adapter;

INSERT INTO evals_evaluation (created_at, project_id, worker_id, adapter_id, purpose, item_set, item_set_hash, tries, is_greedy,
                              scale, seed, state, planned, played, unscored, items, profile, failure, asked_by)
SELECT created_at, project_id, worker_id, id, 'panel', 'desk-300', '', 1, false, 1, 0, 'done', 300, 300, 0, 300, '{}'::jsonb, '', ''
FROM adapters_adapter
UNION ALL
SELECT now(), given.project, worker, NULL, 'panel', 'desk-300', '', 1, false, 1, 0, 'done', 300, 300, 0, 300, '{}'::jsonb, '', ''
FROM given, LATERAL (VALUES (given.desk), (given.phone)) workers (worker);

INSERT INTO evals_itemtry (evaluation_id, place, key, number, outcome, step_score, cause, reason, grader)
SELECT measured.id, item - 1, item - 1, 0, outcome, outcome, '', '', ''
FROM evals_evaluation measured LEFT JOIN adapters_adapter trained ON trained.id = measured.adapter_id,
    generate_series(1, 300) item,
    LATERAL (SELECT (pg_temp.share(coalesce(trained.id, 0) * 300 + item)
                     < coalesce(0.4 + 0.4 * trained.version / (trained.version + 9.0), 0.3))::int AS outcome) answered;

UPDATE evals_evaluation SET mean_outcome = found.mean, mean_step_score = found.mean
FROM (SELECT evaluation_id, avg(outcome) AS mean FROM evals_itemtry GROUP BY 1) found WHERE found.evaluation_id = evals_evaluation.id;

INSERT INTO adapters_deployment (created_at, moved_at, worker_id, adapter_id, epoch)
SELECT now(), now(), worker_id, id, version FROM adapters_adapter WHERE state = 'deployed';

INSERT INTO tasks_attempt (id, created_at, task_id, index, worker_id, adapter_id, exchange_id, state, text, answer, outcome,
                           score, score_details, elapsed_s)
SELECT n, at, i, place, worker, latest.adapter, CASE WHEN is_rich THEN n END, 'answered', pg_temp.words(n),
       (18 + n * 13 % 80) || '.' || (10 + n % 90), (n * 31 % 3 > 0)::int, pg_temp.share(n),
       '{"weights": {"outcome": 0.5, "step_verifier": 0.5}}', 0.18
FROM places LEFT JOIN (SELECT worker_id, max(id) AS adapter FROM adapters_adapter GROUP BY worker_id) latest
    ON latest.worker_id = places.worker;

INSERT INTO tasks_step (id, attempt_id, index, kind, text, tool_name, tool_result, token_start, token_end)
SELECT (n - 1) * 5 + step + 1, n, step, (array['step', 'step', 'call', 'step', 'answer'])[step + 1],
       'Two parcels of ' || (n % 30) || ' kg to zone 2: the rule for neighbouring countries applies, base 32.10; part ' || step,
       CASE step WHEN 2 THEN 'rate' ELSE '' END, CASE step WHEN 2 THEN 'base 32.10, surcharge 9.10' ELSE '' END,
       step * 24, step * 24 + 24
FROM places, generate_series(0, 4) step WHERE is_rich;

INSERT INTO scoring_stepscore (created_at, attempt_id, step_id, scorer, score, reason)
SELECT at, n, (n - 1) * 5 + step + 1, 'step_verifier', pg_temp.share(n * 5 + step), 'The rule is named and fits the customer.'
FROM places, generate_series(0, 4) step WHERE is_rich
UNION ALL
SELECT at, n, NULL, scorer, pg_temp.share(n * 3), '' FROM places, (VALUES ('outcome'), ('prm')) scorers (scorer) WHERE is_rich;

INSERT INTO feedback_review (id, created_at, project_id, task_id, audience, purpose, reason, priority, lowest_score,
                             rank_at, state, assigned_to_id, needs_expert, snoozed_until, claimed_by_id,
                             lease_until, due_at, closed_at)
SELECT i, at, given.project, i, 'human', 'work', 'scorers lie ' || round(pg_temp.share(i)::numeric, 2) || ' apart',
       pg_temp.share(i), CASE WHEN is_rich THEN pg_temp.share(i * 3) END,
       at - interval '2 days' * pg_temp.share(i), CASE WHEN waits THEN 'open' ELSE 'closed' END,
       CASE WHEN waits AND i % 50 = 7 THEN given.first_reviewer + i % given.reviewers END,
       i % 40 = 3, CASE WHEN waits AND i % 100 = 11 THEN now() + interval '1 day' END,
       CASE WHEN waits AND i % 500 = 13 THEN given.first_reviewer + i % given.reviewers END,
       CASE WHEN waits AND i % 500 = 13 THEN now() + interval '1 day' END,
       CASE WHEN waits AND i % 3 = 0 THEN now() + interval '1 minute' * (i % 20000) END, CASE WHEN NOT waits THEN at END
FROM given, seeded WHERE waits OR state IN ('done', 'learning');

INSERT INTO feedback_review (id, created_at, project_id, task_id, audience, purpose, reason, priority, rank_at, state)
SELECT given.tasks + i, at, given.project, i, 'ai', 'work', 'the policy asks an AI manager first', 0.5, at, 'open'
FROM given, seeded WHERE waits AND i % 50 = 21;

INSERT INTO feedback_feedback (id, created_at, project_id, task_id, review_id, source, author, score, text,
                               preferred_attempt_id)
SELECT i, at, given.project, i, i, 'human', 'user:reviewer' || to_char(i % given.reviewers, 'FM00'), pg_temp.share(i),
       'Good that the rule is named. Customers of more than five years never pay the Friday surcharge.',
       (i - 1) * given.group_size + 1 + i % given.group_size
FROM given, seeded WHERE state IN ('done', 'learning');

INSERT INTO feedback_stepfeedback (feedback_id, attempt_id, step_id, score, comment)
SELECT i, n, (n - 1) * 5 + 2, 0.0, 'Here it goes wrong.'
FROM places WHERE state IN ('done', 'learning') AND is_rich AND place < 3;

INSERT INTO feedback_hint (id, created_at, task_id, feedback_id, text, source)
SELECT i, at, i, i, 'No Friday surcharge for customers of more than five years.', 'grammar'
FROM seeded WHERE state IN ('done', 'learning') AND i % 2 = 0;

INSERT INTO rollouts_rollout (id, created_at, project_id, worker_id, task_id, attempt_id, is_usable, unusable_reason, reward,
                              reward_source, steps)
SELECT n, at, given.project, worker, i, n, n % 20 > 0,
       CASE WHEN n % 20 > 0 THEN '' WHEN n % 40 = 0 THEN 'the server gave no exact tokens' ELSE 'nobody could judge it' END,
       (n * 31 % 3 > 0)::int, 'human', '[[0, 24, 1.0], [24, 48, null]]'
FROM given, places WHERE state = 'done';

INSERT INTO rollouts_traininguse (rollout_id, batch_id)
SELECT n, trained.id FROM places JOIN trained ON trained.worker = places.worker AND trained.number = places.batch + 1
WHERE n % 20 > 0;

INSERT INTO calibration_rater (project_id, handle, kind, bad, good, false_approvals, false_rejections, sittings)
SELECT given.project, handle, kind, 40, 160, 9, 8, 50
FROM given, (SELECT 'user:reviewer' || to_char(n, 'FM00'), 'person' FROM generate_series(0, 39) n
             UNION ALL VALUES ('scorer:prm', 'scorer'), ('agent:rule-book', 'ai')) raters (handle, kind);

INSERT INTO calibration_comparison (project_id, rater_id, attempt_id, step_id, said, truth, source, counts, at)
SELECT given.project, rater.id, n, NULL, pg_temp.share(n + rater.id), pg_temp.share(n), (array['verified', 'human', 'peer'])[1 + n % 3],
       true, at
FROM given, places, LATERAL (SELECT min(id) + n % 42 AS id FROM calibration_rater) rater WHERE state IN ('done', 'learning');

INSERT INTO supervision_proposal (id, created_at, project_id, task_id, proposed_by_id, step_index, kind, tool, action, context, risk,
                                  reason, state, deadline_at, decided_by, decided_at)
SELECT i, at, given.project, i, given.owner, 2, 'tool', 'refund', '{"kind": "tool", "tool": "refund", "arguments": {"order": 7}}',
       pg_temp.words(i), 'money leaves the house', 'refunds wait for a person',
       CASE WHEN i % 30 = 0 THEN 'pending' ELSE 'approved' END, now() + interval '1 minute' * (i % 5000 + 600),
       CASE WHEN i % 30 = 0 THEN '' ELSE 'user:ana' END, CASE WHEN i % 30 = 0 THEN NULL ELSE at END
FROM given, seeded WHERE i % 3 = 0;

INSERT INTO outbox_segment (created_at, kind, subject_id, project_id, state, links, position, queue, published_at, run_after,
                            attempts, errors, finished_at)
SELECT at, 'work', i, given.project,
       CASE WHEN state IN ('queued', 'working') THEN 'open' WHEN state = 'failed' AND i % 5 = 0 THEN 'dead' ELSE 'done' END,
       '["tasks.work", "scoring.score", "feedback.open_review"]',
       CASE WHEN state IN ('queued', 'working', 'failed') THEN 0 ELSE 3 END, 'workers',
       CASE WHEN state = 'queued' THEN NULL ELSE at END, at, 0,
       CASE WHEN state = 'failed' THEN '[{"link": "tasks.work", "attempt": 5, "type": "ProviderBusyError",'
            ' "message": "the engine answered 503", "at": "2026-11-20T09:12:00Z"}]'::jsonb ELSE '[]'::jsonb END,
       CASE WHEN state IN ('queued', 'working') THEN NULL ELSE at END
FROM given, seeded;

INSERT INTO audit_auditentry (id, kind, subject_type, subject_id, project_id, actor, payload, at, xid)
SELECT (i - 1) * 5 + n, kind, CASE n WHEN 5 THEN 'review' ELSE 'task' END, i, given.project,
       CASE n WHEN 1 THEN 'user:ana' ELSE 'pipeline' END, '{"from": "scoring", "to": "in_review"}', at, 1
FROM given, seeded, (VALUES (1, 'task.submitted'), (2, 'task.started'), (3, 'task.attempted'), (4, 'task.in_review'),
                            (5, 'review.opened')) kinds (n, kind);

INSERT INTO audit_auditseal (seq, entry_id, epoch, xid, previous_hash, hash)
SELECT id, id, epoch, 1, repeat('0', 64), repeat('0', 64) FROM audit_auditentry;
