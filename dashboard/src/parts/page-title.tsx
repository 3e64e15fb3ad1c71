import { Group, Text, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** The heading of a page, which also names the browser's tab. */
export function PageTitle({ children, about, acts }: { children: string; about?: string; acts?: ReactNode }) {
  useEffect(() => {
    document.title = `${children} – Circadia`;
  }, [children]);
  return (
    <Group justify="space-between" align="flex-start" gap="sm">
      <div style={{ minWidth: 0, flex: "1 1 16rem" }}>
        <Title order={1} size="h3" className="name" title={children}>
          <bdi>{children}</bdi>
        </Title>
        {about && (
          <Text size="sm" c="dimmed">
            {about}
          </Text>
        )}
      </div>
      {acts && <Group gap="xs">{acts}</Group>}
    </Group>
  );
}
