import { Button, Group, Paper, Title } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";

/** The form of one entry of a list, below it; the focus goes there and back. */
export function EntryForm({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    frame.current?.querySelector("input")?.select(); // typing replaces a name that was only proposed
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <Paper ref={frame} withBorder p="sm" mt="xs" component="section" aria-label={title}>
      <Title order={3} size="h6" mb="xs" className="name">
        {title}
      </Title>
      {children}
      <Group mt="sm">
        <Button size="xs" variant="default" onClick={onClose}>
          Close the form
        </Button>
      </Group>
    </Paper>
  );
}
