import { Stack, Text } from "@mantine/core";

import { PageTitle } from "../parts/page-title";
import { TimelineView } from "../parts/timeline-view";

/** When all agents slept, were awake, had calls held and ran. */
export default function TimelinePage() {
  return (
    <Stack>
      <PageTitle about="When agents slept, were awake, had calls held and ran, with what woke them and what was refused.">Timeline</PageTitle>
      <TimelineView
        most={1000}
        pages={10}
        more={(_, isCut) => isCut && <Text size="sm">The first 1,000 agents are here. The REST API has all of them.</Text>}
      />
    </Stack>
  );
}
