import type { ChainNode, UsageLine } from "@circadia/client";
import { Anchor, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";

import { Icon, type IconName } from "../parts/icon";
import { AgentLink, ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { ClockTime } from "../parts/time";
import { callsAddress } from "../server/call-filter";
import { formatCount, formatNumberOf, formatUsd } from "../server/format";
import { chainQuery } from "../server/queries";
import { splitReference } from "../server/reference";

const ICONS: Record<ChainNode["kind"], IconName> = { message: "inbox", wake: "wakes", pulse: "pulse" };
const DEEPEST_INDENT = 12;

/** The tree of messages, wakes and pulses that one cause led to. */
export default function ChainPage() {
  const { root = "" } = useParams<{ root: string }>();
  const chain = useQuery(chainQuery(root));
  return (
    <Stack>
      <PageTitle about="The tree of messages, wakes and pulses that one cause led to.">Chain</PageTitle>
      <QueryView query={chain}>
        {(chain) => (
          <>
            <Text size="sm" role="status">
              {formatNumberOf(chain.messages, "message")}, {formatNumberOf(chain.wakes, "wake")}, {formatNumberOf(chain.pulses, "pulse")};{" "}
              {chain.depth} deep; {formatUsage(chain.usage)}
            </Text>
            <ol style={{ listStyle: "none", padding: 0, margin: 0 }}>
              {chain.nodes.map((node) => (
                <li key={node.id} style={{ paddingInlineStart: `${Math.min(node.depth, DEEPEST_INDENT) * 1.25}rem`, paddingBlock: 4 }}>
                  <Group gap="xs" wrap="nowrap" align="flex-start">
                    <Icon name={ICONS[node.kind]} tone="quiet" />
                    <div style={{ minWidth: 0 }}>
                      <Text size="sm" component="div">
                        <ClockTime at={node.at} /> {node.kind} {node.state} <Name text={node.by} /> →{" "}
                        {node.kind === "message" ? <Name text={node.agent} /> : <AgentLink reference={node.agent} />}
                        {node.depth > 0 && (
                          <Text span size="xs" c="dimmed">
                            {" "}
                            depth {node.depth}
                          </Text>
                        )}
                      </Text>
                      {node.usage && (
                        <Text size="xs" c="dimmed">
                          <Anchor component={Link} href={callsOf(node)} size="xs" underline="always">
                            {formatUsage(node.usage)}
                          </Anchor>
                        </Text>
                      )}
                      {node.detail && <ForeignText text={node.detail} />}
                    </div>
                  </Group>
                </li>
              ))}
            </ol>
          </>
        )}
      </QueryView>
    </Stack>
  );
}

/** The address of the calls that a pulse has made. */
function callsOf({ agent: reference, at, ended_at: until }: ChainNode): string {
  const { session, agent } = splitReference(reference);
  return callsAddress({ session, agent, since: at, ...(until && { until }) });
}

function formatUsage(usage: UsageLine): string {
  const tokens = formatCount(usage.input_tokens + usage.output_tokens);
  const unpriced = usage.unpriced > 0 ? `, ${formatNumberOf(usage.unpriced, "call")} without a known price` : "";
  return `${formatNumberOf(usage.calls, "call")}, ${tokens} tokens, ${formatUsd(usage.cost_usd)}${unpriced}`;
}
