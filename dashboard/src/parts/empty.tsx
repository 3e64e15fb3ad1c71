import { Anchor, Code, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { PageTitle } from "./page-title";

/** What an empty list says: what would be here, and the command that adds it. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <Stack gap="xs" p="md">
      <Text size="sm">{children}</Text>
      {command && (
        <Code block tabIndex={0}>
          {command}
        </Code>
      )}
    </Stack>
  );
}

export function NotFoundPage() {
  return (
    <>
      <PageTitle>No such page</PageTitle>
      <Anchor component={Link} href="/">
        Go to the overview
      </Anchor>
    </>
  );
}
