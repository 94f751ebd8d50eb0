-- Written by `make schema` from all migrations, for empty databases (prepare_database); never by hand.

CREATE FUNCTION public._pgtrigger_should_ignore(trigger_name name) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
                DECLARE
                    _pgtrigger_ignore TEXT[];
                    _result BOOLEAN;
                BEGIN
                    BEGIN
                        SELECT INTO _pgtrigger_ignore
                            CURRENT_SETTING('pgtrigger.ignore');
                        EXCEPTION WHEN OTHERS THEN
                    END;
                    IF _pgtrigger_ignore IS NOT NULL THEN
                        SELECT trigger_name = ANY(_pgtrigger_ignore)
                        INTO _result;
                        RETURN _result;
                    ELSE
                        RETURN FALSE;
                    END IF;
                END;
            $$;

CREATE FUNCTION public.audit_begin_epoch() RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    latest record;
BEGIN
    SELECT number, cluster INTO latest FROM audit_auditepoch ORDER BY number DESC LIMIT 1;
    IF latest.cluster = (pg_control_system()).system_identifier THEN
        RETURN latest.number;
    END IF;
    INSERT INTO audit_auditepoch (number, cluster)
    VALUES (coalesce(latest.number, 0) + 1, (pg_control_system()).system_identifier) ON CONFLICT DO NOTHING;
    RETURN coalesce(latest.number, 0) + 1;
END $$;

CREATE FUNCTION public.audit_current_epoch() RETURNS integer
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    latest record;
BEGIN
    SELECT number, cluster INTO latest FROM audit_auditepoch ORDER BY number DESC LIMIT 1;
    IF latest.cluster = (pg_control_system()).system_identifier THEN
        RETURN latest.number;
    END IF;
    RETURN coalesce(latest.number, 0) + 1;  -- in which nobody has written yet
END $$;

CREATE FUNCTION public.pgtrigger_audit_entry_announced_d0f60() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    PERFORM pg_notify('tentalis_live', NEW.id::text); RETURN NULL;
                END;
            $$;

CREATE FUNCTION public.pgtrigger_audit_entry_rows_cba51() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;

CREATE FUNCTION public.pgtrigger_audit_entry_table_5d89f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'the audit cannot be truncated';
                END;
            $$;

CREATE FUNCTION public.pgtrigger_audit_seal_rows_469c8() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;

CREATE FUNCTION public.pgtrigger_audit_seal_table_2fbaf() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'the audit cannot be truncated';
                END;
            $$;

CREATE TABLE public.accounts_apitoken (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    key_id character varying(16) NOT NULL,
    secret_hash character varying(64) NOT NULL,
    name character varying(100) NOT NULL,
    scopes jsonb NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    user_id bigint NOT NULL,
    project_id bigint,
    limits jsonb NOT NULL,
    made_with_id bigint,
    confirmed_at timestamp with time zone
);

ALTER TABLE public.accounts_apitoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_apitoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_authenticatorapp (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    secret_sealed bytea NOT NULL,
    confirmed_at timestamp with time zone,
    last_step bigint NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_authenticatorapp ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_authenticatorapp_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_browsersession (
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL,
    session_key character varying(64) NOT NULL,
    address character varying(64) NOT NULL,
    device character varying(300) NOT NULL,
    signed_in_at timestamp with time zone,
    seen_at timestamp with time zone NOT NULL,
    user_id bigint
);

CREATE TABLE public.accounts_invitation (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    username character varying(150) NOT NULL,
    role character varying(16) NOT NULL,
    code_hash character varying(64) NOT NULL,
    state character varying(16) NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    invited_by_id bigint,
    project_id bigint NOT NULL,
    CONSTRAINT invited_to_a_role CHECK (((role)::text = ANY ((ARRAY['owner'::character varying, 'manager'::character varying, 'reviewer'::character varying, 'auditor'::character varying, 'viewer'::character varying])::text[])))
);

ALTER TABLE public.accounts_invitation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_invitation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_member (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    role character varying(16) NOT NULL,
    user_id bigint NOT NULL,
    project_id bigint NOT NULL,
    CONSTRAINT member_role_is_known CHECK (((role)::text = ANY ((ARRAY['owner'::character varying, 'manager'::character varying, 'reviewer'::character varying, 'auditor'::character varying, 'viewer'::character varying, 'agent'::character varying])::text[])))
);

ALTER TABLE public.accounts_member ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_member_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_passkey (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    credential_id bytea NOT NULL,
    credential bytea NOT NULL,
    last_used_at timestamp with time zone,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_passkey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_passkey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_project (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    slug character varying(64) NOT NULL,
    name character varying(200) NOT NULL,
    rubric text NOT NULL,
    weight_profiles jsonb NOT NULL,
    review_policy jsonb NOT NULL,
    gate_policy jsonb NOT NULL,
    recipe jsonb NOT NULL,
    group_size smallint NOT NULL,
    batch_tasks integer NOT NULL,
    learning_enabled boolean NOT NULL,
    limits jsonb NOT NULL,
    session_policy jsonb NOT NULL,
    constitution text NOT NULL,
    training_policy jsonb NOT NULL,
    archived_at timestamp with time zone,
    has_held_out boolean DEFAULT false NOT NULL,
    held_out_percent smallint DEFAULT 10 NOT NULL,
    CONSTRAINT accounts_project_batch_tasks_check CHECK ((batch_tasks >= 0)),
    CONSTRAINT accounts_project_group_size_check CHECK ((group_size >= 0)),
    CONSTRAINT accounts_project_held_out_percent_check CHECK ((held_out_percent >= 0)),
    CONSTRAINT batch_tasks_is_positive CHECK ((batch_tasks >= 1)),
    CONSTRAINT group_size_is_1_to_64 CHECK (((group_size >= 1) AND (group_size <= 64))),
    CONSTRAINT held_out_percent_is_0_to_50 CHECK ((held_out_percent <= 50))
);

ALTER TABLE public.accounts_project ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_project_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_recoverycode (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    code_hash character varying(64) NOT NULL,
    used_at timestamp with time zone,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_recoverycode ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_recoverycode_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_user (
    id bigint NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    is_agent boolean NOT NULL,
    may_make_projects boolean NOT NULL
);

CREATE TABLE public.accounts_user_groups (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    group_id integer NOT NULL
);

ALTER TABLE public.accounts_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.accounts_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_user_user_permissions (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.accounts_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.adapters_adapter (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(200) NOT NULL,
    version integer NOT NULL,
    run_id bigint,
    uri character varying(1000) NOT NULL,
    sha256 character varying(64) NOT NULL,
    manifest jsonb NOT NULL,
    state character varying(16) NOT NULL,
    is_anchor boolean NOT NULL,
    parent_id bigint,
    project_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    end_user character varying(200) NOT NULL,
    line_version integer NOT NULL,
    suspicion text NOT NULL,
    taught jsonb NOT NULL,
    fingerprint jsonb NOT NULL,
    barred character varying(300) NOT NULL,
    is_rebuilt boolean NOT NULL,
    held_since timestamp with time zone,
    asks_people boolean DEFAULT false NOT NULL,
    waits_for character varying(300) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT adapters_adapter_line_version_check CHECK ((line_version >= 0)),
    CONSTRAINT adapters_adapter_version_check CHECK ((version >= 0))
);

ALTER TABLE public.adapters_adapter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.adapters_adapter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.adapters_deployment (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    epoch integer NOT NULL,
    moved_at timestamp with time zone NOT NULL,
    adapter_id bigint,
    previous_id bigint,
    worker_id bigint NOT NULL,
    canary_id bigint,
    canary_after_task bigint NOT NULL,
    canary_percent smallint NOT NULL,
    canary_started_at timestamp with time zone,
    canary_words character varying(300) NOT NULL,
    end_user character varying(200) NOT NULL,
    trouble character varying(300) NOT NULL,
    watched_id bigint NOT NULL,
    CONSTRAINT a_canary_gets_1_to_50_percent CHECK ((((canary_id IS NULL) AND (canary_percent = 0)) OR ((canary_id IS NOT NULL) AND (canary_percent >= 1) AND (canary_percent <= 50)))),
    CONSTRAINT adapters_deployment_canary_percent_check CHECK ((canary_percent >= 0)),
    CONSTRAINT adapters_deployment_epoch_check CHECK ((epoch >= 0))
);

ALTER TABLE public.adapters_deployment ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.adapters_deployment_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.adapters_shadow (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    percent smallint NOT NULL,
    after_task bigint NOT NULL,
    state character varying(8) NOT NULL,
    outcome character varying(8) NOT NULL,
    words character varying(300) NOT NULL,
    ended_at timestamp with time zone,
    adapter_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    CONSTRAINT a_shadow_gets_1_to_50_percent CHECK (((percent >= 1) AND (percent <= 50))),
    CONSTRAINT adapters_shadow_percent_check CHECK ((percent >= 0))
);

ALTER TABLE public.adapters_shadow ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.adapters_shadow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.adapters_verdict (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    question character varying(16) NOT NULL,
    outcome character varying(16) NOT NULL,
    words text NOT NULL,
    compared_with character varying(200) NOT NULL,
    details jsonb NOT NULL,
    adapter_id bigint NOT NULL
);

ALTER TABLE public.adapters_verdict ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.adapters_verdict_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.api_idempotencykey (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    key_hash character varying(64) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    status smallint NOT NULL,
    body text NOT NULL,
    location character varying(300) NOT NULL,
    user_id bigint NOT NULL,
    is_forgotten boolean NOT NULL,
    project_id bigint,
    CONSTRAINT api_idempotencykey_status_check CHECK ((status >= 0))
);

ALTER TABLE public.api_idempotencykey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.api_idempotencykey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.audit_auditentry (
    id bigint NOT NULL,
    kind character varying(40) NOT NULL,
    subject_type character varying(40) NOT NULL,
    subject_id bigint,
    project_id bigint,
    actor character varying(120) NOT NULL,
    payload jsonb NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    xid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    epoch integer DEFAULT public.audit_begin_epoch() NOT NULL
);

ALTER TABLE public.audit_auditentry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.audit_auditentry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.audit_auditepoch (
    number integer NOT NULL,
    cluster bigint NOT NULL,
    began_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.audit_auditseal (
    seq bigint NOT NULL,
    entry_id bigint NOT NULL,
    xid bigint NOT NULL,
    previous_hash character varying(64) NOT NULL,
    hash character varying(64) NOT NULL,
    epoch integer NOT NULL
);

CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);

ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);

ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.calibration_comparison (
    id bigint NOT NULL,
    said double precision NOT NULL,
    truth double precision NOT NULL,
    source character varying(8) NOT NULL,
    against character varying(120) DEFAULT ''::character varying NOT NULL,
    counts boolean NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    attempt_id bigint NOT NULL,
    project_id bigint NOT NULL,
    step_id bigint,
    rater_id bigint NOT NULL,
    CONSTRAINT comparison_is_0_to_1 CHECK (((said >= (0.0)::double precision) AND (said <= (1.0)::double precision) AND (truth >= (0.0)::double precision) AND (truth <= (1.0)::double precision)))
);

ALTER TABLE public.calibration_comparison ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.calibration_comparison_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.calibration_favourscreen (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    screened_at timestamp with time zone NOT NULL,
    raters integer NOT NULL,
    lines integer NOT NULL,
    reason character varying(300) NOT NULL,
    groups jsonb NOT NULL,
    project_id bigint NOT NULL,
    CONSTRAINT calibration_favourscreen_lines_check CHECK ((lines >= 0)),
    CONSTRAINT calibration_favourscreen_raters_check CHECK ((raters >= 0))
);

ALTER TABLE public.calibration_favourscreen ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.calibration_favourscreen_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.calibration_rater (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    handle character varying(120) NOT NULL,
    kind character varying(8) NOT NULL,
    weight double precision NOT NULL,
    told_weight double precision NOT NULL,
    standing jsonb NOT NULL,
    bad integer NOT NULL,
    false_approvals integer NOT NULL,
    good integer NOT NULL,
    false_rejections integer NOT NULL,
    sittings integer NOT NULL,
    counted_from timestamp with time zone,
    drifted_at timestamp with time zone,
    quarantined_at timestamp with time zone,
    reinstated_by character varying(120) NOT NULL,
    reinstate_reason character varying(300) NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    project_id bigint NOT NULL,
    gate double precision,
    rubric jsonb DEFAULT '{}'::jsonb NOT NULL,
    adapter jsonb DEFAULT '{}'::jsonb NOT NULL,
    quarantine_reason character varying(300) DEFAULT ''::character varying NOT NULL,
    quarantined_by character varying(120) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT calibration_rater_bad_check CHECK ((bad >= 0)),
    CONSTRAINT calibration_rater_false_approvals_check CHECK ((false_approvals >= 0)),
    CONSTRAINT calibration_rater_false_rejections_check CHECK ((false_rejections >= 0)),
    CONSTRAINT calibration_rater_good_check CHECK ((good >= 0)),
    CONSTRAINT calibration_rater_sittings_check CHECK ((sittings >= 0)),
    CONSTRAINT rater_gate_is_0_to_1 CHECK (((gate IS NULL) OR ((gate >= (0.0)::double precision) AND (gate <= (1.0)::double precision)))),
    CONSTRAINT rater_weight_is_0_to_1 CHECK (((weight >= (0.0)::double precision) AND (weight <= (1.0)::double precision)))
);

ALTER TABLE public.calibration_rater ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.calibration_rater_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.checks_namedcheck (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    version integer NOT NULL,
    about character varying(500) NOT NULL,
    spec jsonb NOT NULL,
    default_for character varying(64) NOT NULL,
    project_id bigint NOT NULL,
    CONSTRAINT checks_namedcheck_version_check CHECK ((version >= 0))
);

ALTER TABLE public.checks_namedcheck ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.checks_namedcheck_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.console_preference (
    user_id bigint NOT NULL,
    theme character varying(8) NOT NULL,
    time_zone character varying(64) NOT NULL,
    keys_enabled boolean NOT NULL,
    keys jsonb NOT NULL,
    tour_step smallint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT theme_is_known CHECK (((theme)::text = ANY ((ARRAY['system'::character varying, 'light'::character varying, 'dark'::character varying])::text[]))),
    CONSTRAINT tour_step_is_a_step CHECK ((tour_step >= '-1'::integer))
);

CREATE TABLE public.console_savedview (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    page character varying(40) NOT NULL,
    name character varying(60) NOT NULL,
    query character varying(500) NOT NULL,
    owner_id bigint,
    project_id bigint NOT NULL
);

ALTER TABLE public.console_savedview ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.console_savedview_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.conversations_conversation (
    created_at timestamp with time zone NOT NULL,
    session_id bigint NOT NULL,
    seen_at timestamp with time zone
);

CREATE TABLE public.conversations_forgetting (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    what character varying(8) NOT NULL,
    subject_hash character varying(64) NOT NULL,
    by character varying(160) NOT NULL,
    counts jsonb NOT NULL,
    adapters jsonb NOT NULL,
    files integer NOT NULL,
    project_id bigint NOT NULL,
    sealed_subject bytea NOT NULL,
    session_hashes jsonb NOT NULL,
    batches jsonb NOT NULL,
    CONSTRAINT conversations_forgetting_files_check CHECK ((files >= 0))
);

ALTER TABLE public.conversations_forgetting ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.conversations_forgetting_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.conversations_turn (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    state character varying(16) NOT NULL,
    began character varying(16) NOT NULL,
    words_from integer NOT NULL,
    request_digest character varying(16) NOT NULL,
    closed_by character varying(8) NOT NULL,
    closed_at timestamp with time zone,
    reason character varying(300) NOT NULL,
    project_id bigint NOT NULL,
    session_id bigint NOT NULL,
    task_id bigint,
    heard_from integer NOT NULL,
    beside_id bigint,
    head character varying(16) NOT NULL,
    heard jsonb NOT NULL,
    heard_count integer NOT NULL,
    parent_id bigint,
    CONSTRAINT conversations_turn_heard_count_check CHECK ((heard_count >= 0)),
    CONSTRAINT conversations_turn_heard_from_check CHECK ((heard_from >= 0)),
    CONSTRAINT conversations_turn_number_check CHECK ((number >= 0)),
    CONSTRAINT conversations_turn_words_from_check CHECK ((words_from >= 0))
);

ALTER TABLE public.conversations_turn ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.conversations_turn_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.conversations_turnexchange (
    exchange_id bigint NOT NULL,
    is_part boolean NOT NULL,
    turn_id bigint
);

CREATE TABLE public.conversations_turnsignal (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    kind character varying(16) NOT NULL,
    source character varying(8) NOT NULL,
    score double precision,
    trust double precision,
    step smallint,
    reason character varying(300) NOT NULL,
    details jsonb NOT NULL,
    answer text NOT NULL,
    hint text NOT NULL,
    feedback_id bigint,
    turn_id bigint NOT NULL,
    CONSTRAINT conversations_turnsignal_step_check CHECK ((step >= 0)),
    CONSTRAINT signal_score_is_0_to_1 CHECK (((score IS NULL) OR ((score >= (0.0)::double precision) AND (score <= (1.0)::double precision))))
);

ALTER TABLE public.conversations_turnsignal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.conversations_turnsignal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id bigint NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);

ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);

ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);

ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_benchmark (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    version integer NOT NULL,
    entry character varying(100) NOT NULL,
    entry_version character varying(32) NOT NULL,
    split character varying(16) NOT NULL,
    grader character varying(120) NOT NULL,
    template text NOT NULL,
    tries smallint NOT NULL,
    licence character varying(100) NOT NULL,
    needs jsonb NOT NULL,
    source character varying(200) NOT NULL,
    content_hash character varying(64) NOT NULL,
    project_id bigint NOT NULL,
    taskset_id bigint NOT NULL,
    CONSTRAINT evals_benchmark_tries_check CHECK ((tries >= 0)),
    CONSTRAINT evals_benchmark_version_check CHECK ((version >= 0))
);

ALTER TABLE public.evals_benchmark ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_benchmark_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_chosenpanel (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    taskset_id bigint NOT NULL,
    worker_id bigint NOT NULL
);

