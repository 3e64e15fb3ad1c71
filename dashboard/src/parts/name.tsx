import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";

/** A name that others chose, on one line. */
export function Name({ text, mono = false }: { text: string; mono?: boolean }) {
  return (
    <bdi className="name" title={text} style={mono ? { fontFamily: "var(--mantine-font-family-monospace)" } : undefined}>
      {text}
    </bdi>
  );
}

export function agentAddress(reference: string): string {
  return `/agents/${encodeURIComponent(reference)}`;
}

/** The reference of an event's agent: its bare name in the session `default`. */
export function referenceOf(session: string | null, agent: string): string {
  return session === null || session === "default" ? agent : `${session}:${agent}`;
}

/** Split a reference into its session and name. */
export function splitReference(reference: string): { session: string; agent: string } {
  const colon = reference.lastIndexOf(":");
  return { session: colon < 0 ? "default" : reference.slice(0, colon), agent: reference.slice(colon + 1) };
}

/** An agent's name that leads to its page. */
export function AgentLink({ reference }: { reference: string }) {
  return (
    <Anchor component={Link} href={agentAddress(reference)} className="name">
      <Name text={reference} />
    </Anchor>
  );
}

/** A text that others wrote: with its lines, but no markup. */
export function ForeignText({ text }: { text: string }) {
  return (
    <Text size="sm" className="foreign-text" dir="auto">
      {text}
    </Text>
  );
}
