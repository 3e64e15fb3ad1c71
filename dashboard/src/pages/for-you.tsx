import type { WaitingCountView } from "@circadia/client";
import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ComponentType } from "react";

import { Approvals } from "../parts/approvals";
import { Alerts } from "../parts/alerts";
import { CountBadge } from "../parts/count-badge";
import { DeadLetters } from "../parts/dead-letters";
import { PageTitle } from "../parts/page-title";
import { Proposals } from "../parts/proposals";
import { ViewTabs } from "../parts/view-tabs";
import { WaitingDreams } from "../parts/waiting-dreams";
import { forYouQuery } from "../server/queries";

/** What waits for a person, in the order of the tabs; each kind has its count. */
const SECTIONS: { count: keyof WaitingCountView; label: string; section: ComponentType }[] = [
  { count: "approvals", label: "Approvals", section: Approvals },
  { count: "proposals", label: "Proposals", section: Proposals },
  { count: "dreams", label: "Dreams", section: WaitingDreams },
  { count: "dead_letters", label: "Dead letters", section: DeadLetters },
  { count: "alerts", label: "Alerts", section: Alerts },
];

/** What waits for a person: approvals, proposals, dreams, dead letters, alerts. */
export default function ForYouPage() {
  const counts = useQuery(forYouQuery).data;
  const first = SECTIONS.find(({ count }) => (counts?.[count] ?? 0) > 0) ?? SECTIONS[0]!;
  return (
    <Stack>
      <PageTitle about="What waits for a person. Each decision is an event with your name.">For you</PageTitle>
      <ViewTabs
        label="What waits"
        fallback={first.count}
        tabs={SECTIONS.map(({ count, label, section: Section }) => ({
          value: count,
          label,
          mark: <CountBadge count={counts?.[count] ?? 0} />,
          content: <Section />,
        }))}
      />
    </Stack>
  );
}