ALTER TABLE public.evals_chosenpanel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_chosenpanel_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_evaluation (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    purpose character varying(16) NOT NULL,
    item_set character varying(200) NOT NULL,
    item_set_hash character varying(32) NOT NULL,
    split character varying(16) NOT NULL,
    tries smallint NOT NULL,
    is_greedy boolean NOT NULL,
    scale double precision NOT NULL,
    seed bigint NOT NULL,
    state character varying(16) NOT NULL,
    planned integer NOT NULL,
    played integer NOT NULL,
    unscored integer NOT NULL,
    items integer NOT NULL,
    mean_outcome double precision,
    mean_step_score double precision,
    profile jsonb NOT NULL,
    failure text NOT NULL,
    asked_by character varying(150) NOT NULL,
    finished_at timestamp with time zone,
    adapter_id bigint,
    project_id bigint NOT NULL,
    taskset_id bigint,
    worker_id bigint NOT NULL,
    asked_hash character varying(32) DEFAULT ''::character varying NOT NULL,
    asked_with jsonb DEFAULT '{}'::jsonb NOT NULL,
    effective_items double precision,
    benchmark_id bigint,
    indices jsonb DEFAULT '[]'::jsonb NOT NULL,
    limits jsonb DEFAULT '{}'::jsonb NOT NULL,
    made_with jsonb DEFAULT '{}'::jsonb NOT NULL,
    replay_of_id bigint,
    seconds double precision DEFAULT 0.0 NOT NULL,
    CONSTRAINT evals_evaluation_items_check CHECK ((items >= 0)),
    CONSTRAINT evals_evaluation_planned_check CHECK ((planned >= 0)),
    CONSTRAINT evals_evaluation_played_check CHECK ((played >= 0)),
    CONSTRAINT evals_evaluation_tries_check CHECK ((tries >= 0)),
    CONSTRAINT evals_evaluation_unscored_check CHECK ((unscored >= 0))
);

ALTER TABLE public.evals_evaluation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_evaluation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_experiment (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    experiment character varying(100) NOT NULL,
    asked_by character varying(150) NOT NULL,
    project_id bigint NOT NULL
);

ALTER TABLE public.evals_experiment ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_experiment_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_humangrade (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    author character varying(160) NOT NULL,
    value double precision NOT NULL,
    text text NOT NULL,
    item_try_id bigint NOT NULL,
    CONSTRAINT human_grade_is_0_to_1 CHECK (((value >= (0.0)::double precision) AND (value <= (1.0)::double precision)))
);

ALTER TABLE public.evals_humangrade ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_humangrade_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_item (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    split character varying(16) NOT NULL,
    prompt text NOT NULL,
    messages jsonb NOT NULL,
    reference jsonb,
    checks jsonb,
    seed bigint,
    weight double precision NOT NULL,
    source character varying(200) NOT NULL,
    content_hash character varying(64) NOT NULL,
    bands bigint[] NOT NULL,
    taskset_id bigint NOT NULL,
    category character varying(64) DEFAULT ''::character varying NOT NULL,
    answer text DEFAULT ''::text NOT NULL,
    CONSTRAINT item_split_is_known CHECK (((split)::text = ANY ((ARRAY['train'::character varying, 'held_out'::character varying, 'skills'::character varying])::text[]))),
    CONSTRAINT item_weight_is_0_to_100 CHECK (((weight > (0.0)::double precision) AND (weight <= (100.0)::double precision)))
);

ALTER TABLE public.evals_item ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_item_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_itemtry (
    id bigint NOT NULL,
    place integer NOT NULL,
    key bigint NOT NULL,
    number smallint NOT NULL,
    outcome double precision,
    step_score double precision,
    cause character varying(16) NOT NULL,
    reason character varying(300) NOT NULL,
    traits jsonb,
    grader character varying(64) NOT NULL,
    evaluation_id bigint NOT NULL,
    answer text DEFAULT ''::text NOT NULL,
    weight double precision DEFAULT 1.0 NOT NULL,
    category character varying(64) DEFAULT ''::character varying NOT NULL,
    completion_tokens integer,
    cost_usd numeric(14,8),
    prompt_tokens integer,
    seconds double precision,
    turns smallint,
    CONSTRAINT a_try_has_an_outcome_or_a_cause CHECK (((((cause)::text = ''::text) AND (outcome IS NOT NULL)) OR ((outcome IS NULL) AND (NOT ((cause)::text = ''::text))))),
    CONSTRAINT evals_itemtry_completion_tokens_check CHECK ((completion_tokens >= 0)),
    CONSTRAINT evals_itemtry_number_check CHECK ((number >= 0)),
    CONSTRAINT evals_itemtry_place_check CHECK ((place >= 0)),
    CONSTRAINT evals_itemtry_prompt_tokens_check CHECK ((prompt_tokens >= 0)),
    CONSTRAINT evals_itemtry_turns_check CHECK ((turns >= 0))
);

ALTER TABLE public.evals_itemtry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_itemtry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_regressioncase (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    feedback_id bigint,
    kept_by character varying(160) NOT NULL,
    adapter_id bigint,
    grade_id bigint,
    item_id bigint NOT NULL,
    worker_id bigint NOT NULL
);

ALTER TABLE public.evals_regressioncase ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_regressioncase_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_scenario (
    id bigint NOT NULL,
    scenario character varying(100) NOT NULL,
    candidate_id bigint NOT NULL,
    reference_id bigint NOT NULL,
    run_id bigint NOT NULL
);

ALTER TABLE public.evals_scenario ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_scenario_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_taskset (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    version integer NOT NULL,
    environment character varying(64) NOT NULL,
    origin character varying(16) NOT NULL,
    about text NOT NULL,
    frozen_at timestamp with time zone,
    project_id bigint NOT NULL,
    CONSTRAINT evals_taskset_version_check CHECK ((version >= 0))
);

ALTER TABLE public.evals_taskset ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.evals_taskset_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.evals_tryrecord (
    item_try_id bigint NOT NULL,
    text text NOT NULL,
    answer text NOT NULL,
    steps jsonb NOT NULL,
    messages jsonb NOT NULL,
    prompt_hash character varying(32) NOT NULL,
    request jsonb NOT NULL,
    sampling jsonb NOT NULL,
    verification jsonb,
    error text NOT NULL,
    served_by character varying(200) NOT NULL,
    finish_reason character varying(32) NOT NULL,
    turn_tokens jsonb NOT NULL,
    cached_tokens integer NOT NULL,
    token_ids bytea NOT NULL,
    logprobs bytea NOT NULL,
    CONSTRAINT evals_tryrecord_cached_tokens_check CHECK ((cached_tokens >= 0))
);

CREATE TABLE public.feedback_bulkjudgement (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    filters jsonb NOT NULL,
    words jsonb NOT NULL,
    state character varying(16) NOT NULL,
    total integer NOT NULL,
    done integer NOT NULL,
    last_review_id bigint NOT NULL,
    report jsonb NOT NULL,
    by_id bigint NOT NULL,
    project_id bigint NOT NULL,
    last_undone_id bigint NOT NULL,
    undone integer NOT NULL,
    action character varying(16) DEFAULT 'judge'::character varying NOT NULL,
    chosen jsonb DEFAULT '[]'::jsonb NOT NULL,
    failure text DEFAULT ''::text NOT NULL,
    CONSTRAINT feedback_bulkjudgement_done_check CHECK ((done >= 0)),
    CONSTRAINT feedback_bulkjudgement_total_check CHECK ((total >= 0)),
    CONSTRAINT feedback_bulkjudgement_undone_check CHECK ((undone >= 0))
);

ALTER TABLE public.feedback_bulkjudgement ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_bulkjudgement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_feedback (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    source character varying(8) NOT NULL,
    author character varying(120) NOT NULL,
    score double precision,
    text text NOT NULL,
    edited_answer text NOT NULL,
    trust double precision NOT NULL,
    preferred_attempt_id bigint,
    project_id bigint NOT NULL,
    task_id bigint NOT NULL,
    review_id bigint,
    active_s double precision,
    hint_text text NOT NULL,
    none_good boolean NOT NULL,
    ranking jsonb NOT NULL,
    retract_reason character varying(300) NOT NULL,
    retracted_at timestamp with time zone,
    retracted_by character varying(120) NOT NULL,
    shown_order jsonb NOT NULL,
    undo_until timestamp with time zone,
    in_bulk_id bigint,
    judge jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT feedback_score_is_0_to_1 CHECK (((score IS NULL) OR ((score >= (0.0)::double precision) AND (score <= (1.0)::double precision))))
);

ALTER TABLE public.feedback_feedback ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_feedback_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_golditem (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expected jsonb NOT NULL,
    truth character varying(16) NOT NULL,
    removed_at timestamp with time zone,
    added_by_id bigint NOT NULL,
    project_id bigint NOT NULL,
    task_id bigint NOT NULL,
    reference_id bigint
);

ALTER TABLE public.feedback_golditem ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_golditem_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_hint (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    text text NOT NULL,
    source character varying(64) NOT NULL,
    reason character varying(300) NOT NULL,
    feedback_id bigint NOT NULL,
    task_id bigint NOT NULL
);

ALTER TABLE public.feedback_hint ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_hint_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_review (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    audience character varying(8) NOT NULL,
    reason character varying(300) NOT NULL,
    state character varying(16) NOT NULL,
    lease_until timestamp with time zone,
    due_at timestamp with time zone,
    closed_at timestamp with time zone,
    claimed_by_id bigint,
    project_id bigint NOT NULL,
    task_id bigint NOT NULL,
    about_id bigint,
    assigned_to_id bigint,
    needs_expert boolean NOT NULL,
    priority double precision NOT NULL,
    purpose character varying(8) NOT NULL,
    rank_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    snoozed_until timestamp with time zone,
    lowest_score double precision,
    appellant_id bigint,
    CONSTRAINT review_priority_is_0_to_1 CHECK (((priority >= (0.0)::double precision) AND (priority <= (1.0)::double precision)))
);

ALTER TABLE public.feedback_review ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_review_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_reviewdraft (
    id bigint NOT NULL,
    data jsonb NOT NULL,
    version integer NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    review_id bigint NOT NULL,
    user_id bigint NOT NULL,
    CONSTRAINT feedback_reviewdraft_version_check CHECK ((version >= 0))
);

