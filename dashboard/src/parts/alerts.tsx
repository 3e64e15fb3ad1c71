import type { AlertRecordView } from "@circadia/client";
import { SegmentedControl, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";

import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { alertsQuery } from "../server/queries";
import { referenceOf } from "../server/reference";
import { ActButton } from "./act-button";
import { AgentLink, ForeignText, Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { WaitingList } from "./waiting-list";

/** The alerts that nobody has acknowledged, or all that were raised. */
export function Alerts() {
  const [params, setParams] = useSearchParams();
  const isAll = params.get("alerts") === "all";
  const query = useInfiniteQuery(alertsQuery(!isAll));
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label="Which alerts"
        value={isAll ? "all" : "open"}
        onChange={(value) =>
          setParams((shown) => {
            if (value === "all") shown.set("alerts", value);
            else shown.delete("alerts");
            return shown;
          })
        }
        data={[
          { value: "open", label: "not acknowledged" },
          { value: "all", label: "all" },
        ]}
        style={{ alignSelf: "flex-start" }}
      />
      <QueryView query={query}>
        {(alerts) => (
          <>
            <WaitingList
              label="Alerts"
              rows={alerts}
              rowKey={({ id }) => id}
              title={(alert) => <AlertTitle alert={alert} />}
              about={(alert) => <AlertDetail alert={alert} />}
              acts={(alert) =>
                alert.acknowledged_by === null && (
                  <ActButton
                    size="compact-xs"
                    subject={describeAlert(alert)}
                    act={() => circadia.acknowledgeAlert({ path: { alert: alert.id } })}
                    success="The alert is acknowledged."
                  >
                    Acknowledge
                  </ActButton>
                )
              }
              empty={isAll ? "There was no alert. Dead letters, open circuits and spent budgets raise one." : "Nothing that nobody has acknowledged."}
            />
            {alerts.length > 0 && <OlderRows query={query} count={formatNumberOf(alerts.length, "alert")} />}
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function describeAlert({ cause, session, agent }: AlertRecordView): string {
  return [cause.replaceAll("_", " "), agent === null ? session : referenceOf(session, agent)].filter(Boolean).join(" of ");
}

function AlertTitle({ alert: { cause, session, agent } }: { alert: AlertRecordView }) {
  return (
    <>
      {cause.replaceAll("_", " ")}{" "}
      {agent === null ? session !== null && <Name text={session} /> : <AgentLink reference={referenceOf(session, agent)} />}
    </>
  );
}

function describeValue(value: unknown): string {
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 2 });
  return typeof value === "string" ? value : JSON.stringify(value);
}

function AlertDetail({ alert: { at, detail, acknowledged_by: by, acknowledged_at: since } }: { alert: AlertRecordView }) {
  const facts = Object.entries(detail).filter(([name, value]) => value !== "" && value !== null && name !== "digest");
  return (
    <>
      {facts.length > 0 && <ForeignText text={facts.map(([name, value]) => `${name.replaceAll("_", " ")}: ${describeValue(value)}`).join("\n")} />}
      <Text size="xs" c="dimmed" component="div">
        <Ago at={at} />
        {by !== null && since !== null && (
          <>
            , acknowledged by <Name text={by} /> <Ago at={since} />
          </>
        )}
      </Text>
    </>
  );
}
