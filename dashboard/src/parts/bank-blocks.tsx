import type { BlockView } from "@circadia/client";
import { Button, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "wouter";

import { blocksQuery } from "../server/queries";
import { BlockDetails } from "./block-details";
import { BlockEditor } from "./block-editor";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

/** The blocks of a bank, and the one that is chosen. */
export function BankBlocks({ bank }: { bank: string }) {
  const blocks = useQuery(blocksQuery(bank));
  const [isAdding, setAdding] = useState(false);
  const [params, setParams] = useSearchParams();
  const label = params.get("block");
  const show = (block: string) => setParams({ tab: "blocks", block });
  return (
    <Stack>
      <Group justify="flex-end">
        <Button size="xs" variant="default" onClick={() => setAdding(true)}>
          Add a block
        </Button>
      </Group>
      {isAdding && <BlockEditor bank={bank} onClose={() => setAdding(false)} onSaved={(block) => show(block.label)} />}
      <QueryView query={blocks}>
        {(blocks) => (
          <VirtualTable
            label="Blocks"
            rows={blocks}
            rowKey={(block) => block.label}
            columns={columnsFor(show)}
            empty={
              <Empty command={`circadia blocks write ${bank} human "Ann lives in Porto."`}>
                No block yet. A block is part of each prompt of the bank&apos;s agents; passes and people write it:
              </Empty>
            }
          />
        )}
      </QueryView>
      {label !== null && <BlockDetails key={label} bank={bank} label={label} />}
    </Stack>
  );
}

function columnsFor(onShow: (label: string) => void): Column<BlockView>[] {
  return [
    { id: "label", header: "Label", width: "1fr", cell: (block) => <Name text={block.label} />, sortValue: (block) => block.label },
    { id: "value", header: "Text", width: "3fr", cell: (block) => <Name text={block.value} />, isWideOnly: true },
    { id: "version", header: "Version", width: "5rem", cell: (block) => block.version, sortValue: (block) => block.version, isNumber: true },
    { id: "by", header: "Written by", width: "1fr", cell: (block) => <Name text={block.by} />, sortValue: (block) => block.by, isWideOnly: true },
    { id: "at", header: "When", width: "6rem", cell: (block) => <Ago at={block.at} />, sortValue: (block) => block.at },
    {
      id: "more",
      header: "More",
      width: "4.5rem",
      cell: (block) => (
        <Button size="compact-xs" variant="default" onClick={() => onShow(block.label)} aria-label={`Show the block ${block.label}`}>
          Show
        </Button>
      ),
    },
  ];
}
