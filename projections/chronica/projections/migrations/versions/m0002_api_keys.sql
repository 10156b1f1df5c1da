-- API keys.

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
