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

/** An agent's name that leads to its page. */
export function AgentLink({ reference }: { reference: string }) {
  return (
    <Anchor component={Link} href={`/agents/${encodeURIComponent(reference)}`} className="name">
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
