-- Sessions that OpenClaw 2026.9.6 has written: two of its tables, with made-up contents.
CREATE TABLE session_windows (
  session_id TEXT NOT NULL PRIMARY KEY,
  session_key TEXT NOT NULL,
  previous_session_id TEXT,
  reason TEXT CHECK (reason IS NULL OR reason IN ('initial', 'reset', 'rollover', 'fork', 'rewind', 'switch', 'recovery', 'compaction')),
  session_scope TEXT NOT NULL DEFAULT 'conversation' CHECK (session_scope IN ('conversation', 'shared-main', 'group', 'channel')),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  transcript_updated_at INTEGER DEFAULT NULL,
  transcript_observed_at INTEGER DEFAULT NULL,
  session_entry_provenance INTEGER NOT NULL DEFAULT 0 CHECK (session_entry_provenance IN (0, 1)),
  acp_owned INTEGER NOT NULL DEFAULT 0 CHECK (acp_owned IN (0, 1)),
  plugin_owner_id TEXT,
  hook_external_content_source TEXT CHECK (hook_external_content_source IS NULL OR hook_external_content_source IN ('gmail', 'webhook')),
  started_at INTEGER,
  ended_at INTEGER,
  status TEXT CHECK (status IS NULL OR status IN ('running', 'done', 'failed', 'killed', 'timeout')),
  chat_type TEXT CHECK (chat_type IS NULL OR chat_type IN ('direct', 'group', 'channel')),
  channel TEXT,
  account_id TEXT,
  primary_conversation_id TEXT,
  model_provider TEXT,
  model TEXT,
  agent_harness_id TEXT,
  parent_session_key TEXT,
  spawned_by TEXT,
  display_name TEXT,
  FOREIGN KEY (session_key) REFERENCES session_nodes(session_key) ON DELETE CASCADE,
  FOREIGN KEY (primary_conversation_id) REFERENCES conversations(conversation_id) ON DELETE SET NULL
) STRICT;
INSERT INTO session_windows (session_id, session_key, session_scope, created_at, updated_at, transcript_updated_at, transcript_observed_at, session_entry_provenance, acp_owned, model_provider, model, agent_harness_id) VALUES ('s1', 'agent:main:explicit:s1', 'conversation', 1796009975432, 1796009995977, 1796009995146, 1796009995146, 1, 0, 'm', 'gpt-5', 'openclaw');
INSERT INTO session_windows (session_id, session_key, session_scope, created_at, updated_at, transcript_updated_at, transcript_observed_at, session_entry_provenance, acp_owned, model_provider, model, agent_harness_id) VALUES ('s2', 'agent:main:explicit:s2', 'conversation', 1796010024705, 1796010040821, 1796010040774, 1796010040774, 1, 0, 'm', 'gpt-5', 'openclaw');
CREATE TABLE transcript_events (
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  event_json TEXT,
  created_at INTEGER NOT NULL,
  event_zstd BLOB,
  event_utf8_bytes INTEGER CHECK (event_utf8_bytes IS NULL OR event_utf8_bytes >= 0),
  navigation_json TEXT,
  PRIMARY KEY (session_id, seq),
  FOREIGN KEY (session_id) REFERENCES "session_windows"(session_id) ON DELETE CASCADE,
  CHECK (
    (event_json IS NOT NULL AND event_zstd IS NULL)
    OR (
      event_json IS NULL AND event_zstd IS NOT NULL
      AND event_utf8_bytes IS NOT NULL
      AND event_utf8_bytes BETWEEN 1 AND 4194304
      AND length(event_zstd) BETWEEN 1 AND 4194304
      AND navigation_json IS NOT NULL
    )
  ),
  CHECK (
    navigation_json IS NULL OR CASE WHEN json_valid(navigation_json) THEN coalesce(
      octet_length(navigation_json) <= 16384
      AND json_type(navigation_json, '$.version') = 'integer'
      AND json_extract(navigation_json, '$.version') = 1
      AND json_type(navigation_json, '$.report') = 'object'
      AND json_extract(navigation_json, '$.report.kind') IN ('canonical', 'leaf', 'link', 'ignored')
      AND json_type(navigation_json, '$.navigation') = 'object'
      AND json_type(navigation_json, '$.reset') = 'object'
      AND json_type(navigation_json, '$.model') = 'object'
      AND json_type(navigation_json, '$.modelBytes') = 'integer'
      AND json_extract(navigation_json, '$.modelBytes') BETWEEN 0 AND 4194304
      AND json_type(navigation_json, '$.modelWithoutCheckpointBytes') = 'integer'
      AND json_extract(navigation_json, '$.modelWithoutCheckpointBytes') BETWEEN 0 AND 4194304
      AND json_type(navigation_json, '$.withoutCustomDataBytes') = 'integer'
      AND json_extract(navigation_json, '$.withoutCustomDataBytes') BETWEEN 0 AND 4194304,
      0) ELSE 0 END
  )
) STRICT;
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 0, '{"type":"session","version":4,"id":"s1","timestamp":"2026-11-30T03:39:49.623Z","cwd":"/home/ann/.openclaw/workspace"}', 1796009989623, 130);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 1, '{"type":"model_change","provider":"m","modelId":"gpt-5","id":"880a3a0d-56a4-41c0-8a7b-e10138395441","parentId":null,"timestamp":"2026-11-30T03:39:49.793Z"}', 1796009989793, 155);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 2, '{"type":"thinking_level_change","thinkingLevel":"off","id":"888f1b69-de5f-4332-82e0-8cfc7829dae4","parentId":"880a3a0d-56a4-41c0-8a7b-e10138395441","timestamp":"2026-11-30T03:39:52.234Z"}', 1796009992234, 187);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 3, '{"type":"custom","customType":"model-snapshot","data":{"timestamp":1796009992415,"provider":"m","modelApi":"openai-completions","modelId":"gpt-5"},"id":"fbb01647-903b-477f-9b15-b935fd275458","parentId":"888f1b69-de5f-4332-82e0-8cfc7829dae4","timestamp":"2026-11-30T03:39:52.417Z"}', 1796009992417, 280);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 4, '{"type":"message","id":"4d2f9bfa-c8fa-4d6e-b178-8b3279439f6f","parentId":"fbb01647-903b-477f-9b15-b935fd275458","timestamp":"2026-11-30T03:39:52.766Z","message":{"role":"user","content":"Where is the database?","timestamp":1796009976528,"__openclaw":{"senderIsOwner":true},"idempotencyKey":"7b67c7d9-f674-452c-9adc-4a1521edce49:user"}}', 1796009992766, 335);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 5, '{"type":"message","id":"a2a7c022-0be1-4fc1-b1fa-6b9f8da9775b","parentId":"4d2f9bfa-c8fa-4d6e-b178-8b3279439f6f","timestamp":"2026-11-30T03:39:55.005Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"api":"openai-completions","provider":"m","model":"gpt-5","usage":{"input":6557,"output":1,"cacheRead":0,"cacheWrite":0,"reasoningTokens":0,"totalTokens":6558,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796009992868,"responseId":"chatcmpl-mock1","__openclaw":{"runId":"6c0b4696-4c69-4d1b-803a-9d0d49b4821c"}}}', 1796009995005, 591);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s1', 6, '{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1796009995084,"runId":"6c0b4696-4c69-4d1b-803a-9d0d49b4821c","sessionId":"s1"},"id":"1c3f2e07-87d9-417d-9ca2-97f9c472b0aa","parentId":"a2a7c022-0be1-4fc1-b1fa-6b9f8da9775b","timestamp":"2026-11-30T03:39:55.084Z"}', 1796009995084, 296);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s2', 0, '{"type":"session","version":4,"id":"s2","timestamp":"2026-11-30T03:40:40.191Z","cwd":"/home/ann/.openclaw/workspace"}', 1796010040191, 130);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s2', 1, '{"type":"model_change","provider":"m","modelId":"gpt-5","id":"0fc255ff-0b91-4e51-a816-960382569b0a","parentId":null,"timestamp":"2026-11-30T03:40:40.259Z"}', 1796010040259, 155);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s2', 2, '{"type":"thinking_level_change","thinkingLevel":"off","id":"25c83155-a07c-4d7e-8e4d-9d568f17f939","parentId":"0fc255ff-0b91-4e51-a816-960382569b0a","timestamp":"2026-11-30T03:40:40.504Z"}', 1796010040504, 187);
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s2', 3, '{"type":"custom","customType":"model-snapshot","data":{"timestamp":1796010040542,"provider":"m","modelApi":"openai-completions","modelId":"gpt-5"},"id":"c50384f6-0dc6-4fc6-b54e-e6601f2e6522","parentId":"25c83155-a07c-4d7e-8e4d-9d568f17f939","timestamp":"2026-11-30T03:40:40.543Z"}', 1796010040543, 280);
INSERT INTO transcript_events (session_id, seq, created_at, event_zstd, event_utf8_bytes, navigation_json) VALUES ('s2', 4, 1796010040632, X'28b52ffd64d1430d2800ea65d00d20408d526cafb9197877cb3108839455206d1766b27b67925981f333836118ee0d0101b400b600777777777777666666666666666666665555555555555555555544444444444444444444ffffffffffffff6fdbb66ddbb66ddb333333333333333333336ddbb66ddbb66d4b922449922449f2ceac8ae8b7675a92414468a16242e2c14284c40205830559381e1844983828161a282a26241e2c50008890983804180d4645c4511121f160301813070504a3c1381a484c18141a188c031d0a206e10378c189059900baad468301e3870a8a0381c30a830188cf674540185e8581c7e82053d28f0821e2064410a6c237f301a0c88011511c784c30383c170a0a37cb034085ad4e11c16af7a515217621abd683418100c0c06e358e040417138301a8ce3c1840a83425555555555555555555544444444444444444444ffffffffffffff6fdbb66ddbb66ddb333333333333333333336ddbb66ddbb66d4b9224499224499252a9542a954aa552a9542a954aa552a9547a777777777777777777676666666666666666665655555555555555555545444444444444444444f4ffffffffffffffb66ddbb66ddbb63d333333333333333333d3b66ddbb66ddbb62449922449922429140a8542a15028140a8542a15028140a85777777770144444444ffffffffffffff6fdbb66ddbb66ddb333333333333333333336ddbb66ddbb66d4b9224499224499262b1582c168bc562b1582c168bc562b1587c777777777777777777676666666666666666665655555555555555555545444444444444444444f4ffffffffffffffb66ddbb66ddbb63d333333333333333333d3b66ddbb66ddbb6244992244992242923232323232323232323232323232323232323737777777777777777776766666666666666666616152a18130705840693668252f050a360f142382c46ca8b932116bc550288a38c0663c24160c243c45121f1c0c101c1c060a8704098a86830268e08090528064c1c1011078541a1c190e0d0e021e27820810081c1f093aa0885ae18e0eeeeeeeeeeeeeeeeeeeeccccccccccccccccccccaaaaaaaaaaaaaaaaaaaa88888888888888888888feffffffffffffdfb66ddbb66ddbb667666666666666666666dab66ddbb66ddb9624499224499224e572b95c2e97cbe572b95c2e97cbe572b9fceeeeeeeeeeeeeeeeeececcccccccccccccccccacaaaaaaaaaaaaaaaaaa8a88888888882884b0a82380ceedff75a31f95e46e13b002031e6101167fe883bd4dc652ad8dc356b995e354bb99d3963a9bc75a3a9bc7546b3bc755393b8755aaf7ef647cdbd13b57799f1b36df7ad275cfe999ed38a6dacd3cacd6dd1cacd6d9346ed5db3836955b39aeb69b39ad54b379acd5255ad1fa36588e7b4ecf36cefd92eadfc978dbc1546bf398da6ee5b86a6de6b452cfe6b15667e631556dcf71556e676195eee66acd771e5b44ff4ec6db8edeb9cafbdcb0f9d69358e7b86a77e7b05a6765b1566fb3b1556de370d56ee578956ee6b2b4cee6b1b4d622af45dee786cdb79e74dd737ab671ee17a9fe21b8aaed39acd2ed38add2dd6c2cd5db3c2cd5db3866b5db39acb49b39acb6bb59bebe25e1df9c64fb7b8ed07f5d91f39f1e92fd1b41e6bfdf0ff257f7f8fe931df1bf2dc7709fa415ae5eb874e1550bad2eb9bae2aa0a572f5cbab06a8557975c5d70f5854b172e5d7875c1ab0baeaeb86ac5b5d8e857a33e19fc62f4e7a25f8bfa54f09ba21f96893e12286c6cd8d8d8b0b1b14db39113be08a07b9100b87405a96b07cb', 17617, '{"version":1,"report":{"kind":"canonical","hasParentId":true,"entry":{"id":"17568140-2612-4275-a9a2-6d8121e47e6a","parentId":"c50384f6-0dc6-4fc6-b54e-e6601f2e6522","timestamp":"2026-11-30T03:40:40.632Z","type":"message"}},"navigation":{"type":"message","id":"17568140-2612-4275-a9a2-6d8121e47e6a","parentId":"c50384f6-0dc6-4fc6-b54e-e6601f2e6522","timestamp":"2026-11-30T03:40:40.632Z","message":{"role":"user","__openclaw":{},"idempotencyKey":"7edb7851-d465-4703-ad25-f37cf7b14114:user"}},"reset":{"type":"message","id":"17568140-2612-4275-a9a2-6d8121e47e6a","parentId":"c50384f6-0dc6-4fc6-b54e-e6601f2e6522","timestamp":"2026-11-30T03:40:40.632Z","message":{"role":"user"}},"model":{"type":"message","id":"17568140-2612-4275-a9a2-6d8121e47e6a","parentId":"c50384f6-0dc6-4fc6-b54e-e6601f2e6522","timestamp":"2026-11-30T03:40:40.632Z","message":{"role":"user","timestamp":1796010027095,"content":[],"command":"","output":"","providerReplay":{"type":null},"details":{"openclawSyntheticMissingToolResult":false}}},"modelBytes":17617,"modelWithoutCheckpointBytes":17617,"withoutCustomDataBytes":17617}');
INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_utf8_bytes) VALUES ('s2', 5, '{"type":"message","id":"1e2c393a-fb2c-496b-b710-9971f9ef97b4","parentId":"17568140-2612-4275-a9a2-6d8121e47e6a","timestamp":"2026-11-30T03:40:40.768Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"api":"openai-completions","provider":"m","model":"gpt-5","usage":{"input":8903,"output":1,"cacheRead":0,"cacheWrite":0,"reasoningTokens":0,"totalTokens":8904,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1796010040653,"responseId":"chatcmpl-mock2","__openclaw":{"runId":"edb5c7d3-a9f6-41f6-8280-aaed8c94d1f2"}}}', 1796010040768, 591);
