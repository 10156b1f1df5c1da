-- The current shape of the database; the only place where it is written whole. Migrations lead here
-- (a test builds one database from each and compares them).
--
-- Two kinds of schema. `chronica` is pinned: it can't be derived from the log. `chronica_g<N>` is
-- derived: everything in it is what `decide` makes of the log, and a rebuild makes it again as
-- generation N+1 beside the one that serves. Texts that Postgres can't hold (NUL, lone surrogates)
-- are kept escaped: U+001A and four hex digits for each such character, and for U+001A itself.

CREATE SCHEMA chronica;
COMMENT ON SCHEMA chronica IS 'Pinned: what the log does not say.';

CREATE TYPE chronica.actum_kind AS ENUM ('message', 'thought', 'tool_request', 'tool_response');
CREATE TYPE chronica.actor_kind AS ENUM ('human', 'agent', 'system');
CREATE TYPE chronica.outcome AS ENUM ('recorded', 'duplicate', 'refused');

CREATE TABLE chronica.topics (
    topic text PRIMARY KEY,
    topic_id text NOT NULL,
    partitions integer NOT NULL CHECK (partitions > 0),
    pinned_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE chronica.topics IS 'The log this database belongs to: each topic''s identity and '
    'partition count, pinned at the first start. A recreated or repartitioned topic is refused.';

CREATE TABLE chronica.live (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation integer NOT NULL CHECK (generation > 0)
);
COMMENT ON TABLE chronica.live IS 'The generation that serves; one row. Read in each transaction.';
INSERT INTO chronica.live (generation) VALUES (1);

CREATE TABLE chronica.verdicts (
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    pinned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition, "offset")
);
COMMENT ON TABLE chronica.verdicts IS 'Records that Postgres refused on data although they are '
    'valid: the recorder''s answer, kept outside the derived tables so that a rebuild repeats it.';

CREATE TABLE chronica.api_keys (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    digest bytea NOT NULL UNIQUE,
    prefix text NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
COMMENT ON TABLE chronica.api_keys IS 'Who may call the API. digest is the sha256 of the secret, which '
    'is nowhere kept; a revoked key stays, so that a server which ever had keys never opens again.';
COMMENT ON INDEX chronica.api_keys_digest_key IS 'A key is found by its digest, and is one tenant''s.';

-- derived: everything below is made again, with another number, by each generation

CREATE SCHEMA chronica_g1;
COMMENT ON SCHEMA chronica_g1 IS 'Derived from the log: generation 1.';

CREATE TABLE chronica_g1.claims (
    topic text NOT NULL,
    partition integer NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    next_offset bigint NOT NULL DEFAULT 0,
    last_offset bigint NOT NULL DEFAULT -1,
    last_timestamp_ms bigint NOT NULL DEFAULT -1,
    last_checksum bytea NOT NULL DEFAULT '',
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 20);
COMMENT ON TABLE chronica_g1.claims IS 'How far each partition is recorded (next_offset), who may '
    'go on (the holder of epoch), and what the last record was, so that another log is noticed.';

CREATE TABLE chronica_g1.chronica (
    number bigint PRIMARY KEY,
    digest uuid NOT NULL,
    created_at timestamptz NOT NULL,
    last_activity_at timestamptz NOT NULL,
    last_seq bigint NOT NULL,
    tenant text NOT NULL,
    id text NOT NULL,
    owner text NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE chronica_g1.chronica IS 'Sessions. number is the place of the record that created '
    'it: offset * 1024 + partition.';
CREATE UNIQUE INDEX chronica_digest ON chronica_g1.chronica (digest);
COMMENT ON INDEX chronica_g1.chronica_digest IS 'One chronicum per tenant and id: 128 bits of the '
    'sha256 of both, because an id may be longer than an index entry.';

CREATE TABLE chronica_g1.acta (
    chronicum bigint NOT NULL,
    seq bigint NOT NULL,
    "offset" bigint NOT NULL,
    at timestamptz NOT NULL,
    dedupe uuid NOT NULL,
    partition integer NOT NULL,
    chars integer NOT NULL,
    kind chronica.actum_kind NOT NULL,
    actor_kind chronica.actor_kind NOT NULL,
    id text NOT NULL,
    actor text NOT NULL,
    call_id text,
    key text,
    metadata text,
    content text NOT NULL,
    PRIMARY KEY (chronicum, seq)
);
COMMENT ON TABLE chronica_g1.acta IS 'What was recorded, never updated. seq is 1..n without a gap; '
    'metadata is the JSON source text as it came in; chars counts the code points of content.';
COMMENT ON INDEX chronica_g1.acta_pkey IS 'Order, and no seq twice: the window without filters.';
CREATE UNIQUE INDEX acta_dedupe ON chronica_g1.acta (dedupe);
COMMENT ON INDEX chronica_g1.acta_dedupe IS 'The first one wins: 128 bits of the sha256 of '
    'chronicum and idempotency key, or submission id where no key came: a retry may name it as key.';
CREATE UNIQUE INDEX acta_place ON chronica_g1.acta (partition, "offset");
COMMENT ON INDEX chronica_g1.acta_place IS 'One record, one actum: outcomes by position.';
CREATE INDEX acta_window ON chronica_g1.acta (chronicum, kind, actor_kind, seq);
COMMENT ON INDEX chronica_g1.acta_window IS 'Windows with filters: the newest of each wanted pair '
    'of kinds, however rare it is.';

CREATE TABLE chronica_g1.outcomes (
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    outcome chronica.outcome NOT NULL,
    reason text,
    current_seq bigint,
    chronicum bigint,
    seq bigint,
    kept uuid,
    PRIMARY KEY (topic, partition, "offset")
);
COMMENT ON TABLE chronica_g1.outcomes IS 'Decisions that are not an actum of their own: duplicates '
    '(chronicum and seq name the first), refusals (reason), created chronica (chronicum).';
CREATE UNIQUE INDEX outcomes_kept ON chronica_g1.outcomes (kept) WHERE kept IS NOT NULL;
COMMENT ON INDEX chronica_g1.outcomes_kept IS 'What could turn (a sequence conflict, a missing '
    'chronicum, a creation) is answered to a copy of the submission as at first: 128 bits of the sha256 of chronicum, owner and submission id.';

CREATE TABLE chronica_g1.dead_letters (
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    timestamp_ms bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    key bytea,
    value bytea,
    headers text NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
);
COMMENT ON TABLE chronica_g1.dead_letters IS 'Records that can''t be decided: why, where, and '
    'their bytes. headers is a JSON array of [name, base64 of the value or null].';
