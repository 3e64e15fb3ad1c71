import type { OverviewView, ProblemView } from "@circadia/client";
import { Anchor, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { formatAmount } from "../server/format";
import { useLiveStatus } from "../server/live";
import { readinessQuery } from "../server/queries";
import { findServerProblems } from "../server/wellness";
import { Icon } from "./icon";
import { Lasting } from "./time";

/** What needs a person, each with its figure, limit, since when, and one act; or that all is well. */
export function Attention({ overview, isUnknown }: { overview: OverviewView | undefined; isUnknown: boolean }) {
  const status = useLiveStatus();
  const readiness = useQuery(readinessQuery);
  const isConnected = status !== "reconnecting";
  const ofServer = findServerProblems({ isConnected, readiness: readiness.data, isUnknown: isUnknown || readiness.isError });
  const problems = overview?.attention ?? [];
  if (ofServer.length + problems.length > 0) {
    return (
      <section className="attention" data-tone="bad" role="status" aria-label="Needs you">
        <Text fw={600} size="sm" className="attention-title">
          <Icon name="warning" tone="bad" /> Not all is well
        </Text>
        <ul>
          {ofServer.map((problem) => (
            <li key={problem} className="foreign-text">
              {problem}
            </li>
          ))}
          {problems.map((problem) => (
            <li key={`${problem.kind} ${problem.subject} ${problem.text}`}>
              <Need problem={problem} />
            </li>
          ))}
        </ul>
      </section>
    );
  }
  if (overview === undefined || readiness.data === undefined) {
    return (
      <section className="attention" data-tone="quiet" role="status">
        Checking the server …
      </section>
    );
  }
  return (
    <section className="attention" data-tone="good" role="status">
      <Text fw={600} size="sm" className="attention-title">
        <Icon name="check" tone="good" /> All well
      </Text>
      <Text size="sm">No budget is spent, no circuit open, no provider fails, nothing is overdue, and nothing waits for you.</Text>
    </section>
  );
}

function Need({ problem }: { problem: ProblemView }) {
  const { text, figure, limit, unit, since, act, page } = problem;
  return (
    <>
      <div className="foreign-text">{text}</div>
      <Text size="xs" c="dimmed" component="div" aria-live="off">
        {figure !== null && formatAmount(figure, limit, unit)}
        {figure !== null && since !== null && " · "}
        {since !== null && (
          <>
            for <Lasting since={since} />
          </>
        )}
        {page && (
          <>
            {(figure !== null || since !== null) && " · "}
            <Anchor component={Link} href={page} size="xs" fw={600} aria-label={`${act}: ${problem.subject || text}`}>
              {act}
            </Anchor>
          </>
        )}
      </Text>
    </>
  );
}
