import { Button, Kbd, Modal, Table } from "@mantine/core";
import { useEffect, useState } from "react";

import { lazy } from "../parts/lazy";

const Palette = lazy(() => import("./palette"), null);
const KEYS = [
  [["Ctrl", "K"], "Find and act; ⌘K on a Mac"],
  [["/"], "The same"],
  [["?"], "These keys"],
  [["Esc"], "Close what is open"],
  [["Tab"], "To the next control; the first one skips to the content"],
] as const;

/** The keys that work on each page, and the button that does the same. */
export function Shortcuts() {
  const [opened, setOpened] = useState<"palette" | "keys">();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
      const isCommand = (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k";
      if (isCommand || (!isTyping && event.key === "/" && !event.ctrlKey && !event.metaKey)) setOpened("palette");
      else if (!isTyping && event.key === "?") setOpened("keys");
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const close = () => setOpened(undefined);
  return (
    <>
      <Button variant="default" size="compact-md" onClick={() => setOpened("palette")} aria-label="Find and act" aria-keyshortcuts="Control+K Meta+K /">
        Find
        <Kbd size="xs" ml={6} visibleFrom="sm">
          /
        </Kbd>
      </Button>
      {opened === "palette" && <Palette onClose={close} />}
      <Modal opened={opened === "keys"} onClose={close} title="Keys">
        <Table aria-label="Keys">
          <Table.Tbody>
            {KEYS.map(([keys, words]) => (
              <Table.Tr key={words}>
                <Table.Th scope="row">
                  {keys.map((key) => (
                    <Kbd key={key} mr={4}>
                      {key}
                    </Kbd>
                  ))}
                </Table.Th>
                <Table.Td>{words}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Modal>
    </>
  );
}