ALTER TABLE public.feedback_reviewdraft ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_reviewdraft_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_reviewskip (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    reason character varying(300) NOT NULL,
    "then" character varying(8) NOT NULL,
    review_id bigint NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.feedback_reviewskip ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_reviewskip_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_rowimport (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    environment character varying(16) NOT NULL,
    kind character varying(16) NOT NULL,
    file character varying(200) NOT NULL,
    sha256 character varying(64) NOT NULL,
    text text NOT NULL,
    state character varying(16) NOT NULL,
    total integer NOT NULL,
    done integer NOT NULL,
    by_id bigint NOT NULL,
    project_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    failure text DEFAULT ''::text NOT NULL,
    CONSTRAINT feedback_rowimport_done_check CHECK ((done >= 0)),
    CONSTRAINT feedback_rowimport_total_check CHECK ((total >= 0))
);

ALTER TABLE public.feedback_rowimport ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_rowimport_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feedback_stepfeedback (
    id bigint NOT NULL,
    score double precision,
    comment text NOT NULL,
    attempt_id bigint NOT NULL,
    feedback_id bigint NOT NULL,
    step_id bigint,
    spans jsonb NOT NULL,
    items jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT step_feedback_is_0_to_1 CHECK (((score IS NULL) OR ((score >= (0.0)::double precision) AND (score <= (1.0)::double precision))))
);

ALTER TABLE public.feedback_stepfeedback ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.feedback_stepfeedback_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.gate_answerpair (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    is_swapped boolean NOT NULL,
    said double precision,
    by character varying(120) NOT NULL,
    adapter_id bigint NOT NULL,
    mine_id bigint NOT NULL,
    task_id bigint,
    theirs_id bigint NOT NULL,
    CONSTRAINT pair_is_said_0_to_1 CHECK (((said IS NULL) OR ((said >= (0.0)::double precision) AND (said <= (1.0)::double precision))))
);

ALTER TABLE public.gate_answerpair ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.gate_answerpair_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_exchange (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    worker_name character varying(64) NOT NULL,
    model character varying(200) NOT NULL,
    adapter_name character varying(200) NOT NULL,
    policy_version integer NOT NULL,
    messages jsonb NOT NULL,
    text text NOT NULL,
    tool_calls jsonb NOT NULL,
    finish_reason character varying(32) NOT NULL,
    prompt_token_ids bytea NOT NULL,
    token_ids bytea NOT NULL,
    logprobs bytea NOT NULL,
    sampled bytea NOT NULL,
    prompt_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    latency_ms double precision,
    error text NOT NULL,
    project_id bigint NOT NULL,
    provider_id bigint,
    session_id bigint,
    agent character varying(160) NOT NULL,
    api character varying(16) NOT NULL,
    cached_tokens integer NOT NULL,
    choice smallint NOT NULL,
    cost_usd numeric(14,8),
    first_token_ms double precision,
    is_mixed boolean NOT NULL,
    is_streamed boolean NOT NULL,
    is_truncated boolean NOT NULL,
    parent_id bigint,
    public_id uuid DEFAULT gen_random_uuid() NOT NULL,
    reasoning text NOT NULL,
    request jsonb NOT NULL,
    shared_messages integer NOT NULL,
    shared_tokens integer NOT NULL,
    status smallint NOT NULL,
    step_index integer,
    task_id bigint,
    turn character varying(8) NOT NULL,
    upstream character varying(500) NOT NULL,
    thinking_blocks jsonb,
    token character varying(32) DEFAULT ''::character varying NOT NULL,
    top_logprobs bytea DEFAULT '\x'::bytea NOT NULL,
    top_token_ids bytea DEFAULT '\x'::bytea NOT NULL,
    retry smallint DEFAULT 0 NOT NULL,
    sampling jsonb DEFAULT '{}'::jsonb NOT NULL,
    fallback_reason text DEFAULT ''::text NOT NULL,
    deleted_at timestamp with time zone,
    attempt_index smallint,
    CONSTRAINT inference_exchange_attempt_index_check CHECK ((attempt_index >= 0)),
    CONSTRAINT inference_exchange_cached_tokens_check CHECK ((cached_tokens >= 0)),
    CONSTRAINT inference_exchange_choice_check CHECK ((choice >= 0)),
    CONSTRAINT inference_exchange_completion_tokens_check CHECK ((completion_tokens >= 0)),
    CONSTRAINT inference_exchange_policy_version_check CHECK ((policy_version >= 0)),
    CONSTRAINT inference_exchange_prompt_tokens_check CHECK ((prompt_tokens >= 0)),
    CONSTRAINT inference_exchange_retry_check CHECK ((retry >= 0)),
    CONSTRAINT inference_exchange_shared_messages_check CHECK ((shared_messages >= 0)),
    CONSTRAINT inference_exchange_shared_tokens_check CHECK ((shared_tokens >= 0)),
    CONSTRAINT inference_exchange_status_check CHECK ((status >= 0)),
    CONSTRAINT inference_exchange_step_index_check CHECK ((step_index >= 0))
);

ALTER TABLE public.inference_exchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_exchange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_price (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    kind character varying(16) NOT NULL,
    model character varying(200) NOT NULL,
    input numeric(12,6) NOT NULL,
    output numeric(12,6) NOT NULL,
    cached_input numeric(12,6),
    valid_from timestamp with time zone NOT NULL,
    provider_id bigint,
    source character varying(500) NOT NULL,
    CONSTRAINT price_is_not_negative CHECK (((input >= (0)::numeric) AND (output >= (0)::numeric) AND ((cached_input IS NULL) OR (cached_input >= (0)::numeric)))),
    CONSTRAINT price_is_of_a_provider_or_a_kind CHECK ((((provider_id IS NOT NULL) OR (NOT ((kind)::text = ''::text))) AND (1 = (
CASE
    WHEN (provider_id IS NOT NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (NOT ((kind)::text = ''::text)) THEN 1
    ELSE 0
END))))
);

ALTER TABLE public.inference_price ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_price_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_provider (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(64) NOT NULL,
    kind character varying(16) NOT NULL,
    base_url character varying(500) NOT NULL,
    api_key_sealed bytea NOT NULL,
    default_model character varying(200) NOT NULL,
    is_active boolean NOT NULL,
    project_id bigint,
    allow_private boolean NOT NULL,
    more_urls jsonb NOT NULL,
    requests_per_minute integer,
    timeout_s double precision,
    tokens_per_minute integer,
    probe jsonb NOT NULL,
    probed_at timestamp with time zone,
    tells_processed boolean DEFAULT false NOT NULL,
    granted_to character varying(8) DEFAULT 'listed'::character varying NOT NULL,
    CONSTRAINT inference_provider_requests_per_minute_check CHECK ((requests_per_minute >= 0)),
    CONSTRAINT inference_provider_tokens_per_minute_check CHECK ((tokens_per_minute >= 0))
);

ALTER TABLE public.inference_provider ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_provider_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_providergrant (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    tokens_per_day bigint,
    usd_per_month double precision,
    granted_by character varying(160) NOT NULL,
    project_id bigint NOT NULL,
    provider_id bigint NOT NULL,
    CONSTRAINT grant_allows_something CHECK ((((tokens_per_day IS NULL) OR (tokens_per_day >= 1)) AND ((usd_per_month IS NULL) OR (usd_per_month > (0.0)::double precision)))),
    CONSTRAINT inference_providergrant_tokens_per_day_check CHECK ((tokens_per_day >= 0))
);

ALTER TABLE public.inference_providergrant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_providergrant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_session (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    key character varying(200) NOT NULL,
    worker_name character varying(64) NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    project_id bigint NOT NULL,
    agent character varying(160) NOT NULL,
    end_user character varying(200) NOT NULL,
    is_named boolean DEFAULT true NOT NULL,
    thread character varying(32) DEFAULT ''::character varying NOT NULL
);

ALTER TABLE public.inference_session ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.inference_spoolposition (
    id bigint NOT NULL,
    name character varying(200) NOT NULL,
    segment bigint NOT NULL,
    "offset" bigint NOT NULL,
    CONSTRAINT inference_spoolposition_offset_check CHECK (("offset" >= 0)),
    CONSTRAINT inference_spoolposition_segment_check CHECK ((segment >= 0))
);

ALTER TABLE public.inference_spoolposition ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inference_spoolposition_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.judges_judgeprobe (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    model character varying(200) NOT NULL,
    version character varying(12) NOT NULL,
    state character varying(16) NOT NULL,
    answers jsonb NOT NULL,
    figures jsonb NOT NULL,
    verdict character varying(16) NOT NULL,
    words text NOT NULL,
    failure text NOT NULL,
    asked_by character varying(150) NOT NULL,
    finished_at timestamp with time zone,
    first_id bigint,
    project_id bigint NOT NULL,
    provider_id bigint,
    CONSTRAINT a_probe_that_is_done_has_a_verdict CHECK (((((state)::text = 'done'::text) AND (NOT ((verdict)::text = ''::text))) OR ((NOT ((state)::text = 'done'::text)) AND ((verdict)::text = ''::text))))
);

ALTER TABLE public.judges_judgeprobe ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.judges_judgeprobe_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.operations_alarm (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    rule character varying(40) NOT NULL,
    subject character varying(100) NOT NULL,
    words character varying(500) NOT NULL,
    state character varying(8) NOT NULL,
    closed_at timestamp with time zone,
    told character varying(8) NOT NULL,
    mail_tries smallint DEFAULT 0 NOT NULL,
    mail_after timestamp with time zone,
    mail_fault character varying(500) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT operations_alarm_mail_tries_check CHECK ((mail_tries >= 0))
);

ALTER TABLE public.operations_alarm ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.operations_alarm_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.operations_serverlook (
    id bigint NOT NULL,
    provider_id bigint NOT NULL,
    name character varying(100) NOT NULL,
    projects jsonb NOT NULL,
    looked_at timestamp with time zone NOT NULL,
    away_since timestamp with time zone,
    words character varying(500) NOT NULL,
    latency_ms double precision
);

ALTER TABLE public.operations_serverlook ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.operations_serverlook_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.operations_spancursor (
    id bigint NOT NULL,
    endpoint character varying(500) NOT NULL,
    epoch integer NOT NULL,
    xid bigint NOT NULL,
    entry_id bigint NOT NULL,
    exchange_id bigint NOT NULL
);

ALTER TABLE public.operations_spancursor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.operations_spancursor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.outbox_segment (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    kind character varying(32) NOT NULL,
    subject_id bigint NOT NULL,
    project_id bigint,
    state character varying(16) NOT NULL,
    links jsonb NOT NULL,
    "position" smallint NOT NULL,
    queue character varying(32) NOT NULL,
    published_at timestamp with time zone,
    run_after timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    fence uuid,
    lease_until timestamp with time zone,
    lease_owner character varying(120) NOT NULL,
    attempts smallint NOT NULL,
    errors jsonb NOT NULL,
    finished_at timestamp with time zone,
    away_since timestamp with time zone,
    CONSTRAINT a_fence_has_a_lease CHECK ((((fence IS NULL) AND (lease_until IS NULL)) OR ((fence IS NOT NULL) AND (lease_until IS NOT NULL)))),
    CONSTRAINT outbox_segment_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT outbox_segment_position_check CHECK (("position" >= 0))
);

ALTER TABLE public.outbox_segment ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.outbox_segment_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.regrading_regrade (
    id bigint NOT NULL,
    subject_id bigint NOT NULL,
    old double precision,
    new double precision,
    cause character varying(300) NOT NULL,
    details jsonb NOT NULL,
    regrading_id bigint NOT NULL,
    CONSTRAINT a_new_grade_or_a_cause CHECK (((((cause)::text = ''::text) AND (new IS NOT NULL)) OR ((new IS NULL) AND (NOT ((cause)::text = ''::text)))))
);

ALTER TABLE public.regrading_regrade ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.regrading_regrade_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.regrading_regrading (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    source character varying(16) NOT NULL,
    rule jsonb NOT NULL,
    graders jsonb NOT NULL,
    last_id bigint NOT NULL,
    side double precision NOT NULL,
    state character varying(16) NOT NULL,
    planned integer NOT NULL,
    graded integer NOT NULL,
    unscored integer NOT NULL,
    counts jsonb NOT NULL,
    failure text NOT NULL,
    asked_by character varying(150) NOT NULL,
    finished_at timestamp with time zone,
    evaluation_id bigint,
    project_id bigint NOT NULL,
    worker_id bigint,
    CONSTRAINT regrading_regrading_graded_check CHECK ((graded >= 0)),
    CONSTRAINT regrading_regrading_planned_check CHECK ((planned >= 0)),
    CONSTRAINT regrading_regrading_unscored_check CHECK ((unscored >= 0))
);

ALTER TABLE public.regrading_regrading ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.regrading_regrading_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rollouts_batch (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    state character varying(16) NOT NULL,
    target_tasks integer NOT NULL,
    task_count integer NOT NULL,
    rollout_count integer NOT NULL,
    closed_at timestamp with time zone,
    project_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    end_user character varying(200) NOT NULL,
    kind character varying(16) DEFAULT 'rollouts'::character varying NOT NULL,
    CONSTRAINT rollouts_batch_number_check CHECK ((number >= 0)),
    CONSTRAINT rollouts_batch_rollout_count_check CHECK ((rollout_count >= 0)),
    CONSTRAINT rollouts_batch_target_tasks_check CHECK ((target_tasks >= 0)),
    CONSTRAINT rollouts_batch_task_count_check CHECK ((task_count >= 0))
);

ALTER TABLE public.rollouts_batch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rollouts_batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rollouts_demonstration (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    end_user character varying(200) NOT NULL,
    text text NOT NULL,
    kept_tokens integer NOT NULL,
    messages jsonb NOT NULL,
    weight double precision NOT NULL,
    digest character varying(64) NOT NULL,
    unusable_reason character varying(300) NOT NULL,
    source character varying(16) NOT NULL,
    attempt_id bigint,
    batch_id bigint,
    feedback_id bigint,
    project_id bigint NOT NULL,
    task_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    CONSTRAINT demonstration_weight_is_0_to_1 CHECK (((weight > (0.0)::double precision) AND (weight <= (1.0)::double precision))),
    CONSTRAINT rollouts_demonstration_kept_tokens_check CHECK ((kept_tokens >= 0))
);

ALTER TABLE public.rollouts_demonstration ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rollouts_demonstration_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rollouts_preferencepair (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    end_user character varying(200) NOT NULL,
    text text NOT NULL,
    kept_tokens integer NOT NULL,
    messages jsonb NOT NULL,
    weight double precision NOT NULL,
    digest character varying(64) NOT NULL,
    unusable_reason character varying(300) NOT NULL,
    source character varying(16) NOT NULL,
    rejected_text text NOT NULL,
    batch_id bigint,
    chosen_id bigint,
    feedback_id bigint,
    project_id bigint NOT NULL,
    rejected_id bigint,
    task_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    CONSTRAINT a_pair_has_two_answers CHECK ((((chosen_id IS NULL) OR (text = ''::text)) AND (1 = (
CASE
    WHEN (chosen_id IS NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (text = ''::text) THEN 1
    ELSE 0
END)) AND (((rejected_id IS NULL) OR (rejected_text = ''::text)) AND (1 = (
CASE
    WHEN (rejected_id IS NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (rejected_text = ''::text) THEN 1
    ELSE 0
END))))),
    CONSTRAINT preferencepair_weight_is_0_to_1 CHECK (((weight > (0.0)::double precision) AND (weight <= (1.0)::double precision))),
    CONSTRAINT rollouts_preferencepair_kept_tokens_check CHECK ((kept_tokens >= 0))
);

ALTER TABLE public.rollouts_preferencepair ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rollouts_preferencepair_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rollouts_rollout (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    is_usable boolean NOT NULL,
    unusable_reason character varying(300) NOT NULL,
    reward double precision,
    reward_source character varying(16) NOT NULL,
    steps jsonb NOT NULL,
    missing_steps smallint NOT NULL,
    weight double precision NOT NULL,
    adapter_id bigint,
    attempt_id bigint NOT NULL,
    hint_id bigint,
    project_id bigint NOT NULL,
    task_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    hint_weight double precision,
    CONSTRAINT an_unusable_rollout_has_a_reason CHECK (((is_usable AND ((unusable_reason)::text = ''::text)) OR ((NOT is_usable) AND (NOT ((unusable_reason)::text = ''::text))))),
    CONSTRAINT reward_is_0_to_1 CHECK (((reward IS NULL) OR ((reward >= (0.0)::double precision) AND (reward <= (1.0)::double precision)))),
    CONSTRAINT rollouts_rollout_missing_steps_check CHECK ((missing_steps >= 0))
);

ALTER TABLE public.rollouts_rollout ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rollouts_rollout_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rollouts_traininguse (
    rollout_id bigint NOT NULL,
    batch_id bigint NOT NULL
);

CREATE TABLE public.scoring_rewardmodel (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(200) NOT NULL,
    version integer NOT NULL,
    run_id bigint NOT NULL,
    uri character varying(1000) NOT NULL,
    sha256 character varying(64) NOT NULL,
    manifest jsonb NOT NULL,
    state character varying(16) NOT NULL,
    words character varying(500) NOT NULL,
    measured jsonb NOT NULL,
    project_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    barred character varying(300) NOT NULL,
    CONSTRAINT scoring_rewardmodel_version_check CHECK ((version >= 0))
);

ALTER TABLE public.scoring_rewardmodel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scoring_rewardmodel_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.scoring_steplabel (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    source character varying(16) NOT NULL,
    value double precision NOT NULL,
    details jsonb NOT NULL,
    attempt_id bigint NOT NULL,
    step_id bigint NOT NULL,
    CONSTRAINT step_label_is_0_to_1 CHECK (((value >= (0.0)::double precision) AND (value <= (1.0)::double precision)))
);

ALTER TABLE public.scoring_steplabel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scoring_steplabel_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.scoring_stepscore (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    scorer character varying(64) NOT NULL,
    score double precision,
    reason text NOT NULL,
    spread double precision,
    details jsonb NOT NULL,
    attempt_id bigint NOT NULL,
    step_id bigint,
    CONSTRAINT a_score_is_0_to_1_or_has_a_reason CHECK ((((score >= (0.0)::double precision) AND (score <= (1.0)::double precision)) OR ((score IS NULL) AND (NOT (reason = ''::text)))))
);

ALTER TABLE public.scoring_stepscore ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scoring_stepscore_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.skills_skill (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    version integer NOT NULL,
    description character varying(500) NOT NULL,
    body text NOT NULL,
    is_active boolean NOT NULL,
    project_id bigint NOT NULL,
    CONSTRAINT skills_skill_version_check CHECK ((version >= 0))
);

ALTER TABLE public.skills_skill ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.skills_skill_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.supervision_proposal (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    step_index smallint,
    kind character varying(8) NOT NULL,
    tool character varying(100) NOT NULL,
    action jsonb NOT NULL,
    context text NOT NULL,
    risk character varying(1000) NOT NULL,
    reason character varying(300) NOT NULL,
    state character varying(16) NOT NULL,
    deadline_at timestamp with time zone,
    on_timeout character varying(8) NOT NULL,
    decided_by character varying(120) NOT NULL,
    decided_at timestamp with time zone,
    decision jsonb NOT NULL,
    attempt_id bigint,
    project_id bigint NOT NULL,
    proposed_by_id bigint,
    task_id bigint NOT NULL,
    call smallint,
    turn smallint,
    CONSTRAINT proposal_is_decided_or_has_a_deadline CHECK ((((deadline_at IS NOT NULL) AND (decided_at IS NULL) AND ((state)::text = 'pending'::text)) OR ((NOT ((state)::text = 'pending'::text)) AND (decided_at IS NOT NULL)))),
    CONSTRAINT supervision_proposal_call_check CHECK ((call >= 0)),
    CONSTRAINT supervision_proposal_step_index_check CHECK ((step_index >= 0)),
    CONSTRAINT supervision_proposal_turn_check CHECK ((turn >= 0))
);

ALTER TABLE public.supervision_proposal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.supervision_proposal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tasks_attempt (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    index smallint NOT NULL,
    state character varying(16) NOT NULL,
    text text NOT NULL,
    answer text NOT NULL,
    error text NOT NULL,
    outcome double precision,
    score double precision,
    score_details jsonb NOT NULL,
    missing_steps smallint NOT NULL,
    elapsed_s double precision,
    adapter_id bigint,
    exchange_id bigint,
    worker_id bigint NOT NULL,
    task_id bigint NOT NULL,
    hidden jsonb DEFAULT '[]'::jsonb NOT NULL,
    is_private boolean DEFAULT false NOT NULL,
    unfit character varying(300) DEFAULT ''::character varying NOT NULL,
    verification jsonb,
    CONSTRAINT attempt_outcome_is_0_to_1 CHECK (((outcome IS NULL) OR ((outcome >= (0.0)::double precision) AND (outcome <= (1.0)::double precision)))),
    CONSTRAINT attempt_score_is_0_to_1 CHECK (((score IS NULL) OR ((score >= (0.0)::double precision) AND (score <= (1.0)::double precision)))),
    CONSTRAINT tasks_attempt_index_check CHECK ((index >= 0)),
    CONSTRAINT tasks_attempt_missing_steps_check CHECK ((missing_steps >= 0))
);

ALTER TABLE public.tasks_attempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tasks_episodeturn (
    id bigint NOT NULL,
    index smallint NOT NULL,
    added jsonb,
    calls jsonb NOT NULL,
    observations jsonb,
    state_hash character varying(64) NOT NULL,
    snapshot bytea,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    attempt_id bigint NOT NULL,
    exchange_id bigint,
    CONSTRAINT tasks_episodeturn_index_check CHECK ((index >= 0))
);

ALTER TABLE public.tasks_episodeturn ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_episodeturn_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tasks_furtherexchange (
    exchange_id bigint NOT NULL,
    place smallint NOT NULL,
    attempt_id bigint NOT NULL,
    CONSTRAINT tasks_furtherexchange_place_check CHECK ((place >= 0))
);

CREATE TABLE public.tasks_shadowattempt (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    answer text NOT NULL,
    error text NOT NULL,
    outcome double precision,
    score double precision,
    details jsonb NOT NULL,
    exchange_id bigint,
    shadow_id bigint NOT NULL,
    task_id bigint NOT NULL
);

ALTER TABLE public.tasks_shadowattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_shadowattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tasks_step (
    id bigint NOT NULL,
    index smallint NOT NULL,
    kind character varying(16) NOT NULL,
    text text NOT NULL,
    tool_name character varying(100) NOT NULL,
    tool_result text NOT NULL,
    token_start integer,
    token_end integer,
    attempt_id bigint NOT NULL,
    token_overlap integer,
    CONSTRAINT tasks_step_index_check CHECK ((index >= 0)),
    CONSTRAINT tasks_step_token_end_check CHECK ((token_end >= 0)),
    CONSTRAINT tasks_step_token_overlap_check CHECK ((token_overlap >= 0)),
    CONSTRAINT tasks_step_token_start_check CHECK ((token_start >= 0))
);

ALTER TABLE public.tasks_step ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_step_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tasks_task (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    environment character varying(32) NOT NULL,
    prompt text NOT NULL,
    reference jsonb,
    metadata jsonb NOT NULL,
    group_size smallint NOT NULL,
    seed bigint,
    state character varying(16) NOT NULL,
    answer text NOT NULL,
    score double precision,
    failed_link character varying(64) NOT NULL,
    failure text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    parent_id bigint,
    project_id bigint NOT NULL,
    submitted_by_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    bands bigint[],
    checks jsonb,
    evaluation_id bigint,
    pins jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT task_group_is_1_to_64 CHECK (((group_size >= 1) AND (group_size <= 64))),
    CONSTRAINT task_is_part_of_an_earlier_one CHECK (((parent_id IS NULL) OR (parent_id < id))),
    CONSTRAINT tasks_task_group_size_check CHECK ((group_size >= 0))
);

ALTER TABLE public.tasks_task ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_course (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    rounds_wanted smallint NOT NULL,
    tasks_a_round smallint NOT NULL,
    group_size smallint NOT NULL,
    patience smallint NOT NULL,
    backend character varying(16) NOT NULL,
    recipe jsonb NOT NULL,
    rule jsonb NOT NULL,
    seed bigint NOT NULL,
    state character varying(16) NOT NULL,
    reason character varying(500) NOT NULL,
    finished_at timestamp with time zone,
    benchmark_id bigint NOT NULL,
    project_id bigint NOT NULL,
    started_by_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    shown smallint DEFAULT 0 NOT NULL,
    shown_recipe jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT training_course_group_size_check CHECK ((group_size >= 0)),
    CONSTRAINT training_course_patience_check CHECK ((patience >= 0)),
    CONSTRAINT training_course_rounds_wanted_check CHECK ((rounds_wanted >= 0)),
    CONSTRAINT training_course_shown_check CHECK ((shown >= 0)),
    CONSTRAINT training_course_tasks_a_round_check CHECK ((tasks_a_round >= 0))
);

ALTER TABLE public.training_course ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_course_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_courseround (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    number smallint NOT NULL,
    items jsonb NOT NULL,
    choice jsonb NOT NULL,
    results jsonb NOT NULL,
    is_better boolean,
    words character varying(500) NOT NULL,
    finished_at timestamp with time zone,
    course_id bigint NOT NULL,
    run_id bigint,
    CONSTRAINT training_courseround_number_check CHECK ((number >= 0))
);

ALTER TABLE public.training_courseround ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_courseround_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_gpulease (
    id bigint NOT NULL,
    slot character varying(64) NOT NULL,
    expires_at timestamp with time zone,
    run_id bigint
);

ALTER TABLE public.training_gpulease ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_gpulease_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_managerrun (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    manager character varying(120) NOT NULL,
    weights jsonb NOT NULL,
    metrics jsonb NOT NULL,
    project_id bigint NOT NULL,
    audits integer NOT NULL,
    before jsonb NOT NULL,
    kind character varying(16) NOT NULL,
    parent_id bigint,
    run_id bigint,
    state character varying(16) NOT NULL,
    words character varying(500) NOT NULL,
    learnt_from jsonb NOT NULL,
    adapter jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT training_managerrun_audits_check CHECK ((audits >= 0))
);

ALTER TABLE public.training_managerrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_managerrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_rewardanswer (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    query_sha256 character varying(64) NOT NULL,
    answer jsonb NOT NULL,
    run_id bigint NOT NULL,
    task_id bigint NOT NULL
);

ALTER TABLE public.training_rewardanswer ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_rewardanswer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_rewarddoor (
    id bigint NOT NULL,
    attempt smallint NOT NULL,
    secret_hash character varying(64) NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    run_id bigint NOT NULL,
    CONSTRAINT training_rewarddoor_attempt_check CHECK ((attempt >= 0))
);

ALTER TABLE public.training_rewarddoor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_rewarddoor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.training_trainingrun (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    backend character varying(16) NOT NULL,
    recipe jsonb NOT NULL,
    recipe_hash character varying(64) NOT NULL,
    seed bigint NOT NULL,
    state character varying(16) NOT NULL,
    attempt smallint NOT NULL,
    spec jsonb NOT NULL,
    metrics jsonb NOT NULL,
    summary jsonb NOT NULL,
    versions jsonb NOT NULL,
    failure text NOT NULL,
    heartbeat_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    batch_id bigint,
    parent_id bigint,
    project_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    alarms jsonb NOT NULL,
    checkpoint_uri character varying(1000) NOT NULL,
    cost jsonb NOT NULL,
    end_user character varying(200) NOT NULL,
    external_id character varying(120) NOT NULL,
    gates jsonb NOT NULL,
    not_before timestamp with time zone,
    priority smallint NOT NULL,
    purpose character varying(16) NOT NULL,
    tracking jsonb NOT NULL,
    waiting_reason character varying(300) NOT NULL,
    forgetting_id bigint,
    rebuilds_id bigint,
    learnt_from jsonb NOT NULL,
    last_letter bigint NOT NULL,
    notes jsonb DEFAULT '[]'::jsonb NOT NULL,
    silences smallint DEFAULT 0 NOT NULL,
    untaken_since timestamp with time zone,
    comment text DEFAULT ''::text NOT NULL,
    name character varying(100) DEFAULT ''::character varying NOT NULL,
    tags jsonb DEFAULT '[]'::jsonb NOT NULL,
    past_attempts jsonb DEFAULT '[]'::jsonb NOT NULL,
    begun_at timestamp with time zone,
    CONSTRAINT a_policy_run_has_a_batch CHECK (((NOT ((purpose)::text = 'policy'::text)) OR (batch_id IS NOT NULL))),
    CONSTRAINT training_trainingrun_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT training_trainingrun_silences_check CHECK ((silences >= 0))
);

ALTER TABLE public.training_trainingrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.training_trainingrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhooks_delivery (
    id bigint NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    event_id uuid NOT NULL,
    entry_id bigint,
    kind character varying(40) NOT NULL,
    body jsonb NOT NULL,
    state character varying(16) NOT NULL,
    attempts smallint NOT NULL,
    next_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    status smallint NOT NULL,
    tries jsonb NOT NULL,
    ended_at timestamp with time zone,
    webhook_id bigint NOT NULL,
    CONSTRAINT webhooks_delivery_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT webhooks_delivery_status_check CHECK ((status >= 0))
);

ALTER TABLE public.webhooks_delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhooks_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhooks_webhook (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    url character varying(500) NOT NULL,
    secret_sealed bytea NOT NULL,
    old_secret_sealed bytea NOT NULL,
    old_until timestamp with time zone,
    kinds jsonb NOT NULL,
    include_details boolean NOT NULL,
    allow_private boolean NOT NULL,
    is_active boolean NOT NULL,
    cursor_xid bigint NOT NULL,
    cursor_id bigint NOT NULL,
    failures integer NOT NULL,
    failing_since timestamp with time zone,
    paused_until timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    disabled_reason character varying(300) NOT NULL,
    fence uuid,
    lease_until timestamp with time zone,
    project_id bigint,
    cursor_epoch integer NOT NULL,
    CONSTRAINT a_sending_webhook_has_a_lease CHECK ((((fence IS NULL) AND (lease_until IS NULL)) OR ((fence IS NOT NULL) AND (lease_until IS NOT NULL)))),
    CONSTRAINT webhooks_webhook_failures_check CHECK ((failures >= 0))
);

ALTER TABLE public.webhooks_webhook ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhooks_webhook_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.workers_ensemble (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(64) NOT NULL,
    members jsonb NOT NULL,
    wait_s smallint NOT NULL,
    project_id bigint NOT NULL,
    CONSTRAINT ensemble_waits_1_to_600_s CHECK (((wait_s >= 1) AND (wait_s <= 600))),
    CONSTRAINT workers_ensemble_wait_s_check CHECK ((wait_s >= 0))
);

ALTER TABLE public.workers_ensemble ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.workers_ensemble_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.workers_worker (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(64) NOT NULL,
    kind character varying(32) NOT NULL,
    base_model character varying(500) NOT NULL,
    base_directory character varying(500) NOT NULL,
    system_prompt text NOT NULL,
    sampling jsonb NOT NULL,
    is_active boolean NOT NULL,
    project_id bigint NOT NULL,
    provider_id bigint,
    supervision jsonb NOT NULL,
    agent_id character varying(64) NOT NULL,
    agent_server_id bigint,
    adapters_per character varying(8) NOT NULL,
    user_batch_tasks integer,
    learns_with_id bigint,
    base_facts jsonb DEFAULT '{}'::jsonb NOT NULL,
    fallbacks jsonb DEFAULT '[]'::jsonb NOT NULL,
    base_compared jsonb DEFAULT '{}'::jsonb NOT NULL,
    base_since timestamp with time zone,
    CONSTRAINT nobody_learns_with_themselves CHECK (((learns_with_id IS NULL) OR (NOT ((learns_with_id = id) AND (learns_with_id IS NOT NULL))))),
    CONSTRAINT user_batch_tasks_is_positive CHECK (((user_batch_tasks IS NULL) OR (user_batch_tasks >= 1))),
    CONSTRAINT workers_worker_user_batch_tasks_check CHECK ((user_batch_tasks >= 0))
);

ALTER TABLE public.workers_worker ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.workers_worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.worlds_repotaskadmission (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(120) NOT NULL,
    split character varying(16) NOT NULL,
    task jsonb NOT NULL,
    repository character varying(64) NOT NULL,
    state character varying(16) NOT NULL,
    runs smallint NOT NULL,
    report jsonb NOT NULL,
    added_as character varying(160) NOT NULL,
    reason text NOT NULL,
    asked_by character varying(150) NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT worlds_repotaskadmission_runs_check CHECK ((runs >= 0))
);

ALTER TABLE public.worlds_repotaskadmission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.worlds_repotaskadmission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.worlds_worldcertificate (
    id bigint NOT NULL,
    world character varying(64) NOT NULL,
    version character varying(64) NOT NULL,
    sha256 character varying(64) NOT NULL,
    passed boolean NOT NULL,
    checks jsonb NOT NULL,
    figures jsonb NOT NULL,
    examined_by character varying(120) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    accepted character varying(300) NOT NULL
);

ALTER TABLE public.worlds_worldcertificate ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.worlds_worldcertificate_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_key_id_key UNIQUE (key_id);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_authenticatorapp
    ADD CONSTRAINT accounts_authenticatorapp_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_authenticatorapp
    ADD CONSTRAINT accounts_authenticatorapp_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.accounts_browsersession
    ADD CONSTRAINT accounts_browsersession_pkey PRIMARY KEY (session_key);

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_code_hash_key UNIQUE (code_hash);

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_member
    ADD CONSTRAINT accounts_member_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_passkey
    ADD CONSTRAINT accounts_passkey_credential_id_key UNIQUE (credential_id);

ALTER TABLE ONLY public.accounts_passkey
    ADD CONSTRAINT accounts_passkey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_project
    ADD CONSTRAINT accounts_project_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_project
    ADD CONSTRAINT accounts_project_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.accounts_recoverycode
    ADD CONSTRAINT accounts_recoverycode_code_hash_key UNIQUE (code_hash);

ALTER TABLE ONLY public.accounts_recoverycode
    ADD CONSTRAINT accounts_recoverycode_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_group_id_59c0b32f_uniq UNIQUE (user_id, group_id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permi_user_id_permission_id_2ab516c2_uniq UNIQUE (user_id, permission_id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_username_key UNIQUE (username);

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapter_version_is_unique UNIQUE (worker_id, version);

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_name_key UNIQUE (name);

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT adapters_deployment_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.adapters_shadow
    ADD CONSTRAINT adapters_shadow_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.adapters_verdict
    ADD CONSTRAINT adapters_verdict_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_idempotencykey
    ADD CONSTRAINT api_idempotencykey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_auditentry
    ADD CONSTRAINT audit_auditentry_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_auditepoch
    ADD CONSTRAINT audit_auditepoch_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.audit_auditseal
    ADD CONSTRAINT audit_auditseal_entry_id_key UNIQUE (entry_id);

ALTER TABLE ONLY public.audit_auditseal
    ADD CONSTRAINT audit_auditseal_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_batch
    ADD CONSTRAINT batch_number_is_unique UNIQUE (worker_id, number);

ALTER TABLE ONLY public.evals_benchmark
    ADD CONSTRAINT benchmark_version_is_unique UNIQUE (project_id, name, version);

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT calibration_comparison_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.calibration_favourscreen
    ADD CONSTRAINT calibration_favourscreen_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.calibration_favourscreen
    ADD CONSTRAINT calibration_favourscreen_project_id_key UNIQUE (project_id);

ALTER TABLE ONLY public.calibration_rater
    ADD CONSTRAINT calibration_rater_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.checks_namedcheck
    ADD CONSTRAINT check_version_is_unique UNIQUE (project_id, name, version);

ALTER TABLE ONLY public.checks_namedcheck
    ADD CONSTRAINT checks_namedcheck_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.console_preference
    ADD CONSTRAINT console_preference_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.console_savedview
    ADD CONSTRAINT console_savedview_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.conversations_conversation
    ADD CONSTRAINT conversations_conversation_pkey PRIMARY KEY (session_id);

ALTER TABLE ONLY public.conversations_forgetting
    ADD CONSTRAINT conversations_forgetting_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_task_id_key UNIQUE (task_id);

ALTER TABLE ONLY public.conversations_turnexchange
    ADD CONSTRAINT conversations_turnexchange_pkey PRIMARY KEY (exchange_id);

ALTER TABLE ONLY public.conversations_turnsignal
    ADD CONSTRAINT conversations_turnsignal_feedback_id_key UNIQUE (feedback_id);

ALTER TABLE ONLY public.conversations_turnsignal
    ADD CONSTRAINT conversations_turnsignal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT demonstration_is_told_once UNIQUE (task_id, digest);

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workers_ensemble
    ADD CONSTRAINT ensemble_name_is_unique UNIQUE (project_id, name);

ALTER TABLE ONLY public.evals_benchmark
    ADD CONSTRAINT evals_benchmark_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_chosenpanel
    ADD CONSTRAINT evals_chosenpanel_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_chosenpanel
    ADD CONSTRAINT evals_chosenpanel_worker_id_key UNIQUE (worker_id);

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_experiment
    ADD CONSTRAINT evals_experiment_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_humangrade
    ADD CONSTRAINT evals_humangrade_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_item
    ADD CONSTRAINT evals_item_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_itemtry
    ADD CONSTRAINT evals_itemtry_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT evals_regressioncase_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_scenario
    ADD CONSTRAINT evals_scenario_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_taskset
    ADD CONSTRAINT evals_taskset_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_tryrecord
    ADD CONSTRAINT evals_tryrecord_pkey PRIMARY KEY (item_try_id);

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT exchange_choice_is_unique UNIQUE (public_id, choice);

ALTER TABLE ONLY public.feedback_bulkjudgement
    ADD CONSTRAINT feedback_bulkjudgement_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_golditem
    ADD CONSTRAINT feedback_golditem_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_hint
    ADD CONSTRAINT feedback_hint_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_reviewdraft
    ADD CONSTRAINT feedback_reviewdraft_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_reviewskip
    ADD CONSTRAINT feedback_reviewskip_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_rowimport
    ADD CONSTRAINT feedback_rowimport_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feedback_stepfeedback
    ADD CONSTRAINT feedback_stepfeedback_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_task_id_key UNIQUE (task_id);

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT inference_exchange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_price
    ADD CONSTRAINT inference_price_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_provider
    ADD CONSTRAINT inference_provider_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_providergrant
    ADD CONSTRAINT inference_providergrant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_session
    ADD CONSTRAINT inference_session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_spoolposition
    ADD CONSTRAINT inference_spoolposition_name_key UNIQUE (name);

ALTER TABLE ONLY public.inference_spoolposition
    ADD CONSTRAINT inference_spoolposition_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.judges_judgeprobe
    ADD CONSTRAINT judges_judgeprobe_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT line_version_is_unique UNIQUE (worker_id, end_user, line_version);

ALTER TABLE ONLY public.api_idempotencykey
    ADD CONSTRAINT one_answer_per_key UNIQUE (user_id, key_hash);

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT one_case_per_item_and_model UNIQUE NULLS NOT DISTINCT (item_id, worker_id, adapter_id);

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT one_comparison_per_item UNIQUE NULLS NOT DISTINCT (rater_id, attempt_id, step_id, source, against);

ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT one_delivery_per_entry UNIQUE (webhook_id, entry_id);

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT one_deployment_per_line UNIQUE (worker_id, end_user);

ALTER TABLE ONLY public.feedback_reviewdraft
    ADD CONSTRAINT one_draft_per_reviewer UNIQUE (review_id, user_id);

ALTER TABLE ONLY public.tasks_furtherexchange
    ADD CONSTRAINT one_exchange_per_place UNIQUE (attempt_id, place);

ALTER TABLE ONLY public.evals_humangrade
    ADD CONSTRAINT one_grade_per_person_and_try UNIQUE (item_try_id, author);

ALTER TABLE ONLY public.feedback_hint
    ADD CONSTRAINT one_hint_per_feedback UNIQUE (feedback_id);

ALTER TABLE ONLY public.evals_item
    ADD CONSTRAINT one_item_per_words UNIQUE (taskset_id, content_hash);

ALTER TABLE ONLY public.scoring_steplabel
    ADD CONSTRAINT one_label_per_source UNIQUE (step_id, source);

ALTER TABLE ONLY public.regrading_regrade
    ADD CONSTRAINT one_new_grade_per_answer UNIQUE (regrading_id, subject_id);

ALTER TABLE ONLY public.calibration_rater
    ADD CONSTRAINT one_rater_per_handle UNIQUE (project_id, handle);

ALTER TABLE ONLY public.training_rewarddoor
    ADD CONSTRAINT one_reward_door_per_attempt UNIQUE (run_id, attempt);

ALTER TABLE ONLY public.training_rewardanswer
    ADD CONSTRAINT one_reward_per_answer UNIQUE (run_id, task_id, query_sha256);

ALTER TABLE ONLY public.accounts_member
    ADD CONSTRAINT one_role_per_member UNIQUE (project_id, user_id);

ALTER TABLE ONLY public.training_courseround
    ADD CONSTRAINT one_round_per_number UNIQUE (course_id, number);

ALTER TABLE ONLY public.evals_itemtry
    ADD CONSTRAINT one_row_per_try UNIQUE (evaluation_id, place, number);

ALTER TABLE ONLY public.evals_scenario
    ADD CONSTRAINT one_scenario_per_name UNIQUE (run_id, scenario);

ALTER TABLE ONLY public.scoring_stepscore
    ADD CONSTRAINT one_score_per_scorer UNIQUE NULLS NOT DISTINCT (attempt_id, step_id, scorer);

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT one_shadow_attempt_per_task UNIQUE (shadow_id, task_id);

ALTER TABLE ONLY public.conversations_turnsignal
    ADD CONSTRAINT one_signal_per_place UNIQUE NULLS NOT DISTINCT (turn_id, step);

ALTER TABLE ONLY public.tasks_step
    ADD CONSTRAINT one_step_per_place UNIQUE (attempt_id, index);

ALTER TABLE ONLY public.tasks_episodeturn
    ADD CONSTRAINT one_turn_of_an_attempt_per_place UNIQUE (attempt_id, index);

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT one_turn_per_place UNIQUE (session_id, number);

ALTER TABLE ONLY public.adapters_verdict
    ADD CONSTRAINT one_verdict_per_question UNIQUE (adapter_id, question);

ALTER TABLE ONLY public.console_savedview
    ADD CONSTRAINT one_view_of_a_name UNIQUE NULLS NOT DISTINCT (project_id, owner_id, page, name);

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT one_word_per_pair_and_judge UNIQUE (mine_id, theirs_id, by);

ALTER TABLE ONLY public.feedback_stepfeedback
    ADD CONSTRAINT one_word_per_step UNIQUE NULLS NOT DISTINCT (feedback_id, attempt_id, step_id);

ALTER TABLE ONLY public.operations_alarm
    ADD CONSTRAINT operations_alarm_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_serverlook
    ADD CONSTRAINT operations_serverlook_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_serverlook
    ADD CONSTRAINT operations_serverlook_provider_id_key UNIQUE (provider_id);

ALTER TABLE ONLY public.operations_spancursor
    ADD CONSTRAINT operations_spancursor_endpoint_key UNIQUE (endpoint);

ALTER TABLE ONLY public.operations_spancursor
    ADD CONSTRAINT operations_spancursor_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox_segment
    ADD CONSTRAINT outbox_segment_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT preferencepair_is_told_once UNIQUE (task_id, digest);

ALTER TABLE ONLY public.inference_price
    ADD CONSTRAINT price_is_unique UNIQUE NULLS NOT DISTINCT (provider_id, kind, model, valid_from);

ALTER TABLE ONLY public.inference_providergrant
    ADD CONSTRAINT provider_is_granted_once UNIQUE (provider_id, project_id);

ALTER TABLE ONLY public.inference_provider
    ADD CONSTRAINT provider_name_is_unique UNIQUE NULLS NOT DISTINCT (project_id, name);

ALTER TABLE ONLY public.regrading_regrade
    ADD CONSTRAINT regrading_regrade_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.regrading_regrading
    ADD CONSTRAINT regrading_regrading_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT reward_model_version_is_unique UNIQUE (worker_id, version);

ALTER TABLE ONLY public.rollouts_batch
    ADD CONSTRAINT rollouts_batch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstration_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencepair_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_attempt_id_key UNIQUE (attempt_id);

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rollouts_traininguse
    ADD CONSTRAINT rollouts_traininguse_pkey PRIMARY KEY (rollout_id);

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT scoring_rewardmodel_name_key UNIQUE (name);

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT scoring_rewardmodel_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT scoring_rewardmodel_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.scoring_steplabel
    ADD CONSTRAINT scoring_steplabel_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scoring_stepscore
    ADD CONSTRAINT scoring_stepscore_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.inference_session
    ADD CONSTRAINT session_key_is_the_agents UNIQUE (project_id, key, agent);

ALTER TABLE ONLY public.skills_skill
    ADD CONSTRAINT skill_version_is_unique UNIQUE (project_id, name, version);

ALTER TABLE ONLY public.skills_skill
    ADD CONSTRAINT skills_skill_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.supervision_proposal
    ADD CONSTRAINT supervision_proposal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_exchange_id_key UNIQUE (exchange_id);

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks_episodeturn
    ADD CONSTRAINT tasks_episodeturn_exchange_id_key UNIQUE (exchange_id);

ALTER TABLE ONLY public.tasks_episodeturn
    ADD CONSTRAINT tasks_episodeturn_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks_furtherexchange
    ADD CONSTRAINT tasks_furtherexchange_pkey PRIMARY KEY (exchange_id);

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT tasks_shadowattempt_exchange_id_key UNIQUE (exchange_id);

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT tasks_shadowattempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks_step
    ADD CONSTRAINT tasks_step_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.evals_taskset
    ADD CONSTRAINT taskset_version_is_unique UNIQUE (project_id, name, version);

ALTER TABLE ONLY public.training_course
    ADD CONSTRAINT training_course_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_courseround
    ADD CONSTRAINT training_courseround_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_gpulease
    ADD CONSTRAINT training_gpulease_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_gpulease
    ADD CONSTRAINT training_gpulease_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.training_gpulease
    ADD CONSTRAINT training_gpulease_slot_key UNIQUE (slot);

ALTER TABLE ONLY public.training_managerrun
    ADD CONSTRAINT training_managerrun_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_rewardanswer
    ADD CONSTRAINT training_rewardanswer_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_rewarddoor
    ADD CONSTRAINT training_rewarddoor_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_rewarddoor
    ADD CONSTRAINT training_rewarddoor_secret_hash_key UNIQUE (secret_hash);

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_batch_id_key UNIQUE (batch_id);

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_rebuilds_id_key UNIQUE (rebuilds_id);

ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT webhooks_delivery_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhooks_webhook
    ADD CONSTRAINT webhooks_webhook_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT worker_name_is_unique UNIQUE (project_id, name);

ALTER TABLE ONLY public.workers_ensemble
    ADD CONSTRAINT workers_ensemble_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT workers_worker_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.worlds_repotaskadmission
    ADD CONSTRAINT worlds_repotaskadmission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.worlds_worldcertificate
    ADD CONSTRAINT worlds_worldcertificate_pkey PRIMARY KEY (id);

CREATE INDEX accounts_apitoken_key_id_6d99f959_like ON public.accounts_apitoken USING btree (key_id varchar_pattern_ops);

CREATE INDEX accounts_apitoken_made_with_id_33f3032c ON public.accounts_apitoken USING btree (made_with_id);

CREATE INDEX accounts_apitoken_project_id_16ebf865 ON public.accounts_apitoken USING btree (project_id);

CREATE INDEX accounts_apitoken_user_id_bbee13e0 ON public.accounts_apitoken USING btree (user_id);

CREATE INDEX accounts_browsersession_expire_date_e7b6413e ON public.accounts_browsersession USING btree (expire_date);

CREATE INDEX accounts_browsersession_session_key_3a582e24_like ON public.accounts_browsersession USING btree (session_key varchar_pattern_ops);

CREATE INDEX accounts_browsersession_user_id_b0cb11d3 ON public.accounts_browsersession USING btree (user_id);

CREATE INDEX accounts_invitation_code_hash_b1a2c294_like ON public.accounts_invitation USING btree (code_hash varchar_pattern_ops);

CREATE INDEX accounts_invitation_invited_by_id_94a21efc ON public.accounts_invitation USING btree (invited_by_id);

CREATE INDEX accounts_invitation_project_id_55ac263e ON public.accounts_invitation USING btree (project_id);

CREATE INDEX accounts_member_project_id_111a002b ON public.accounts_member USING btree (project_id);

CREATE INDEX accounts_member_user_id_b994c8b6 ON public.accounts_member USING btree (user_id);

CREATE INDEX accounts_passkey_user_id_f8f562b4 ON public.accounts_passkey USING btree (user_id);

CREATE INDEX accounts_project_slug_955b1b53_like ON public.accounts_project USING btree (slug varchar_pattern_ops);

CREATE INDEX accounts_recoverycode_code_hash_936dc363_like ON public.accounts_recoverycode USING btree (code_hash varchar_pattern_ops);

CREATE INDEX accounts_recoverycode_user_id_994761d3 ON public.accounts_recoverycode USING btree (user_id);

CREATE INDEX accounts_user_groups_group_id_bd11a704 ON public.accounts_user_groups USING btree (group_id);

CREATE INDEX accounts_user_groups_user_id_52b62117 ON public.accounts_user_groups USING btree (user_id);

CREATE INDEX accounts_user_user_permissions_permission_id_113bb443 ON public.accounts_user_user_permissions USING btree (permission_id);

CREATE INDEX accounts_user_user_permissions_user_id_e4f0a161 ON public.accounts_user_user_permissions USING btree (user_id);

CREATE INDEX accounts_user_username_6088629e_like ON public.accounts_user USING btree (username varchar_pattern_ops);

CREATE INDEX adapter_by_project ON public.adapters_adapter USING btree (project_id, id DESC);

CREATE INDEX adapters_adapter_name_f9269d8a_like ON public.adapters_adapter USING btree (name varchar_pattern_ops);

CREATE INDEX adapters_adapter_parent_id_a6fe9381 ON public.adapters_adapter USING btree (parent_id);

CREATE INDEX adapters_adapter_project_id_e1e72d7c ON public.adapters_adapter USING btree (project_id);

CREATE INDEX adapters_adapter_worker_id_f4a3b280 ON public.adapters_adapter USING btree (worker_id);

CREATE INDEX adapters_deployment_adapter_id_a42153d3 ON public.adapters_deployment USING btree (adapter_id);

CREATE INDEX adapters_deployment_canary_id_11e60c58 ON public.adapters_deployment USING btree (canary_id);

CREATE INDEX adapters_deployment_previous_id_0b07a6cf ON public.adapters_deployment USING btree (previous_id);

CREATE INDEX adapters_deployment_worker_id_36ef3274 ON public.adapters_deployment USING btree (worker_id);

CREATE INDEX adapters_shadow_adapter_id_18ccb5e9 ON public.adapters_shadow USING btree (adapter_id);

CREATE INDEX adapters_shadow_worker_id_663ff990 ON public.adapters_shadow USING btree (worker_id);

CREATE INDEX adapters_verdict_adapter_id_58f905cb ON public.adapters_verdict USING btree (adapter_id);

CREATE INDEX admissions_that_wait ON public.worlds_repotaskadmission USING btree (id) WHERE ((state)::text = 'queued'::text);

CREATE INDEX alarm_open ON public.operations_alarm USING btree (id DESC) WHERE ((state)::text = 'open'::text);

CREATE INDEX api_idempotencykey_project_id_d06ebeff ON public.api_idempotencykey USING btree (project_id);

CREATE INDEX api_idempotencykey_user_id_1238a00a ON public.api_idempotencykey USING btree (user_id);

CREATE INDEX audit_by_actor ON public.audit_auditentry USING btree (project_id, actor, id);

CREATE INDEX audit_by_kind ON public.audit_auditentry USING btree (project_id, kind, id);

CREATE INDEX audit_by_place ON public.audit_auditentry USING btree (epoch, xid, id);

CREATE INDEX audit_by_project ON public.audit_auditentry USING btree (project_id, id);

CREATE INDEX audit_by_subject ON public.audit_auditentry USING btree (subject_type, subject_id, id);

CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);

CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);

CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);

CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);

CREATE INDEX calibration_comparison_attempt_id_606e0872 ON public.calibration_comparison USING btree (attempt_id);

CREATE INDEX calibration_comparison_step_id_8c16d3b4 ON public.calibration_comparison USING btree (step_id);

CREATE INDEX calibration_rater_project_id_d248ee33 ON public.calibration_rater USING btree (project_id);

CREATE INDEX certificate_by_world ON public.worlds_worldcertificate USING btree (world, id DESC);

CREATE INDEX checks_namedcheck_name_1027c480 ON public.checks_namedcheck USING btree (name);

CREATE INDEX checks_namedcheck_name_1027c480_like ON public.checks_namedcheck USING btree (name varchar_pattern_ops);

CREATE INDEX checks_namedcheck_project_id_37c85e2a ON public.checks_namedcheck USING btree (project_id);

CREATE INDEX comparison_by_rater ON public.calibration_comparison USING btree (rater_id, id DESC);

CREATE INDEX comparison_of_peers ON public.calibration_comparison USING btree (project_id, id DESC) WHERE ((source)::text = 'peer'::text);

CREATE INDEX comparison_with_people ON public.calibration_comparison USING btree (project_id, id DESC) WHERE ((source)::text = 'human'::text);

CREATE INDEX console_savedview_owner_id_6e495914 ON public.console_savedview USING btree (owner_id);

CREATE INDEX console_savedview_project_id_c2732e2c ON public.console_savedview USING btree (project_id);

CREATE INDEX conversations_forgetting_project_id_57971d52 ON public.conversations_forgetting USING btree (project_id);

CREATE INDEX conversations_turn_beside_id_cf42134a ON public.conversations_turn USING btree (beside_id);

CREATE INDEX conversations_turn_parent_id_1c592ef8 ON public.conversations_turn USING btree (parent_id);

CREATE INDEX conversations_turn_project_id_4866c98c ON public.conversations_turn USING btree (project_id);

CREATE INDEX conversations_turn_session_id_00fd7da8 ON public.conversations_turn USING btree (session_id);

CREATE INDEX conversations_turnexchange_turn_id_644e2b1e ON public.conversations_turnexchange USING btree (turn_id);

CREATE INDEX conversations_turnsignal_turn_id_b9b37266 ON public.conversations_turnsignal USING btree (turn_id);

CREATE INDEX delivery_by_state ON public.webhooks_delivery USING btree (webhook_id, state, id DESC);

CREATE INDEX delivery_done ON public.webhooks_delivery USING btree (ended_at) WHERE ((state)::text = 'delivered'::text);

CREATE INDEX delivery_due ON public.webhooks_delivery USING btree (webhook_id, id) WHERE ((state)::text = 'pending'::text);

CREATE INDEX demonstration_unused ON public.rollouts_demonstration USING btree (worker_id, end_user, id) WHERE ((batch_id IS NULL) AND ((unusable_reason)::text = ''::text));

CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);

CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);

