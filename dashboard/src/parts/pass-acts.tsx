import type { SleeptimeStatusView } from "@circadia/client";
import { Group } from "@mantine/core";

import { circadia } from "../server/circadia";
import { ActButton } from "./act-button";

/** Ask for a pass over a bank, or stop and allow passes there. */
export function PassActs({ status }: { status: Pick<SleeptimeStatusView, "bank" | "running" | "paused_by"> }) {
  const { bank, running, paused_by } = status;
  const path = { bank };
  return (
    <Group gap={6} wrap="nowrap">
      <ActButton
        size="compact-xs"
        subject={`over ${bank}`}
        act={() => circadia.runPass({ path })}
        success={`A pass over ${bank} waits for a worker.`}
        barrier={running === null ? undefined : "The bank has an open pass."}
      >
        Run a pass
      </ActButton>
      {paused_by === null ? (
        <ActButton
          size="compact-xs"
          subject={`passes over ${bank}`}
          act={() => circadia.pauseSleeptime({ path })}
          success={`Passes over ${bank} are paused.`}
        >
          Pause
        </ActButton>
      ) : (
        <ActButton
          size="compact-xs"
          subject={`passes over ${bank}`}
          act={() => circadia.resumeSleeptime({ path })}
          success={`Passes over ${bank} may begin again.`}
        >
          Resume
        </ActButton>
      )}
    </Group>
  );
}
