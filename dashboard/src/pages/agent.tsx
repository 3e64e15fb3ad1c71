import type { AgentView } from "@circadia/client";
import { Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { AgentContext } from "../parts/agent-context";
import { AgentDay } from "../parts/agent-day";
import { AgentHeadline } from "../parts/agent-headline";
import { AgentInbox } from "../parts/agent-inbox";
import { AgentSchedule } from "../parts/agent-schedule";
import { AgentSettings } from "../parts/agent-settings";
import { AgentState, stateOf } from "../parts/agent-state";
import { Budgets } from "../parts/budgets";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { RotateToken } from "../parts/rotate-token";
import { Stat } from "../parts/stat";
import { Ago, Lasting } from "../parts/time";
import { ViewTabs } from "../parts/view-tabs";
import { WakeForm } from "../parts/wake-form";
import { callsAddress } from "../server/call-filter";
import { circadia } from "../server/circadia";
import { useHolds } from "../server/holds";
import { AgentZoneContext } from "../server/preferences";
import { agentQuery, coordinationQuery, pulsesQuery, type TaggedAgent, wakesQuery } from "../server/queries";
import { splitReference } from "../server/reference";

/** One agent: its state and why, its day, its inbox, its budgets and its settings. */
export default function AgentPage() {
  const { reference = "" } = useParams<{ reference: string }>();
  const { session, agent } = splitReference(decodeURIComponent(reference));
  const query = useQuery(agentQuery(session, agent));
  return <QueryView query={query}>{(agent) => <AgentDetails key={agent.id} agent={agent} />}</QueryView>;
}

function AgentDetails({ agent }: { agent: TaggedAgent }) {
  const holds = useHolds(1, { session: agent.session, agent: agent.name });
  const zone = useQuery(coordinationQuery(agent.reference)).data?.settings["zone"]?.value;
  return (
    <AgentZoneContext value={typeof zone === "string" ? zone : "UTC"}>
      <Stack>
        <PageTitle acts={<AgentActs agent={agent} />}>{agent.reference}</PageTitle>
        <AgentHeadline agent={agent} />
        {agent.description && <ForeignText text={agent.description} />}
        <SimpleGrid cols={{ base: 1, xs: 2, lg: 5 }}>
          <Stat label="State" note={<Why agent={agent} />}>
            <AgentState state={stateOf(agent)} />
          </Stat>
          <Stat label={agent.sleeping ? "Asleep for" : "Awake for"}>
            <Lasting since={agent.since} />
          </Stat>
          <Stat label="Held calls" icon="held" tone="held" href={callsAddress({ status: "held", session: agent.session, agent: agent.name })}>
            {agent.held + (holds.data?.total_elsewhere ?? 0)}
          </Stat>
          <LastWake agent={agent} />
          <NextWake agent={agent} />
        </SimpleGrid>
        <ViewTabs
          label="About this agent"
          tabs={[
            { value: "day", label: "Day", content: <AgentDay agent={agent} /> },
            { value: "inbox", label: "Inbox", content: <AgentInbox reference={agent.reference} /> },
            { value: "budgets", label: "Budgets", content: <Budgets agent={agent} /> },
            { value: "schedule", label: "Schedule", content: <AgentSchedule reference={agent.reference} /> },
            { value: "context", label: "Context", content: <AgentContext agent={agent} /> },
            { value: "settings", label: "Settings", content: <AgentSettings agent={agent} /> },
          ]}
        />
      </Stack>
    </AgentZoneContext>
  );
}

/** Who changed the state last, and how. */
function Why({ agent }: { agent: AgentView }) {
  return (
    <>
      by <Name text={agent.actor} /> ({agent.cause})
    </>
  );
}

function LastWake({ agent }: { agent: AgentView }) {
  const wakes = useQuery(wakesQuery(agent.reference, 20));
  const pulses = useQuery(pulsesQuery(agent.reference));
  const woken = wakes.data?.find((wake) => wake.decision === "admitted" || wake.decision === "coalesced");
  const run = pulses.data?.find((pulse) => pulse.kind === "schedule"); // the run of a routine that was due is no wake
  const last =
    run && !(woken && woken.at > run.created_at)
      ? { at: run.created_at, reason: run.reason, from: run.by }
      : woken && { at: woken.at, reason: woken.reason || woken.source, from: woken.from };
  return (
    <Stat
      label="Last wake"
      href={`/wakes?agent=${encodeURIComponent(agent.reference)}`}
      note={
        last && (
          <>
            {last.reason.replaceAll("_", " ")} from <Name text={last.from} />
          </>
        )
      }
    >
      {last ? <Ago at={last.at} /> : "none"}
    </Stat>
  );
}

function NextWake({ agent }: { agent: AgentView }) {
  return (
    <Stat label="Next wake" note={agent.next && <Name text={agent.next.by} />}>
      {agent.next ? <Ago at={agent.next.at} /> : "when it is called"}
    </Stat>
  );
}

function AgentActs({ agent }: { agent: AgentView }) {
  const path = { session: agent.session, agent: agent.name };
  const [isWaking, setWaking] = useState(false);
  const [, navigate] = useLocation();
  return (
    <Group gap="xs">
      {agent.sleeping ? (
        <ActButton
          act={() => circadia.setSleeping({ path, body: { sleeping: false } })}
          success={`${agent.reference} woken.`}
          barrier={agent.enabled ? undefined : "The agent is disabled."}
        >
          Wake
        </ActButton>
      ) : (
        <ActButton
          act={() => circadia.setSleeping({ path, body: { sleeping: true } })}
          success={`${agent.reference} put to sleep.`}
          barrier={agent.enabled ? undefined : "The agent is disabled."}
        >
          Sleep
        </ActButton>
      )}
      <Button size="xs" variant="default" onClick={() => setWaking(true)}>
        Ask for a wake
      </Button>
      {isWaking && <WakeForm reference={agent.reference} onClose={() => setWaking(false)} />}
      <RotateToken agent={agent} />
      <ActButton
        subject={agent.reference}
        act={() => circadia.changeAgent({ path, body: { enabled: !agent.enabled } })}
        success={agent.enabled ? `${agent.reference} disabled.` : `${agent.reference} enabled.`}
        {...(agent.enabled && { warning: "Its token is refused until you enable it, and its held calls end." })}
      >
        {agent.enabled ? "Disable" : "Enable"}
      </ActButton>
      <ActButton
        color="red"
        subject={agent.reference}
        removes={agent.reference}
        act={() => circadia.deleteAgent({ path }).then(() => navigate("/agents"))}
        success={`${agent.reference} deleted.`}
        warning={
          <Text size="sm">
            Its token becomes invalid, its held calls and pulses end. Its records stay. This cannot be undone.
          </Text>
        }
      >
        Delete
      </ActButton>
    </Group>
  );
}