CREATE INDEX evals_benchmark_project_id_5f5e39bf ON public.evals_benchmark USING btree (project_id);

CREATE INDEX evals_benchmark_taskset_id_4e800973 ON public.evals_benchmark USING btree (taskset_id);

CREATE INDEX evals_chosenpanel_taskset_id_3ddb5074 ON public.evals_chosenpanel USING btree (taskset_id);

CREATE INDEX evals_evaluation_adapter_id_da65fa97 ON public.evals_evaluation USING btree (adapter_id);

CREATE INDEX evals_evaluation_benchmark_id_6dc481dd ON public.evals_evaluation USING btree (benchmark_id);

CREATE INDEX evals_evaluation_project_id_140d412b ON public.evals_evaluation USING btree (project_id);

CREATE INDEX evals_evaluation_replay_of_id_213e680c ON public.evals_evaluation USING btree (replay_of_id);

CREATE INDEX evals_evaluation_taskset_id_3bdb3f9a ON public.evals_evaluation USING btree (taskset_id);

CREATE INDEX evals_evaluation_worker_id_24bd1fef ON public.evals_evaluation USING btree (worker_id);

CREATE INDEX evals_experiment_project_id_34567d1a ON public.evals_experiment USING btree (project_id);

CREATE INDEX evals_humangrade_item_try_id_cbe5db6a ON public.evals_humangrade USING btree (item_try_id);

