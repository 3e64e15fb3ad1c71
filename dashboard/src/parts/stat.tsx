import { Anchor, Group, Paper, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { Icon, type IconName, type Tone } from "./icon";

interface StatProps {
  label: string;
  children: ReactNode;
  icon?: IconName;
  tone?: Tone;
  /** A sentence below the number. */
  note?: ReactNode;
  href?: string;
}

/** One number with its name. */
export function Stat({ label, children, icon, tone, note, href }: StatProps) {
  return (
    <Paper withBorder p="sm" role="group" aria-label={label}>
      <Group gap={6} wrap="nowrap">
        {icon && <Icon name={icon} {...(tone && { tone })} />}
        {href ? (
          <Anchor component={Link} href={href} size="sm">
            {label}
          </Anchor>
        ) : (
          <Text size="sm">{label}</Text>
        )}
      </Group>
      <Text size="xl" fw={600} style={{ fontVariantNumeric: "tabular-nums" }}>
        {children}
      </Text>
      {note && (
        <Text size="xs" c="dimmed" component="div">
          {note}
        </Text>
      )}
    </Paper>
  );
}
