import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { circadia } from "../server/circadia";
import type { Values } from "../server/draft";
import { coordinationQuery, type TaggedAgent } from "../server/queries";
import { type Field, FieldForm } from "./field-form";
import { QueryView } from "./query-view";

const POLICY: Field[] = [
  { key: "upstreams", label: "Model providers", kind: "list", about: "Upstreams that it may call; * means all" },
  { key: "models", label: "Models", kind: "list", isNullable: true, about: "Models that it may name; empty means all" },
  { key: "mcp_servers", label: "MCP servers", kind: "list", about: "Servers that it may call; * means all" },
  { key: "tools", label: "Circadia's tools", kind: "list", about: "Groups: threads, waits, inbox, memory, sleep; * means all" },
  { key: "max_calls_per_day", label: "Calls a day", kind: "number", isNullable: true, about: "Empty means no limit" },
  { key: "max_tokens_per_day", label: "Tokens a day", kind: "number", isNullable: true, about: "Empty means no limit" },
  { key: "max_usd_per_day", label: "US dollars a day", kind: "number", isNullable: true, about: "Empty means no limit" },
  { key: "hold_max_seconds", label: "Longest hold in seconds", kind: "number", isNullable: true, about: "Empty means until it wakes" },
  { key: "may_wake", label: "May wake", kind: "list", about: "Agents that it may wake" },
  { key: "may_sleep", label: "May put to sleep", kind: "list", about: "Agents that it may put to sleep" },
  { key: "sessions", label: "Other sessions", kind: "list", about: "Sessions whose agents it may address" },
  { key: "bank", label: "Memory bank", kind: "text", isNullable: true, about: "{user} stands for the end user" },
  { key: "banks", label: "Banks in order", kind: "list", about: "Several instead of one; the first stores its turns" },
  { key: "read_banks", label: "Banks to read", kind: "list", about: "Other banks that it may only read" },
  { key: "write_banks", label: "Banks to write", kind: "list", about: "Other banks that it may read and write" },
  { key: "on_wake", label: "Held prompt after a wake", kind: "choice", choices: ["notice", "forward", "refresh"] },
  { key: "answer_mode", label: "Ready answers", kind: "choice", choices: ["off", "hint", "serve"] },
  { key: "capture", label: "Store its turns as episodes", kind: "switch" },
  { key: "inject", label: "Add memory to its calls", kind: "switch" },
  { key: "multi_user", label: "Serves many people", kind: "switch" },
  { key: "hold_lists", label: "Hold MCP list requests too", kind: "switch" },
  { key: "abort_streams", label: "Abort running streams when it is put to sleep", kind: "switch" },
];

/** What the agent may do and spend, and when it may be woken. */
export function AgentSettings({ agent }: { agent: TaggedAgent }) {
  const path = { session: agent.session, agent: agent.name };
  const coordination = useQuery(coordinationQuery(agent.reference));
  return (
    <Stack gap="xl">
      <section aria-label="Policy">
        <Title order={2} size="h5" mb="xs">
          Policy
        </Title>
        {agent.in_file && (
          <Text size="sm" mb="xs" role="note">
            The configuration file names this agent: its next change, or a restart, sets these values again.
          </Text>
        )}
        {agent.policy && (
          <FieldForm
            name={`policy ${agent.id}`}
            fields={POLICY}
            server={{ etag: agent.etag, values: agent.policy as Values }}
            save={(policy, etag) => circadia.changeAgent({ path, body: { policy }, headers: { "If-Match": etag } })}
            errorPath="body.policy."
            success={`The policy of ${agent.reference} is changed.`}
          />
        )}
      </section>
      <section aria-label="Wakes and guardrails">
        <Title order={2} size="h5" mb="xs">
          Wakes and guardrails
        </Title>
        <Text size="sm" mb="xs">
          “Ask for a wake”, above, has a test that shows what each guardrail says and changes nothing.
        </Text>
        <QueryView query={coordination}>
          {({ settings, etag }) => {
            const names = Object.keys(settings).filter((name) => settings[name]?.value === null || typeof settings[name]?.value !== "object");
            return (
              <FieldForm
                name={`coordination ${agent.id}`}
                fields={names.map((name) => coordinationField(name, settings[name]!.value, settings[name]!.source))}
                server={{ etag, values: Object.fromEntries(names.map((name) => [name, settings[name]!.value])) }}
                save={(body, etag) =>
                  circadia.changeCoordination({ path: { agent: agent.reference }, body, headers: { "If-Match": etag } })
                }
                errorPath="body."
                success={`The next decision on a wake of ${agent.reference} follows the new settings.`}
              />
            );
          }}
        </QueryView>
      </section>
    </Stack>
  );
}

const CHOICES: Record<string, string[]> = {
  on_busy: ["defer", "refuse"],
  on_cooldown: ["defer", "refuse"],
  on_concurrency: ["defer", "refuse"],
  "wake_guardrails.pair_mode": ["directed", "either"],
  "blackout_policies.wake": ["run", "defer", "skip"],
  "blackout_policies.schedule": ["run", "defer", "skip"],
  "blackout_policies.one_off": ["run", "defer", "skip"],
};

function coordinationField(name: string, value: unknown, source: string): Field {
  const words = name.split(".").at(-1)!.replaceAll("_", " ");
  const label = words.charAt(0).toUpperCase() + words.slice(1);
  const group = name.startsWith("blackout_policies.") ? `Blackouts, ${label.toLowerCase()}` : label;
  const about = `from ${source === "patch" ? "a person" : `the ${source}`}`;
  if (CHOICES[name]) return { key: name, label: group, kind: "choice", choices: CHOICES[name], about };
  if (typeof value === "boolean") return { key: name, label: group, kind: "switch", about };
  if (typeof value === "string") return { key: name, label: group, kind: "text", about };
  return { key: name, label: group, kind: "number", isNullable: true, about };
}