CREATE INDEX evals_item_taskset_id_89ed791f ON public.evals_item USING btree (taskset_id);

CREATE INDEX evals_itemtry_evaluation_id_5cfedb9a ON public.evals_itemtry USING btree (evaluation_id);

CREATE INDEX evals_regressioncase_adapter_id_6dbce55a ON public.evals_regressioncase USING btree (adapter_id);

CREATE INDEX evals_regressioncase_grade_id_caf8c2a5 ON public.evals_regressioncase USING btree (grade_id);

CREATE INDEX evals_regressioncase_item_id_1a3ab960 ON public.evals_regressioncase USING btree (item_id);

CREATE INDEX evals_regressioncase_worker_id_4e95914a ON public.evals_regressioncase USING btree (worker_id);

CREATE INDEX evals_scenario_candidate_id_92fcefab ON public.evals_scenario USING btree (candidate_id);

CREATE INDEX evals_scenario_reference_id_712b0557 ON public.evals_scenario USING btree (reference_id);

CREATE INDEX evals_scenario_run_id_88b4ce0c ON public.evals_scenario USING btree (run_id);

CREATE INDEX evals_taskset_name_1284674d ON public.evals_taskset USING btree (name);

CREATE INDEX evals_taskset_name_1284674d_like ON public.evals_taskset USING btree (name varchar_pattern_ops);

CREATE INDEX evals_taskset_project_id_abd259f4 ON public.evals_taskset USING btree (project_id);

CREATE INDEX evaluation_by_project ON public.evals_evaluation USING btree (project_id, id DESC);

CREATE INDEX exchange_by_parent ON public.inference_exchange USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX exchange_by_project ON public.inference_exchange USING btree (project_id, id DESC);

CREATE INDEX exchange_by_session ON public.inference_exchange USING btree (session_id, id) WHERE (session_id IS NOT NULL);

CREATE INDEX exchange_by_task ON public.inference_exchange USING btree (task_id) WHERE (task_id IS NOT NULL);

CREATE INDEX exchange_cost_by_day ON public.inference_exchange USING btree (project_id, created_at) INCLUDE (cost_usd, prompt_tokens, completion_tokens, turn, provider_id, model);

