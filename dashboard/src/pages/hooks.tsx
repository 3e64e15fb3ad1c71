import type { HookView } from "@circadia/client";
import { Button, Drawer, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { circadia } from "../server/circadia";
import { hookDeliveriesQuery, hooksQuery } from "../server/queries";
import { useViewPart } from "../server/view";

/** The webhooks that wake agents or write to them. */
export default function HooksPage() {
  const hooks = useQuery(hooksQuery);
  const [hook, setHook] = useViewPart("hook");
  const columns: Column<HookView>[] = [
    { id: "name", header: "Hook", width: "2fr", cell: ({ name }) => <Name text={name} />, sortValue: ({ name }) => name },
    { id: "agent", header: "Agent", width: "2fr", cell: ({ agent, event }) => (agent === null ? `event ${event}` : <AgentLink reference={agent} />), sortValue: ({ agent }) => agent ?? "" },
    { id: "path", header: "Address", width: "3fr", cell: ({ path }) => <Name text={`${location.origin}${path}`} mono />, csvValue: ({ path }) => path, isWideOnly: true },
    { id: "scheme", header: "Signature", width: "6rem", cell: ({ signature }) => signature, sortValue: ({ signature }) => signature, isWideOnly: true },
    { id: "acts", header: "Acts", width: "11rem", narrowWidth: "9rem", cell: (row) => <Acts hook={row} onShow={() => setHook(row.name)} /> },
  ];
  return (
    <Stack>
      <PageTitle about="Webhooks of GitHub, Slack, Stripe, OpenAI, Anthropic and others that wake agents or write to them. Each delivery is signed, and counts once.">
        Hooks
      </PageTitle>
      <QueryView query={hooks}>
        {(hooks) => (
          <VirtualTable
            label="Hooks"
            rows={hooks}
            rowKey={({ name }) => name}
            columns={columns}
            empty={<Empty command="circadia hooks set github agent=writer signature=github secret_env=GITHUB_HOOK_SECRET">There is no hook yet.</Empty>}
          />
        )}
      </QueryView>
      <Drawer opened={hook !== ""} onClose={() => setHook(null)} title={`Deliveries of ${hook}`} position="right" size="lg">
        {hook !== "" && <Deliveries hook={hook} />}
      </Drawer>
    </Stack>
  );
}

function Acts({ hook, onShow }: { hook: HookView; onShow: () => void }) {
  return (
    <Group gap={4} wrap="nowrap">
      <Button size="compact-xs" variant="default" onClick={onShow} aria-label={`Deliveries of ${hook.name}`}>
        Deliveries
      </Button>
      <ActButton
        size="compact-xs"
        subject={`hook ${hook.name}`}
        act={() => circadia.deleteHook({ path: { hook: hook.name } })}
        success={`${hook.name} is deleted.`}
        warning="Its deliveries get the status 404 from now on."
        barrier={hook.in_file ? "The configuration file defines this hook." : undefined}
      >
        Delete
      </ActButton>
    </Group>
  );
}

function Deliveries({ hook }: { hook: string }) {
  const deliveries = useQuery(hookDeliveriesQuery(hook));
  return (
    <QueryView query={deliveries}>
      {(deliveries) =>
        deliveries.length === 0 ? (
          <Text size="sm">No delivery was accepted yet.</Text>
        ) : (
          <ul className="plain-list">
            {deliveries.map(({ delivery, at, message, wake }) => (
              <li key={delivery}>
                <Text size="sm" component="div">
                  <Name text={delivery} mono /> <Ago at={at} />
                  {message !== null && (
                    <>
                      , message <Name text={message} mono />
                    </>
                  )}
                  {wake !== null && (
                    <>
                      , wake <Name text={wake} mono />
                    </>
                  )}
                </Text>
              </li>
            ))}
          </ul>
        )
      }
    </QueryView>
  );
}
