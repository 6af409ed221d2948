CREATE TABLE goal_fleet_workers (
    worker_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text[] NOT NULL DEFAULT '{}',
    labels text[] NOT NULL DEFAULT '{}',
    secrets text[] NOT NULL DEFAULT '{}',
    jobs integer NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The clock of the database alone decides who is alive: those of hosts may differ.
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since then, the database has seen this worker without a long gap.
    steady_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz
);
-- Two workers of one name are never alive at once.
CREATE UNIQUE INDEX goal_fleet_workers_name ON goal_fleet_workers (name) WHERE stopped_at IS NULL;

CREATE TABLE goal_fleet_runs (
    run_id text PRIMARY KEY,
    batch text NOT NULL DEFAULT '',
    name text NOT NULL,
    objective text NOT NULL,
    -- What a worker needs to begin: goal file, options, repository, base, bundle.
    job jsonb NOT NULL,
    queue text NOT NULL DEFAULT 'default',
    priority integer NOT NULL DEFAULT 0,
    labels text[] NOT NULL DEFAULT '{}',
    secrets text[] NOT NULL DEFAULT '{}',
    account text NOT NULL DEFAULT '',
    after text[] NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'ended', 'dead')),
    -- Rises each time a worker takes the run: the log is written with the newest one only.
    token bigint NOT NULL DEFAULT 0,
    worker_id bigint REFERENCES goal_fleet_workers,
    -- Workers that ended without an end of the run, in a row.
    deaths integer NOT NULL DEFAULT 0,
    not_before timestamptz,
    deadline timestamptz,
    cancel_reason text,
    -- The archives of the run's folder in the store, in their order, and the events that they hold.
    shipped text[] NOT NULL DEFAULT '{}',
    shipped_seq bigint NOT NULL DEFAULT 0,
    shipped_token bigint NOT NULL DEFAULT 0,
    summary jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT '',
    exit_code integer,
    reason text NOT NULL DEFAULT '',
    submitted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    ended_at timestamptz
);
CREATE INDEX goal_fleet_runs_state ON goal_fleet_runs (state, queue, priority DESC, submitted_at);
CREATE INDEX goal_fleet_runs_batch ON goal_fleet_runs (batch);
CREATE INDEX goal_fleet_runs_worker ON goal_fleet_runs (worker_id) WHERE state = 'running';
-- Few of many queued runs wait for others, or have a deadline.
CREATE INDEX goal_fleet_runs_after ON goal_fleet_runs (run_id) WHERE state = 'queued' AND after <> '{}';
CREATE INDEX goal_fleet_runs_deadline ON goal_fleet_runs (deadline) WHERE state IN ('queued', 'running');

-- When a worker has last looked after the runs of all: one row.
CREATE TABLE goal_fleet_upkeep (at timestamptz NOT NULL);
INSERT INTO goal_fleet_upkeep VALUES ('-infinity');

-- The log of each run, written before each effect.
CREATE TABLE goal_fleet_intents (
    run_id text NOT NULL REFERENCES goal_fleet_runs ON DELETE CASCADE,
    token bigint NOT NULL,
    seq bigint NOT NULL,
    line text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, token, seq)
);

-- What people ask of a run from other machines: commands of `goal` without the id of the run.
CREATE TABLE goal_fleet_requests (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id text NOT NULL REFERENCES goal_fleet_runs ON DELETE CASCADE,
    arguments text[] NOT NULL,
    by text NOT NULL DEFAULT '',
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at timestamptz,
    answer text NOT NULL DEFAULT ''
);
CREATE INDEX goal_fleet_requests_open ON goal_fleet_requests (run_id) WHERE done_at IS NULL;

-- What all workers together may do with a queue, or with an account: that of a provider, or of an agent's program.
CREATE TABLE goal_fleet_limits (
    kind text NOT NULL CHECK (kind IN ('queue', 'account')),
    name text NOT NULL,
    runs integer,
    cost_per_day double precision,
    paused_until timestamptz,
    pauses integer NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (kind, name)
);
CREATE INDEX goal_fleet_runs_account ON goal_fleet_runs (account) WHERE state = 'running';
CREATE INDEX goal_fleet_runs_queue ON goal_fleet_runs (queue) WHERE state = 'running';
-- The dollars of a run by the day on which they were spent, UTC.
CREATE TABLE goal_fleet_spending (
    run_id text NOT NULL REFERENCES goal_fleet_runs ON DELETE CASCADE,
    day date NOT NULL,
    account text NOT NULL,
    queue text NOT NULL,
    cost_usd double precision NOT NULL,
    PRIMARY KEY (run_id, day)
);
CREATE INDEX goal_fleet_spending_day ON goal_fleet_spending (day, account, queue);
CREATE TABLE goal_fleet_settings (name text PRIMARY KEY, value text NOT NULL);