CREATE INDEX exchange_words ON public.inference_exchange USING gin (to_tsvector('simple'::regconfig, translate(replace((("left"(text, 10000) || ' '::text) || "left"((jsonb_path_query_array(messages, '$[*]."content"'::jsonpath))::text, 10000)), '\n'::text, ' '::text), '-_/.:@&+~<>=?#\'::text, '               '::text))) WHERE (session_id IS NOT NULL);

CREATE INDEX favour_screen_oldest ON public.calibration_favourscreen USING btree (screened_at);

CREATE INDEX feedback_bulkjudgement_by_id_90fd81bd ON public.feedback_bulkjudgement USING btree (by_id);

CREATE INDEX feedback_bulkjudgement_project_id_382a84a0 ON public.feedback_bulkjudgement USING btree (project_id);

CREATE INDEX feedback_by_author ON public.feedback_feedback USING btree (project_id, author, id DESC);

CREATE INDEX feedback_feedback_preferred_attempt_id_e5810b79 ON public.feedback_feedback USING btree (preferred_attempt_id);

CREATE INDEX feedback_feedback_project_id_bc89ab01 ON public.feedback_feedback USING btree (project_id);

CREATE INDEX feedback_feedback_review_id_0cddc005 ON public.feedback_feedback USING btree (review_id);

CREATE INDEX feedback_feedback_task_id_37fa5164 ON public.feedback_feedback USING btree (task_id);

CREATE INDEX feedback_golditem_added_by_id_26ce8516 ON public.feedback_golditem USING btree (added_by_id);

CREATE INDEX feedback_golditem_project_id_ef07e479 ON public.feedback_golditem USING btree (project_id);

CREATE INDEX feedback_golditem_reference_id_62809ef0 ON public.feedback_golditem USING btree (reference_id);

CREATE INDEX feedback_golditem_task_id_8e102686 ON public.feedback_golditem USING btree (task_id);

CREATE INDEX feedback_hint_feedback_id_1fed7fde ON public.feedback_hint USING btree (feedback_id);

CREATE INDEX feedback_hint_task_id_1ae154cf ON public.feedback_hint USING btree (task_id);

CREATE INDEX feedback_in_bulk ON public.feedback_feedback USING btree (in_bulk_id, id) WHERE (in_bulk_id IS NOT NULL);

CREATE INDEX feedback_review_about_id_15070240 ON public.feedback_review USING btree (about_id);

CREATE INDEX feedback_review_appellant_id_45792574 ON public.feedback_review USING btree (appellant_id);

CREATE INDEX feedback_review_assigned_to_id_95f1af78 ON public.feedback_review USING btree (assigned_to_id);

CREATE INDEX feedback_review_claimed_by_id_c4b0ab86 ON public.feedback_review USING btree (claimed_by_id);

CREATE INDEX feedback_review_project_id_9fff3266 ON public.feedback_review USING btree (project_id);

CREATE INDEX feedback_review_task_id_d970704d ON public.feedback_review USING btree (task_id);

CREATE INDEX feedback_reviewdraft_review_id_357b73c7 ON public.feedback_reviewdraft USING btree (review_id);

CREATE INDEX feedback_reviewdraft_user_id_e4ed0e44 ON public.feedback_reviewdraft USING btree (user_id);

CREATE INDEX feedback_reviewskip_review_id_ce638849 ON public.feedback_reviewskip USING btree (review_id);

CREATE INDEX feedback_reviewskip_user_id_b71c7230 ON public.feedback_reviewskip USING btree (user_id);

CREATE INDEX feedback_rowimport_by_id_a5c3ad88 ON public.feedback_rowimport USING btree (by_id);

CREATE INDEX feedback_rowimport_project_id_0d580b89 ON public.feedback_rowimport USING btree (project_id);

CREATE INDEX feedback_rowimport_worker_id_9ca9660a ON public.feedback_rowimport USING btree (worker_id);

CREATE INDEX feedback_stepfeedback_attempt_id_e8790bfb ON public.feedback_stepfeedback USING btree (attempt_id);

CREATE INDEX feedback_stepfeedback_feedback_id_38faa2e1 ON public.feedback_stepfeedback USING btree (feedback_id);

CREATE INDEX feedback_stepfeedback_step_id_9fc330a5 ON public.feedback_stepfeedback USING btree (step_id);

CREATE INDEX feedback_undoable ON public.feedback_feedback USING btree (undo_until) WHERE (undo_until IS NOT NULL);

CREATE INDEX feedback_words ON public.feedback_feedback USING gin (to_tsvector('simple'::regconfig, translate(replace((((("left"(text, 10000) || ' '::text) || "left"(edited_answer, 10000)) || ' '::text) || "left"(hint_text, 10000)), '\n'::text, ' '::text), '-_/.:@&+~<>=?#\'::text, '               '::text)));

CREATE INDEX forgetting_by_project ON public.conversations_forgetting USING btree (project_id, id DESC);

CREATE INDEX gate_answerpair_adapter_id_9f6e3128 ON public.gate_answerpair USING btree (adapter_id);

CREATE INDEX gate_answerpair_theirs_id_2ced9350 ON public.gate_answerpair USING btree (theirs_id);

CREATE INDEX idempotency_key_age ON public.api_idempotencykey USING btree (created_at);

CREATE INDEX inference_exchange_parent_id_beb87ba7 ON public.inference_exchange USING btree (parent_id);

CREATE INDEX inference_exchange_project_id_4743ca81 ON public.inference_exchange USING btree (project_id);

CREATE INDEX inference_exchange_provider_id_f12b1024 ON public.inference_exchange USING btree (provider_id);

CREATE INDEX inference_exchange_session_id_e7dfaf89 ON public.inference_exchange USING btree (session_id);

CREATE INDEX inference_price_provider_id_fcb56951 ON public.inference_price USING btree (provider_id);

CREATE INDEX inference_provider_name_b1765b88 ON public.inference_provider USING btree (name);

CREATE INDEX inference_provider_name_b1765b88_like ON public.inference_provider USING btree (name varchar_pattern_ops);

CREATE INDEX inference_provider_project_id_10559a47 ON public.inference_provider USING btree (project_id);

CREATE INDEX inference_providergrant_project_id_a10946ba ON public.inference_providergrant USING btree (project_id);

CREATE INDEX inference_providergrant_provider_id_10441785 ON public.inference_providergrant USING btree (provider_id);

CREATE INDEX inference_session_project_id_2d541a6b ON public.inference_session USING btree (project_id);

CREATE INDEX inference_spoolposition_name_de91a17f_like ON public.inference_spoolposition USING btree (name varchar_pattern_ops);

CREATE INDEX item_bands ON public.evals_item USING gin (bands);

CREATE INDEX judge_probe_by_model ON public.judges_judgeprobe USING btree (project_id, model, id DESC);

CREATE INDEX judges_judgeprobe_first_id_0dd405bc ON public.judges_judgeprobe USING btree (first_id);

CREATE INDEX judges_judgeprobe_project_id_cad8e8b3 ON public.judges_judgeprobe USING btree (project_id);

CREATE INDEX judges_judgeprobe_provider_id_5fe16858 ON public.judges_judgeprobe USING btree (provider_id);

CREATE UNIQUE INDEX measured_once ON public.evals_evaluation USING btree (worker_id, adapter_id, purpose, item_set, item_set_hash, tries, is_greedy, scale, seed, asked_hash, replay_of_id) NULLS NOT DISTINCT WHERE (NOT ((state)::text = ANY ((ARRAY['failed'::character varying, 'cancelled'::character varying])::text[])));

CREATE UNIQUE INDEX one_anchor_per_line ON public.adapters_adapter USING btree (worker_id, end_user) WHERE is_anchor;

CREATE UNIQUE INDEX one_applied_fit_per_manager ON public.training_managerrun USING btree (project_id, manager, kind) WHERE ((state)::text = 'applied'::text);

CREATE UNIQUE INDEX one_attempt_per_place ON public.tasks_attempt USING btree (task_id, index) WHERE (NOT ((state)::text = 'lost'::text));

CREATE UNIQUE INDEX one_course_per_worker ON public.training_course USING btree (worker_id) WHERE ((state)::text = ANY ((ARRAY['running'::character varying, 'paused'::character varying])::text[]));

CREATE UNIQUE INDEX one_deployed_adapter_per_line ON public.adapters_adapter USING btree (worker_id, end_user) WHERE ((state)::text = 'deployed'::text);

CREATE UNIQUE INDEX one_gold_item_per_task ON public.feedback_golditem USING btree (task_id) WHERE (removed_at IS NULL);

CREATE UNIQUE INDEX one_live_reward_model_per_worker ON public.scoring_rewardmodel USING btree (worker_id) WHERE ((state)::text = 'live'::text);

CREATE UNIQUE INDEX one_open_alarm_per_subject ON public.operations_alarm USING btree (rule, subject) WHERE ((state)::text = 'open'::text);

CREATE UNIQUE INDEX one_open_batch_per_line ON public.rollouts_batch USING btree (worker_id, end_user) WHERE ((state)::text = 'open'::text);

CREATE UNIQUE INDEX one_open_invitation_per_name ON public.accounts_invitation USING btree (project_id, username) WHERE ((state)::text = 'open'::text);

CREATE UNIQUE INDEX one_open_review_per_audience ON public.feedback_review USING btree (task_id, audience) WHERE (((state)::text = 'open'::text) AND (NOT ((purpose)::text = 'gold'::text)));

CREATE UNIQUE INDEX one_open_segment_per_subject ON public.outbox_segment USING btree (kind, subject_id) WHERE ((state)::text = 'open'::text);

CREATE UNIQUE INDEX one_open_version_per_taskset ON public.evals_taskset USING btree (project_id, name) WHERE (frozen_at IS NULL);

CREATE UNIQUE INDEX one_probe_of_a_judge_at_a_time ON public.judges_judgeprobe USING btree (project_id, provider_id, model) NULLS NOT DISTINCT WHERE ((state)::text = ANY ((ARRAY['queued'::character varying, 'running'::character varying])::text[]));

CREATE UNIQUE INDEX one_proposal_per_call ON public.supervision_proposal USING btree (attempt_id, turn, call) WHERE (turn IS NOT NULL);

CREATE UNIQUE INDEX one_running_shadow_per_worker ON public.adapters_shadow USING btree (worker_id) WHERE ((state)::text = 'running'::text);

CREATE UNIQUE INDEX one_standing_feedback_per_review ON public.feedback_feedback USING btree (review_id) WHERE (retracted_at IS NULL);

CREATE UNIQUE INDEX one_training_per_manager ON public.training_managerrun USING btree (project_id, manager, kind) WHERE ((state)::text = 'training'::text);

CREATE UNIQUE INDEX one_version_checks_by_default ON public.checks_namedcheck USING btree (project_id, name) WHERE (NOT ((default_for)::text = ''::text));

CREATE UNIQUE INDEX one_webhook_of_the_installation ON public.webhooks_webhook USING btree (name) WHERE (project_id IS NULL);

CREATE INDEX operations_spancursor_endpoint_9b4906d5_like ON public.operations_spancursor USING btree (endpoint varchar_pattern_ops);

CREATE INDEX preferencepair_unused ON public.rollouts_preferencepair USING btree (worker_id, end_user, id) WHERE ((batch_id IS NULL) AND ((unusable_reason)::text = ''::text));

CREATE INDEX proposal_by_project ON public.supervision_proposal USING btree (project_id, id DESC);

CREATE INDEX proposal_decided ON public.supervision_proposal USING btree (project_id, decided_at DESC, id DESC) WHERE ((decided_at IS NOT NULL) AND (NOT ((decided_by)::text = 'policy'::text)));

CREATE INDEX proposal_due ON public.supervision_proposal USING btree (deadline_at) WHERE ((state)::text = 'pending'::text);

CREATE INDEX proposal_pending ON public.supervision_proposal USING btree (project_id, deadline_at, id) WHERE ((state)::text = 'pending'::text);

CREATE INDEX regrading_by_project ON public.regrading_regrading USING btree (project_id, id DESC);

CREATE INDEX regrading_regrade_regrading_id_140a03c8 ON public.regrading_regrade USING btree (regrading_id);

CREATE INDEX regrading_regrading_evaluation_id_afcc6f72 ON public.regrading_regrading USING btree (evaluation_id);

CREATE INDEX regrading_regrading_project_id_8e80814c ON public.regrading_regrading USING btree (project_id);

CREATE INDEX regrading_regrading_worker_id_dd83dc55 ON public.regrading_regrading USING btree (worker_id);

CREATE INDEX review_assigned ON public.feedback_review USING btree (assigned_to_id, rank_at) WHERE ((assigned_to_id IS NOT NULL) AND ((state)::text = 'open'::text));

CREATE INDEX review_due ON public.feedback_review USING btree (due_at) WHERE ((due_at IS NOT NULL) AND ((state)::text = 'open'::text));

CREATE INDEX review_open ON public.feedback_review USING btree (project_id, audience, rank_at, id) WHERE ((state)::text = 'open'::text);

CREATE INDEX reward_model_by_project ON public.scoring_rewardmodel USING btree (project_id, id DESC);

CREATE INDEX rollout_by_project ON public.rollouts_rollout USING btree (project_id, id DESC);

CREATE INDEX rollout_unusable ON public.rollouts_rollout USING btree (worker_id, unusable_reason) WHERE (NOT is_usable);

CREATE INDEX rollout_unusable_by_project ON public.rollouts_rollout USING btree (project_id, id DESC) WHERE (NOT is_usable);

CREATE INDEX rollouts_batch_project_id_8ab76c6c ON public.rollouts_batch USING btree (project_id);

CREATE INDEX rollouts_batch_worker_id_fd79f4c6 ON public.rollouts_batch USING btree (worker_id);

CREATE INDEX rollouts_demonstration_attempt_id_bf1002db ON public.rollouts_demonstration USING btree (attempt_id);

CREATE INDEX rollouts_demonstration_batch_id_6f961348 ON public.rollouts_demonstration USING btree (batch_id);

CREATE INDEX rollouts_demonstration_feedback_id_c4e4f705 ON public.rollouts_demonstration USING btree (feedback_id);

CREATE INDEX rollouts_demonstration_project_id_7da4fdbe ON public.rollouts_demonstration USING btree (project_id);

CREATE INDEX rollouts_demonstration_task_id_16507d49 ON public.rollouts_demonstration USING btree (task_id);

CREATE INDEX rollouts_demonstration_worker_id_5a05b27f ON public.rollouts_demonstration USING btree (worker_id);

CREATE INDEX rollouts_preferencepair_batch_id_0f29d71e ON public.rollouts_preferencepair USING btree (batch_id);

CREATE INDEX rollouts_preferencepair_chosen_id_25fda725 ON public.rollouts_preferencepair USING btree (chosen_id);

CREATE INDEX rollouts_preferencepair_feedback_id_5e2fdf0d ON public.rollouts_preferencepair USING btree (feedback_id);

CREATE INDEX rollouts_preferencepair_project_id_59ff1c39 ON public.rollouts_preferencepair USING btree (project_id);

CREATE INDEX rollouts_preferencepair_rejected_id_105e722e ON public.rollouts_preferencepair USING btree (rejected_id);

CREATE INDEX rollouts_preferencepair_task_id_8fecb6f1 ON public.rollouts_preferencepair USING btree (task_id);

CREATE INDEX rollouts_preferencepair_worker_id_feb88206 ON public.rollouts_preferencepair USING btree (worker_id);

CREATE INDEX rollouts_rollout_adapter_id_0766f200 ON public.rollouts_rollout USING btree (adapter_id);

CREATE INDEX rollouts_rollout_hint_id_c279994d ON public.rollouts_rollout USING btree (hint_id);

CREATE INDEX rollouts_rollout_project_id_c8b2218b ON public.rollouts_rollout USING btree (project_id);

CREATE INDEX rollouts_rollout_task_id_f88b5b5d ON public.rollouts_rollout USING btree (task_id);

CREATE INDEX rollouts_rollout_worker_id_927c8e03 ON public.rollouts_rollout USING btree (worker_id);

CREATE INDEX rollouts_traininguse_batch_id_2c73aafd ON public.rollouts_traininguse USING btree (batch_id);

CREATE INDEX run_alive ON public.training_trainingrun USING btree (heartbeat_at) WHERE ((state)::text = 'running'::text);

CREATE INDEX run_by_project ON public.training_trainingrun USING btree (project_id, id DESC);

CREATE INDEX scoring_rewardmodel_name_e50d6ab7_like ON public.scoring_rewardmodel USING btree (name varchar_pattern_ops);

CREATE INDEX scoring_rewardmodel_project_id_8372b215 ON public.scoring_rewardmodel USING btree (project_id);

CREATE INDEX scoring_rewardmodel_worker_id_457f77fc ON public.scoring_rewardmodel USING btree (worker_id);

CREATE INDEX scoring_steplabel_attempt_id_4af7cbcc ON public.scoring_steplabel USING btree (attempt_id);

CREATE INDEX scoring_steplabel_step_id_6b9ea28e ON public.scoring_steplabel USING btree (step_id);

CREATE INDEX scoring_stepscore_attempt_id_851ac9b0 ON public.scoring_stepscore USING btree (attempt_id);

CREATE INDEX scoring_stepscore_step_id_c36076a8 ON public.scoring_stepscore USING btree (step_id);

CREATE INDEX segment_by_subject ON public.outbox_segment USING btree (kind, subject_id, id DESC);

CREATE INDEX segment_dead ON public.outbox_segment USING btree (finished_at DESC) WHERE ((state)::text = 'dead'::text);

CREATE INDEX segment_in_flight ON public.outbox_segment USING btree (queue, published_at) WHERE ((published_at IS NOT NULL) AND ((state)::text = 'open'::text));

CREATE INDEX segment_kept_no_longer ON public.outbox_segment USING btree (finished_at) WHERE ((state)::text = ANY ((ARRAY['done'::character varying, 'cancelled'::character varying])::text[]));

CREATE INDEX segment_to_publish ON public.outbox_segment USING btree (run_after, id) WHERE ((published_at IS NULL) AND ((state)::text = 'open'::text));

CREATE INDEX segment_waits_for_server ON public.outbox_segment USING btree (project_id, away_since) WHERE ((away_since IS NOT NULL) AND ((state)::text = 'open'::text));

CREATE INDEX session_by_end_user ON public.inference_session USING btree (project_id, end_user) WHERE (NOT ((end_user)::text = ''::text));

CREATE INDEX session_by_project ON public.inference_session USING btree (project_id, last_seen_at DESC);

CREATE INDEX session_by_thread ON public.inference_session USING btree (thread) WHERE (NOT ((thread)::text = ''::text));

CREATE INDEX session_open ON public.inference_session USING btree (last_seen_at) WHERE (closed_at IS NULL);

CREATE INDEX skills_skill_name_13834003 ON public.skills_skill USING btree (name);

CREATE INDEX skills_skill_name_13834003_like ON public.skills_skill USING btree (name varchar_pattern_ops);

CREATE INDEX skills_skill_project_id_b7e54cae ON public.skills_skill USING btree (project_id);

CREATE INDEX skip_by_user ON public.feedback_reviewskip USING btree (review_id, user_id);

CREATE INDEX step_feedback_words ON public.feedback_stepfeedback USING gin (to_tsvector('simple'::regconfig, translate(replace("left"(comment, 10000), '\n'::text, ' '::text), '-_/.:@&+~<>=?#\'::text, '               '::text))) WHERE (NOT (comment = ''::text));

CREATE INDEX supervision_proposal_attempt_id_cbb72dfb ON public.supervision_proposal USING btree (attempt_id);

CREATE INDEX supervision_proposal_proposed_by_id_b5553960 ON public.supervision_proposal USING btree (proposed_by_id);

CREATE INDEX supervision_proposal_task_id_fca59540 ON public.supervision_proposal USING btree (task_id);

CREATE INDEX task_bands ON public.tasks_task USING gin (bands) WHERE (bands IS NOT NULL);

CREATE INDEX task_by_project ON public.tasks_task USING btree (project_id, id DESC);

CREATE INDEX task_by_score ON public.tasks_task USING btree (project_id, score, id);

CREATE INDEX task_by_state ON public.tasks_task USING btree (project_id, state, id DESC);

CREATE INDEX task_done_by_time ON public.tasks_task USING btree (project_id, updated_at DESC) WHERE ((state)::text = 'done'::text);

CREATE INDEX task_from_session ON public.tasks_task USING btree (project_id) WHERE (metadata ? 'from_session'::text);

CREATE INDEX task_of_evaluation ON public.tasks_task USING btree (evaluation_id) WHERE (evaluation_id IS NOT NULL);

CREATE INDEX task_open_by_worker ON public.tasks_task USING btree (worker_id, id) WHERE ((state)::text = ANY ((ARRAY['queued'::character varying, 'working'::character varying, 'scoring'::character varying, 'in_review'::character varying, 'learning'::character varying])::text[]));

CREATE INDEX task_words ON public.tasks_task USING gin (to_tsvector('simple'::regconfig, translate(replace((("left"(prompt, 10000) || ' '::text) || "left"(answer, 10000)), '\n'::text, ' '::text), '-_/.:@&+~<>=?#\'::text, '               '::text))) WHERE ((state)::text = ANY ((ARRAY['in_review'::character varying, 'done'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[]));

CREATE INDEX tasks_attempt_adapter_id_9495e3f4 ON public.tasks_attempt USING btree (adapter_id);

CREATE INDEX tasks_attempt_task_id_af6089aa ON public.tasks_attempt USING btree (task_id);

CREATE INDEX tasks_attempt_worker_id_41764b4f ON public.tasks_attempt USING btree (worker_id);

CREATE INDEX tasks_episodeturn_attempt_id_463475c1 ON public.tasks_episodeturn USING btree (attempt_id);

CREATE INDEX tasks_furtherexchange_attempt_id_c49c0464 ON public.tasks_furtherexchange USING btree (attempt_id);

CREATE INDEX tasks_shadowattempt_shadow_id_7b48acff ON public.tasks_shadowattempt USING btree (shadow_id);

CREATE INDEX tasks_shadowattempt_task_id_95228478 ON public.tasks_shadowattempt USING btree (task_id);

CREATE INDEX tasks_step_attempt_id_c2ac900c ON public.tasks_step USING btree (attempt_id);

CREATE INDEX tasks_task_parent_id_ee6a2001 ON public.tasks_task USING btree (parent_id);

CREATE INDEX tasks_task_project_id_a2815f0c ON public.tasks_task USING btree (project_id);

CREATE INDEX tasks_task_submitted_by_id_4594cc95 ON public.tasks_task USING btree (submitted_by_id);

CREATE INDEX tasks_task_worker_id_c6da9f59 ON public.tasks_task USING btree (worker_id);

CREATE INDEX training_course_benchmark_id_b476b4f1 ON public.training_course USING btree (benchmark_id);

CREATE INDEX training_course_project_id_95f007ec ON public.training_course USING btree (project_id);

CREATE INDEX training_course_started_by_id_e4db69f8 ON public.training_course USING btree (started_by_id);

CREATE INDEX training_course_worker_id_ebcc8e89 ON public.training_course USING btree (worker_id);

CREATE INDEX training_courseround_course_id_87a9381c ON public.training_courseround USING btree (course_id);

CREATE INDEX training_courseround_run_id_f75fecb5 ON public.training_courseround USING btree (run_id);

CREATE INDEX training_gpulease_slot_e6ce5f21_like ON public.training_gpulease USING btree (slot varchar_pattern_ops);

CREATE INDEX training_managerrun_parent_id_c32fe30a ON public.training_managerrun USING btree (parent_id);

CREATE INDEX training_managerrun_project_id_2b04ac4c ON public.training_managerrun USING btree (project_id);

CREATE INDEX training_managerrun_run_id_4dcc93b4 ON public.training_managerrun USING btree (run_id);

CREATE INDEX training_rewardanswer_run_id_20d8af06 ON public.training_rewardanswer USING btree (run_id);

CREATE INDEX training_rewardanswer_task_id_91bfc410 ON public.training_rewardanswer USING btree (task_id);

CREATE INDEX training_rewarddoor_run_id_472ad83a ON public.training_rewarddoor USING btree (run_id);

CREATE INDEX training_rewarddoor_secret_hash_082b46d6_like ON public.training_rewarddoor USING btree (secret_hash varchar_pattern_ops);

CREATE INDEX training_trainingrun_parent_id_ffdef040 ON public.training_trainingrun USING btree (parent_id);

CREATE INDEX training_trainingrun_project_id_d7767e3e ON public.training_trainingrun USING btree (project_id);

CREATE INDEX training_trainingrun_worker_id_5e86c9ef ON public.training_trainingrun USING btree (worker_id);

CREATE INDEX turn_by_project ON public.conversations_turn USING btree (project_id, id DESC);

CREATE INDEX webhook_by_project ON public.webhooks_webhook USING btree (project_id, id);

CREATE INDEX webhooks_delivery_webhook_id_27345d75 ON public.webhooks_delivery USING btree (webhook_id);

CREATE INDEX webhooks_webhook_project_id_76846b5e ON public.webhooks_webhook USING btree (project_id);

CREATE INDEX workers_ensemble_project_id_5480e279 ON public.workers_ensemble USING btree (project_id);

CREATE INDEX workers_worker_agent_server_id_b38c33b0 ON public.workers_worker USING btree (agent_server_id);

CREATE INDEX workers_worker_learns_with_id_5046785e ON public.workers_worker USING btree (learns_with_id);

CREATE INDEX workers_worker_project_id_01f25f7d ON public.workers_worker USING btree (project_id);

CREATE INDEX workers_worker_provider_id_8bed5d47 ON public.workers_worker USING btree (provider_id);

CREATE TRIGGER pgtrigger_audit_entry_announced_d0f60 AFTER INSERT ON public.audit_auditentry FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_audit_entry_announced_d0f60();

COMMENT ON TRIGGER pgtrigger_audit_entry_announced_d0f60 ON public.audit_auditentry IS 'dc7a95296020283e1e0617a2011901f110e67a71';

CREATE TRIGGER pgtrigger_audit_entry_rows_cba51 BEFORE DELETE OR UPDATE ON public.audit_auditentry FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_audit_entry_rows_cba51();

COMMENT ON TRIGGER pgtrigger_audit_entry_rows_cba51 ON public.audit_auditentry IS 'e36fff160e356a8c5ef89862e74dce534428b84a';

CREATE TRIGGER pgtrigger_audit_entry_table_5d89f BEFORE TRUNCATE ON public.audit_auditentry FOR EACH STATEMENT EXECUTE FUNCTION public.pgtrigger_audit_entry_table_5d89f();

COMMENT ON TRIGGER pgtrigger_audit_entry_table_5d89f ON public.audit_auditentry IS '90777fe1f22020bed4163b1441d2688a38ae761e';

CREATE TRIGGER pgtrigger_audit_seal_rows_469c8 BEFORE DELETE OR UPDATE ON public.audit_auditseal FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_audit_seal_rows_469c8();

COMMENT ON TRIGGER pgtrigger_audit_seal_rows_469c8 ON public.audit_auditseal IS 'c4da58167663cafe372d4dce08aac44dfafa46d5';

CREATE TRIGGER pgtrigger_audit_seal_table_2fbaf BEFORE TRUNCATE ON public.audit_auditseal FOR EACH STATEMENT EXECUTE FUNCTION public.pgtrigger_audit_seal_table_2fbaf();

COMMENT ON TRIGGER pgtrigger_audit_seal_table_2fbaf ON public.audit_auditseal IS '301335a2214ba9b3f246c36dda17e1c26e4389c9';

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_made_with_id_33f3032c_fk_accounts_apitoken_id FOREIGN KEY (made_with_id) REFERENCES public.accounts_apitoken(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_project_id_16ebf865_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_user_id_bbee13e0_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_authenticatorapp
    ADD CONSTRAINT accounts_authenticatorapp_user_id_d1ff6ebf_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_browsersession
    ADD CONSTRAINT accounts_browsersession_user_id_b0cb11d3_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_invited_by_id_94a21efc_fk_accounts_user_id FOREIGN KEY (invited_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_project_id_55ac263e_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_member
    ADD CONSTRAINT accounts_member_project_id_111a002b_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_member
    ADD CONSTRAINT accounts_member_user_id_b994c8b6_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_passkey
    ADD CONSTRAINT accounts_passkey_user_id_f8f562b4_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_recoverycode
    ADD CONSTRAINT accounts_recoverycode_user_id_994761d3_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_group_id_bd11a704_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_52b62117_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_permission_id_113bb443_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_user_id_e4f0a161_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_parent_id_a6fe9381_fk_adapters_adapter_id FOREIGN KEY (parent_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_project_id_e1e72d7c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_adapter
    ADD CONSTRAINT adapters_adapter_worker_id_f4a3b280_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT adapters_deployment_adapter_id_a42153d3_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT adapters_deployment_canary_id_11e60c58_fk_adapters_adapter_id FOREIGN KEY (canary_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT adapters_deployment_previous_id_0b07a6cf_fk_adapters_adapter_id FOREIGN KEY (previous_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_deployment
    ADD CONSTRAINT adapters_deployment_worker_id_36ef3274_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_shadow
    ADD CONSTRAINT adapters_shadow_adapter_id_18ccb5e9_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_shadow
    ADD CONSTRAINT adapters_shadow_worker_id_663ff990_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.adapters_verdict
    ADD CONSTRAINT adapters_verdict_adapter_id_58f905cb_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.api_idempotencykey
    ADD CONSTRAINT api_idempotencykey_project_id_d06ebeff_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.api_idempotencykey
    ADD CONSTRAINT api_idempotencykey_user_id_1238a00a_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT calibration_comparis_project_id_21bbc0f1_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT calibration_comparis_rater_id_bdf00283_fk_calibrati FOREIGN KEY (rater_id) REFERENCES public.calibration_rater(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT calibration_comparison_attempt_id_606e0872_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_comparison
    ADD CONSTRAINT calibration_comparison_step_id_8c16d3b4_fk_tasks_step_id FOREIGN KEY (step_id) REFERENCES public.tasks_step(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_favourscreen
    ADD CONSTRAINT calibration_favoursc_project_id_a1786172_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.calibration_rater
    ADD CONSTRAINT calibration_rater_project_id_d248ee33_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.checks_namedcheck
    ADD CONSTRAINT checks_namedcheck_project_id_37c85e2a_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.console_preference
    ADD CONSTRAINT console_preference_user_id_6a09db44_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.console_savedview
    ADD CONSTRAINT console_savedview_owner_id_6e495914_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.console_savedview
    ADD CONSTRAINT console_savedview_project_id_c2732e2c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_conversation
    ADD CONSTRAINT conversations_conver_session_id_98c4503b_fk_inference FOREIGN KEY (session_id) REFERENCES public.inference_session(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_forgetting
    ADD CONSTRAINT conversations_forget_project_id_57971d52_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_beside_id_cf42134a_fk_conversations_turn_id FOREIGN KEY (beside_id) REFERENCES public.conversations_turn(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_parent_id_1c592ef8_fk_conversations_turn_id FOREIGN KEY (parent_id) REFERENCES public.conversations_turn(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_project_id_4866c98c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_session_id_00fd7da8_fk_inference_session_id FOREIGN KEY (session_id) REFERENCES public.inference_session(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turn
    ADD CONSTRAINT conversations_turn_task_id_e2478722_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turnexchange
    ADD CONSTRAINT conversations_turnex_exchange_id_abf82545_fk_inference FOREIGN KEY (exchange_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turnexchange
    ADD CONSTRAINT conversations_turnex_turn_id_644e2b1e_fk_conversat FOREIGN KEY (turn_id) REFERENCES public.conversations_turn(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turnsignal
    ADD CONSTRAINT conversations_turnsi_feedback_id_26fcb575_fk_feedback_ FOREIGN KEY (feedback_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.conversations_turnsignal
    ADD CONSTRAINT conversations_turnsi_turn_id_b9b37266_fk_conversat FOREIGN KEY (turn_id) REFERENCES public.conversations_turn(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_benchmark
    ADD CONSTRAINT evals_benchmark_project_id_5f5e39bf_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_benchmark
    ADD CONSTRAINT evals_benchmark_taskset_id_4e800973_fk_evals_taskset_id FOREIGN KEY (taskset_id) REFERENCES public.evals_taskset(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_chosenpanel
    ADD CONSTRAINT evals_chosenpanel_taskset_id_3ddb5074_fk_evals_taskset_id FOREIGN KEY (taskset_id) REFERENCES public.evals_taskset(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_chosenpanel
    ADD CONSTRAINT evals_chosenpanel_worker_id_63e1b38f_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_adapter_id_da65fa97_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_benchmark_id_6dc481dd_fk_evals_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES public.evals_benchmark(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_project_id_140d412b_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_replay_of_id_213e680c_fk_evals_evaluation_id FOREIGN KEY (replay_of_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_taskset_id_3bdb3f9a_fk_evals_taskset_id FOREIGN KEY (taskset_id) REFERENCES public.evals_taskset(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_evaluation
    ADD CONSTRAINT evals_evaluation_worker_id_24bd1fef_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_experiment
    ADD CONSTRAINT evals_experiment_project_id_34567d1a_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_humangrade
    ADD CONSTRAINT evals_humangrade_item_try_id_cbe5db6a_fk_evals_itemtry_id FOREIGN KEY (item_try_id) REFERENCES public.evals_itemtry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_item
    ADD CONSTRAINT evals_item_taskset_id_89ed791f_fk_evals_taskset_id FOREIGN KEY (taskset_id) REFERENCES public.evals_taskset(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_itemtry
    ADD CONSTRAINT evals_itemtry_evaluation_id_5cfedb9a_fk_evals_evaluation_id FOREIGN KEY (evaluation_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT evals_regressioncase_adapter_id_6dbce55a_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT evals_regressioncase_grade_id_caf8c2a5_fk_evals_humangrade_id FOREIGN KEY (grade_id) REFERENCES public.evals_humangrade(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT evals_regressioncase_item_id_1a3ab960_fk_evals_item_id FOREIGN KEY (item_id) REFERENCES public.evals_item(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_regressioncase
    ADD CONSTRAINT evals_regressioncase_worker_id_4e95914a_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_scenario
    ADD CONSTRAINT evals_scenario_candidate_id_92fcefab_fk_evals_evaluation_id FOREIGN KEY (candidate_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_scenario
    ADD CONSTRAINT evals_scenario_reference_id_712b0557_fk_evals_evaluation_id FOREIGN KEY (reference_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_scenario
    ADD CONSTRAINT evals_scenario_run_id_88b4ce0c_fk_evals_experiment_id FOREIGN KEY (run_id) REFERENCES public.evals_experiment(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_taskset
    ADD CONSTRAINT evals_taskset_project_id_abd259f4_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.evals_tryrecord
    ADD CONSTRAINT evals_tryrecord_item_try_id_987db592_fk_evals_itemtry_id FOREIGN KEY (item_try_id) REFERENCES public.evals_itemtry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_bulkjudgement
    ADD CONSTRAINT feedback_bulkjudgeme_project_id_382a84a0_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_bulkjudgement
    ADD CONSTRAINT feedback_bulkjudgement_by_id_90fd81bd_fk_accounts_user_id FOREIGN KEY (by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_in_bulk_id_c00a2419_fk_feedback_ FOREIGN KEY (in_bulk_id) REFERENCES public.feedback_bulkjudgement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_preferred_attempt_id_e5810b79_fk_tasks_att FOREIGN KEY (preferred_attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_project_id_bc89ab01_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_review_id_0cddc005_fk_feedback_review_id FOREIGN KEY (review_id) REFERENCES public.feedback_review(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_feedback
    ADD CONSTRAINT feedback_feedback_task_id_37fa5164_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_golditem
    ADD CONSTRAINT feedback_golditem_added_by_id_26ce8516_fk_accounts_user_id FOREIGN KEY (added_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_golditem
    ADD CONSTRAINT feedback_golditem_project_id_ef07e479_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_golditem
    ADD CONSTRAINT feedback_golditem_reference_id_62809ef0_fk_feedback_feedback_id FOREIGN KEY (reference_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_golditem
    ADD CONSTRAINT feedback_golditem_task_id_8e102686_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_hint
    ADD CONSTRAINT feedback_hint_feedback_id_1fed7fde_fk_feedback_feedback_id FOREIGN KEY (feedback_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_hint
    ADD CONSTRAINT feedback_hint_task_id_1ae154cf_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_about_id_15070240_fk_feedback_feedback_id FOREIGN KEY (about_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_appellant_id_45792574_fk_accounts_user_id FOREIGN KEY (appellant_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_assigned_to_id_95f1af78_fk_accounts_user_id FOREIGN KEY (assigned_to_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_claimed_by_id_c4b0ab86_fk_accounts_user_id FOREIGN KEY (claimed_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_project_id_9fff3266_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_review
    ADD CONSTRAINT feedback_review_task_id_d970704d_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_reviewdraft
    ADD CONSTRAINT feedback_reviewdraft_review_id_357b73c7_fk_feedback_review_id FOREIGN KEY (review_id) REFERENCES public.feedback_review(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_reviewdraft
    ADD CONSTRAINT feedback_reviewdraft_user_id_e4ed0e44_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_reviewskip
    ADD CONSTRAINT feedback_reviewskip_review_id_ce638849_fk_feedback_review_id FOREIGN KEY (review_id) REFERENCES public.feedback_review(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_reviewskip
    ADD CONSTRAINT feedback_reviewskip_user_id_b71c7230_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_rowimport
    ADD CONSTRAINT feedback_rowimport_by_id_a5c3ad88_fk_accounts_user_id FOREIGN KEY (by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_rowimport
    ADD CONSTRAINT feedback_rowimport_project_id_0d580b89_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_rowimport
    ADD CONSTRAINT feedback_rowimport_worker_id_9ca9660a_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_stepfeedback
    ADD CONSTRAINT feedback_stepfeedbac_feedback_id_38faa2e1_fk_feedback_ FOREIGN KEY (feedback_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_stepfeedback
    ADD CONSTRAINT feedback_stepfeedback_attempt_id_e8790bfb_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.feedback_stepfeedback
    ADD CONSTRAINT feedback_stepfeedback_step_id_9fc330a5_fk_tasks_step_id FOREIGN KEY (step_id) REFERENCES public.tasks_step(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_adapter_id_9f6e3128_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_mine_id_d6188746_fk_evals_itemtry_id FOREIGN KEY (mine_id) REFERENCES public.evals_itemtry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_task_id_ae1c7843_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.gate_answerpair
    ADD CONSTRAINT gate_answerpair_theirs_id_2ced9350_fk_evals_itemtry_id FOREIGN KEY (theirs_id) REFERENCES public.evals_itemtry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT inference_exchange_parent_id_beb87ba7_fk_inference_exchange_id FOREIGN KEY (parent_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT inference_exchange_project_id_4743ca81_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT inference_exchange_provider_id_f12b1024_fk_inference FOREIGN KEY (provider_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_exchange
    ADD CONSTRAINT inference_exchange_session_id_e7dfaf89_fk_inference_session_id FOREIGN KEY (session_id) REFERENCES public.inference_session(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_price
    ADD CONSTRAINT inference_price_provider_id_fcb56951_fk_inference_provider_id FOREIGN KEY (provider_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_provider
    ADD CONSTRAINT inference_provider_project_id_10559a47_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_providergrant
    ADD CONSTRAINT inference_providergr_project_id_a10946ba_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_providergrant
    ADD CONSTRAINT inference_providergr_provider_id_10441785_fk_inference FOREIGN KEY (provider_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inference_session
    ADD CONSTRAINT inference_session_project_id_2d541a6b_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.judges_judgeprobe
    ADD CONSTRAINT judges_judgeprobe_first_id_0dd405bc_fk_judges_judgeprobe_id FOREIGN KEY (first_id) REFERENCES public.judges_judgeprobe(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.judges_judgeprobe
    ADD CONSTRAINT judges_judgeprobe_project_id_cad8e8b3_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.judges_judgeprobe
    ADD CONSTRAINT judges_judgeprobe_provider_id_5fe16858_fk_inference_provider_id FOREIGN KEY (provider_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.regrading_regrade
    ADD CONSTRAINT regrading_regrade_regrading_id_140a03c8_fk_regrading FOREIGN KEY (regrading_id) REFERENCES public.regrading_regrading(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.regrading_regrading
    ADD CONSTRAINT regrading_regrading_evaluation_id_afcc6f72_fk_evals_eva FOREIGN KEY (evaluation_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.regrading_regrading
    ADD CONSTRAINT regrading_regrading_project_id_8e80814c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.regrading_regrading
    ADD CONSTRAINT regrading_regrading_worker_id_dd83dc55_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_batch
    ADD CONSTRAINT rollouts_batch_project_id_8ab76c6c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_batch
    ADD CONSTRAINT rollouts_batch_worker_id_fd79f4c6_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstrati_feedback_id_c4e4f705_fk_feedback_ FOREIGN KEY (feedback_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstrati_project_id_7da4fdbe_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstration_attempt_id_bf1002db_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstration_batch_id_6f961348_fk_rollouts_batch_id FOREIGN KEY (batch_id) REFERENCES public.rollouts_batch(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstration_task_id_16507d49_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_demonstration
    ADD CONSTRAINT rollouts_demonstration_worker_id_5a05b27f_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencep_feedback_id_5e2fdf0d_fk_feedback_ FOREIGN KEY (feedback_id) REFERENCES public.feedback_feedback(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencep_project_id_59ff1c39_fk_accounts_ FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencep_rejected_id_105e722e_fk_tasks_att FOREIGN KEY (rejected_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencepair_batch_id_0f29d71e_fk_rollouts_batch_id FOREIGN KEY (batch_id) REFERENCES public.rollouts_batch(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencepair_chosen_id_25fda725_fk_tasks_attempt_id FOREIGN KEY (chosen_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencepair_task_id_8fecb6f1_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_preferencepair
    ADD CONSTRAINT rollouts_preferencepair_worker_id_feb88206_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_adapter_id_0766f200_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_attempt_id_f1b7fbd2_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_hint_id_c279994d_fk_feedback_hint_id FOREIGN KEY (hint_id) REFERENCES public.feedback_hint(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_project_id_c8b2218b_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_task_id_f88b5b5d_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_rollout
    ADD CONSTRAINT rollouts_rollout_worker_id_927c8e03_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_traininguse
    ADD CONSTRAINT rollouts_traininguse_batch_id_2c73aafd_fk_rollouts_batch_id FOREIGN KEY (batch_id) REFERENCES public.rollouts_batch(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rollouts_traininguse
    ADD CONSTRAINT rollouts_traininguse_rollout_id_321d40fe_fk_rollouts_rollout_id FOREIGN KEY (rollout_id) REFERENCES public.rollouts_rollout(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT scoring_rewardmodel_project_id_8372b215_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_rewardmodel
    ADD CONSTRAINT scoring_rewardmodel_worker_id_457f77fc_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_steplabel
    ADD CONSTRAINT scoring_steplabel_attempt_id_4af7cbcc_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_steplabel
    ADD CONSTRAINT scoring_steplabel_step_id_6b9ea28e_fk_tasks_step_id FOREIGN KEY (step_id) REFERENCES public.tasks_step(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_stepscore
    ADD CONSTRAINT scoring_stepscore_attempt_id_851ac9b0_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scoring_stepscore
    ADD CONSTRAINT scoring_stepscore_step_id_c36076a8_fk_tasks_step_id FOREIGN KEY (step_id) REFERENCES public.tasks_step(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.skills_skill
    ADD CONSTRAINT skills_skill_project_id_b7e54cae_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.supervision_proposal
    ADD CONSTRAINT supervision_proposal_attempt_id_cbb72dfb_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.supervision_proposal
    ADD CONSTRAINT supervision_proposal_project_id_a413c5ec_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.supervision_proposal
    ADD CONSTRAINT supervision_proposal_proposed_by_id_b5553960_fk_accounts_ FOREIGN KEY (proposed_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.supervision_proposal
    ADD CONSTRAINT supervision_proposal_task_id_fca59540_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_adapter_id_9495e3f4_fk_adapters_adapter_id FOREIGN KEY (adapter_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_exchange_id_041453d7_fk_inference_exchange_id FOREIGN KEY (exchange_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_task_id_af6089aa_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_attempt
    ADD CONSTRAINT tasks_attempt_worker_id_41764b4f_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_episodeturn
    ADD CONSTRAINT tasks_episodeturn_attempt_id_463475c1_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_episodeturn
    ADD CONSTRAINT tasks_episodeturn_exchange_id_d42a4077_fk_inference_exchange_id FOREIGN KEY (exchange_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_furtherexchange
    ADD CONSTRAINT tasks_furtherexchang_exchange_id_26948af5_fk_inference FOREIGN KEY (exchange_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_furtherexchange
    ADD CONSTRAINT tasks_furtherexchange_attempt_id_c49c0464_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT tasks_shadowattempt_exchange_id_f29e9d72_fk_inference FOREIGN KEY (exchange_id) REFERENCES public.inference_exchange(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT tasks_shadowattempt_shadow_id_7b48acff_fk_adapters_shadow_id FOREIGN KEY (shadow_id) REFERENCES public.adapters_shadow(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_shadowattempt
    ADD CONSTRAINT tasks_shadowattempt_task_id_95228478_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_step
    ADD CONSTRAINT tasks_step_attempt_id_c2ac900c_fk_tasks_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.tasks_attempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_evaluation_id_c7b0abfb_fk_evals_evaluation_id FOREIGN KEY (evaluation_id) REFERENCES public.evals_evaluation(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_parent_id_ee6a2001_fk_tasks_task_id FOREIGN KEY (parent_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_project_id_a2815f0c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_submitted_by_id_4594cc95_fk_accounts_user_id FOREIGN KEY (submitted_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tasks_task
    ADD CONSTRAINT tasks_task_worker_id_c6da9f59_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_course
    ADD CONSTRAINT training_course_benchmark_id_b476b4f1_fk_evals_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES public.evals_benchmark(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_course
    ADD CONSTRAINT training_course_project_id_95f007ec_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_course
    ADD CONSTRAINT training_course_started_by_id_e4db69f8_fk_accounts_user_id FOREIGN KEY (started_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_course
    ADD CONSTRAINT training_course_worker_id_ebcc8e89_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_courseround
    ADD CONSTRAINT training_courseround_course_id_87a9381c_fk_training_course_id FOREIGN KEY (course_id) REFERENCES public.training_course(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_courseround
    ADD CONSTRAINT training_courseround_run_id_f75fecb5_fk_training_trainingrun_id FOREIGN KEY (run_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_gpulease
    ADD CONSTRAINT training_gpulease_run_id_42173d45_fk_training_trainingrun_id FOREIGN KEY (run_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_managerrun
    ADD CONSTRAINT training_managerrun_parent_id_c32fe30a_fk_training_ FOREIGN KEY (parent_id) REFERENCES public.training_managerrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_managerrun
    ADD CONSTRAINT training_managerrun_project_id_2b04ac4c_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_managerrun
    ADD CONSTRAINT training_managerrun_run_id_4dcc93b4_fk_training_trainingrun_id FOREIGN KEY (run_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_rewardanswer
    ADD CONSTRAINT training_rewardanswe_run_id_20d8af06_fk_training_ FOREIGN KEY (run_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_rewardanswer
    ADD CONSTRAINT training_rewardanswer_task_id_91bfc410_fk_tasks_task_id FOREIGN KEY (task_id) REFERENCES public.tasks_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_rewarddoor
    ADD CONSTRAINT training_rewarddoor_run_id_472ad83a_fk_training_trainingrun_id FOREIGN KEY (run_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_batch_id_8981130a_fk_rollouts_batch_id FOREIGN KEY (batch_id) REFERENCES public.rollouts_batch(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_parent_id_ffdef040_fk_adapters_adapter_id FOREIGN KEY (parent_id) REFERENCES public.adapters_adapter(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_project_id_d7767e3e_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_rebuilds_id_3c4023af_fk_training_ FOREIGN KEY (rebuilds_id) REFERENCES public.training_trainingrun(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.training_trainingrun
    ADD CONSTRAINT training_trainingrun_worker_id_5e86c9ef_fk_workers_worker_id FOREIGN KEY (worker_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT webhooks_delivery_webhook_id_27345d75_fk_webhooks_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhooks_webhook(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.webhooks_webhook
    ADD CONSTRAINT webhooks_webhook_project_id_76846b5e_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.workers_ensemble
    ADD CONSTRAINT workers_ensemble_project_id_5480e279_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT workers_worker_agent_server_id_b38c33b0_fk_inference FOREIGN KEY (agent_server_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT workers_worker_learns_with_id_5046785e_fk_workers_worker_id FOREIGN KEY (learns_with_id) REFERENCES public.workers_worker(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT workers_worker_project_id_01f25f7d_fk_accounts_project_id FOREIGN KEY (project_id) REFERENCES public.accounts_project(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.workers_worker
    ADD CONSTRAINT workers_worker_provider_id_8bed5d47_fk_inference_provider_id FOREIGN KEY (provider_id) REFERENCES public.inference_provider(id) DEFERRABLE INITIALLY DEFERRED;

INSERT INTO public.django_migrations (app, name, applied) VALUES
    ('accounts', '0001_initial', now()),
    ('accounts', '0002_limits_and_session_policy', now()),
    ('accounts', '0003_project_constitution', now()),
    ('accounts', '0004_a_project_says_when_to_train', now()),
    ('accounts', '0005_tokens_end_with_their_maker_and_cookies_are_hashed', now()),
    ('accounts', '0006_members_are_invited_and_projects_are_a_right', now()),
    ('accounts', '0007_a_second_factor_and_fresh_proofs', now()),
    ('accounts', '0008_projects_are_archived', now()),
    ('accounts', '0009_own_work_is_held_out', now()),
    ('accounts', '0010_settings_name_no_environment_without_a_world', now()),
    ('adapters', '0001_initial', now()),
    ('adapters', '0002_a_canary_beside_what_serves', now()),
    ('adapters', '0003_lines_of_adapters', now()),
    ('adapters', '0004_the_first_lines_count_as_versions', now()),
    ('adapters', '0005_one_of_each_per_line', now()),
    ('adapters', '0006_suspicion_and_side_results', now()),
    ('adapters', '0007_what_serves_may_be_in_trouble', now()),
    ('adapters', '0008_what_it_was_first_seen_with', now()),
    ('adapters', '0009_barred_adapters_and_their_rebuilds', now()),
    ('adapters', '0010_an_adapter_in_the_shadow', now()),
    ('adapters', '0011_more_answers_than_a_small_panel_gives', now()),
    ('adapters', '0012_what_waits_for_the_end_of_a_trial', now()),
    ('adapters', '0013_results_are_evaluations', now()),
    ('adapters', '0014_people_are_asked', now()),
    ('adapters', '0015_what_a_verdict_waits_for', now()),
    ('admin', '0001_initial', now()),
    ('admin', '0002_logentry_remove_auto_add', now()),
    ('admin', '0003_logentry_add_action_flag_choices', now()),
    ('api', '0001_idempotency_key', now()),
    ('api', '0002_answers_know_their_project', now()),
    ('audit', '0001_initial', now()),
    ('audit', '0002_found_by_kind_and_actor', now()),
    ('audit', '0003_epochs', now()),
    ('auth', '0001_initial', now()),
    ('auth', '0002_alter_permission_name_max_length', now()),
    ('auth', '0003_alter_user_email_max_length', now()),
    ('auth', '0004_alter_user_username_opts', now()),
    ('auth', '0005_alter_user_last_login_null', now()),
    ('auth', '0006_require_contenttypes_0002', now()),
    ('auth', '0007_alter_validators_add_error_messages', now()),
    ('auth', '0008_alter_user_username_max_length', now()),
    ('auth', '0009_alter_user_last_name_max_length', now()),
    ('auth', '0010_alter_group_name_max_length', now()),
    ('auth', '0011_update_proxy_permissions', now()),
    ('auth', '0012_alter_user_first_name_max_length', now()),
    ('calibration', '0001_raters_and_comparisons', now()),
    ('calibration', '0002_weights_of_a_rubric', now()),
    ('calibration', '0003_adapter_of_a_manager', now()),
    ('calibration', '0004_favour_screens_and_quarantine_by_a_person', now()),
    ('checks', '0001_checks_have_names', now()),
    ('console', '0001_preferences_and_saved_views', now()),
    ('console', '0002_one_language', now()),
    ('contenttypes', '0001_initial', now()),
    ('contenttypes', '0002_remove_content_type_name', now()),
    ('conversations', '0001_turns_signals_forgettings', now()),
    ('conversations', '0002_where_words_begin', now()),
    ('conversations', '0003_what_gateways_must_not_store', now()),
    ('conversations', '0004_batches_that_held_it', now()),
    ('conversations', '0005_turns_by_lineage', now()),
    ('evals', '0001_initial', now()),
    ('evals', '0002_tasksets_and_their_items', now()),
    ('evals', '0003_evaluations_and_their_tries', now()),
    ('evals', '0004_results_become_evaluations', now()),
    ('evals', '0005_answers_are_kept_to_be_compared', now()),
    ('evals', '0006_what_answers_are_sampled_with', now()),
    ('evals', '0007_experiments_are_evaluations_compared', now()),
    ('evals', '0008_one_hash_of_what_is_asked', now()),
    ('evals', '0009_items_weigh', now()),
    ('evals', '0010_capability_is_measured', now()),
    ('evals', '0011_benchmarks', now()),
    ('evals', '0012_a_gate_measures_on_what_is_chosen', now()),
    ('evals', '0013_runs_keep_what_came_of_tries', now()),
    ('evals', '0014_what_other_tools_asked_is_told_apart', now()),
    ('evals', '0015_known_answers_of_items', now()),
    ('evals', '0016_people_grade_tries', now()),
    ('evals', '0017_corrections_become_cases', now()),
    ('evals', '0018_alignment_is_measured', now()),
    ('feedback', '0001_initial', now()),
    ('feedback', '0002_review_workbench', now()),
    ('feedback', '0003_gold_items_and_undone_bulks', now()),
    ('feedback', '0004_lowest_score', now()),
    ('feedback', '0005_what_next_words_showed', now()),
    ('feedback', '0006_items_of_a_rubric', now()),
    ('feedback', '0007_who_appeals', now()),
    ('feedback', '0008_judgements_are_found_by_words', now()),
    ('feedback', '0009_many_rows_at_once', now()),
    ('feedback', '0010_work_that_is_imported', now()),
    ('feedback', '0011_answers_side_by_side', now()),
    ('feedback', '0012_what_a_gold_item_rests_on', now()),
    ('feedback', '0013_why_an_import_failed', now()),
    ('feedback', '0014_what_programs_decided_is_no_persons_word', now()),
    ('feedback', '0015_why_a_bulk_judgement_failed', now()),
    ('feedback', '0016_which_judge_said_it', now()),
    ('gate', '0001_pairs_of_answers', now()),
    ('gate', '0002_a_pair_waits_as_its_task_does', now()),
    ('inference', '0001_initial', now()),
    ('inference', '0002_prices_deltas_and_the_spool', now()),
    ('inference', '0003_kinds_probes_and_the_sealing_key', now()),
    ('inference', '0004_keys_say_themselves_what_sealed_them', now()),
    ('inference', '0005_cost_of_a_project_from_the_index', now()),
    ('inference', '0006_signed_thoughts', now()),
    ('inference', '0007_the_token_that_asked', now()),
    ('inference', '0008_likeliest_tokens', now()),
    ('inference', '0009_sessions_belong_to_who_speaks', now()),
    ('inference', '0010_sessions_nobody_named', now()),
    ('inference', '0011_how_answers_were_sampled', now()),
    ('inference', '0012_shared_servers_are_granted', now()),
    ('inference', '0013_who_uses_a_shared_server_may', now()),
    ('inference', '0014_which_fallback_answered_and_why', now()),
    ('inference', '0015_answers_their_agent_deleted', now()),
    ('inference', '0016_calls_in_sessions_are_found_by_words', now()),
    ('inference', '0017_calls_of_an_attempt_are_found', now()),
    ('judges', '0001_judges_are_probed', now()),
    ('judges', '0002_probes_keep_their_server', now()),
    ('operations', '0001_alarms', now()),
    ('operations', '0002_looks_at_model_servers', now()),
    ('operations', '0003_where_spans_are_told_up_to', now()),
    ('operations', '0004_refused_mails_are_put_off', now()),
    ('outbox', '0001_initial', now()),
    ('outbox', '0002_ended_segments_are_found_by_time', now()),
    ('outbox', '0003_who_waits_for_a_server_is_known', now()),
    ('regrading', '0001_new_grades_beside_the_old', now()),
    ('rollouts', '0001_initial', now()),
    ('rollouts', '0002_the_latest_unusable', now()),
    ('rollouts', '0003_batches_of_one_person', now()),
    ('rollouts', '0004_pairs_and_demonstrations', now()),
    ('rollouts', '0005_what_is_learnt_of_imports', now()),
    ('rollouts', '0006_pairs_of_several_sequences', now()),
    ('rollouts', '0007_trust_in_hints', now()),
    ('rollouts', '0008_hints_count_as_they_did', now()),
    ('scoring', '0001_initial', now()),
    ('scoring', '0002_reward_models_and_labels_of_steps', now()),
    ('scoring', '0003_reward_models_that_are_barred', now()),
    ('scoring', '0004_judges_nobody_could_name', now()),
    ('skills', '0001_initial', now()),
    ('supervision', '0001_proposals_of_running_workers', now()),
    ('supervision', '0002_calls_of_our_own_agents_are_proposed', now()),
    ('tasks', '0001_initial', now()),
    ('tasks', '0002_what_was_done_lately', now()),
    ('tasks', '0003_several_calls_and_what_is_kept_out', now()),
    ('tasks', '0004_tries_in_the_shadow', now()),
    ('tasks', '0005_attempts_may_be_cancelled', now()),
    ('tasks', '0006_tasks_are_found_by_words_and_score', now()),
    ('tasks', '0007_tasks_of_sessions_are_found', now()),
    ('tasks', '0008_the_same_words_are_found_again', now()),
    ('tasks', '0009_a_verification_is_kept', now()),
    ('tasks', '0010_environments_are_registered', now()),
    ('tasks', '0011_tasks_bring_checks', now()),
    ('tasks', '0012_attempts_are_episodes_of_turns', now()),
    ('tasks', '0013_tries_of_evaluations', now()),
    ('tasks', '0014_attempts_wait_for_approval', now()),
    ('tasks', '0015_a_task_is_part_of_an_earlier_one', now()),
    ('tasks', '0016_steps_may_begin_inside_a_token', now()),
    ('training', '0001_initial', now()),
    ('training', '0002_pauses_refusals_costs_and_leases', now()),
    ('training', '0003_rewards_for_trainers_that_sample', now()),
    ('training', '0004_runs_that_do_another_again', now()),
    ('training', '0005_what_runs_learnt_from', now()),
    ('training', '0006_fill_what_runs_learnt_from', now()),
    ('training', '0007_managers_that_are_trained', now()),
    ('training', '0008_signs_of_life_are_counted', now()),
    ('training', '0009_runs_say_in_words_what_did_not_count', now()),
    ('training', '0010_attempts_that_fell_silent_are_counted', now()),
    ('training', '0011_since_when_no_box_takes_a_run_up', now()),
    ('training', '0012_runs_have_names_comments_and_tags', now()),
    ('training', '0013_reward_doors_are_endpoints', now()),
    ('training', '0014_a_place_has_no_fence', now()),
    ('training', '0015_courses', now()),
    ('training', '0016_known_answers_are_shown', now()),
    ('training', '0017_past_attempts_are_kept', now()),
    ('training', '0018_when_a_run_was_begun', now()),
    ('training', '0019_when_earlier_runs_were_begun', now()),
    ('webhooks', '0001_webhooks_and_deliveries', now()),
    ('webhooks', '0002_cursors_know_their_epoch', now()),
    ('webhooks', '0003_waits_end', now()),
    ('webhooks', '0004_one_may_belong_to_the_installation', now()),
    ('workers', '0001_initial', now()),
    ('workers', '0002_outside_agents_under_supervision', now()),
    ('workers', '0003_an_agent_on_an_openclaw', now()),
    ('workers', '0004_adapters_per_worker_or_person', now()),
    ('workers', '0005_learn_with_another_worker', now()),
    ('workers', '0006_what_the_files_of_a_base_model_are', now()),
    ('workers', '0007_fallbacks_of_a_worker', now()),
    ('workers', '0008_what_the_last_comparison_of_base_weights_found', now()),
    ('workers', '0009_kinds_are_registered', now()),
    ('workers', '0010_since_when_a_worker_has_its_base', now()),
    ('workers', '0011_ensembles_of_workers', now()),
    ('worlds', '0001_worlds_have_certificates', now()),
    ('worlds', '0002_certificates_say_why_anyway', now()),
    ('worlds', '0003_repo_tasks_are_handed_in', now());
