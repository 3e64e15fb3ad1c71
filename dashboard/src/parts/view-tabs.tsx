import { Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { useSearchParams } from "wouter";

interface ViewTab {
  /** In the address. */
  value: string;
  label: string;
  /** Beside the label. */
  mark?: ReactNode;
  content: ReactNode;
}

interface ViewTabsProps {
  /** What the tabs are about. */
  label: string;
  tabs: ViewTab[];
  /** The tab that is open where the address names none of them; by default the first. */
  fallback?: string;
}

/** Tabs of a page; the address keeps which is open, and forgets what belongs to another tab. */
export function ViewTabs({ label, tabs, fallback = tabs[0]?.value }: ViewTabsProps) {
  const [params, setParams] = useSearchParams();
  const open = tabs.find(({ value }) => value === params.get("tab"))?.value ?? fallback;
  return (
    <Tabs value={open ?? null} onChange={(tab) => setParams(tab === null ? {} : { tab })} keepMounted={false}>
      <Tabs.List aria-label={label}>
        {tabs.map(({ value, label, mark }) => (
          <Tabs.Tab key={value} value={value} rightSection={mark}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ value, content }) => (
        <Tabs.Panel key={value} value={value} pt="md">
          {content}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
