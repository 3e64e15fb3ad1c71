import { AppShell, Burger, Group, ScrollArea, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type MouseEvent, useEffect, useRef } from "react";
import { Route, Switch, useLocation } from "wouter";

import { pages } from "../pages/registry";
import { NotFoundPage } from "../parts/empty";
import { ErrorBoundary } from "../parts/error-boundary";
import { Shortcuts } from "../palette/shortcuts";
import { LiveBadge } from "./live-badge";
import { Navigation } from "./navigation";
import { PersonMenu } from "./person-menu";

/** The frame of all pages: navigation, who is signed in, and the page of this address. */
export function Shell() {
  const [isOpen, menu] = useDisclosure();
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const lastLocation = useRef(location);
  useEffect(() => {
    if (lastLocation.current === location) return;
    lastLocation.current = location;
    menu.close();
    main.current?.focus({ preventScroll: true }); // a screen reader begins with the new page
    window.scrollTo(0, 0);
  }, [location, menu]);
  const skip = (event: MouseEvent) => {
    event.preventDefault(); // the address stays
    main.current?.focus();
  };
  return (
    <AppShell header={{ height: 52 }} navbar={{ width: 216, breakpoint: "sm", collapsed: { mobile: !isOpen } }} padding="md">
      <a className="skip-link" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <AppShell.Header px="md">
        <Group h="100%" justify="space-between" wrap="nowrap">
          <Group wrap="nowrap" gap="sm">
            <Burger
              opened={isOpen}
              onClick={menu.toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label="Navigation"
              aria-expanded={isOpen}
            />
            <Title order={2} size="h4" visibleFrom="xs">
              Circadia
            </Title>
          </Group>
          <Group wrap="nowrap" gap="sm">
            <Shortcuts />
            <LiveBadge />
            <PersonMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        <AppShell.Section grow component={ScrollArea}>
          <Navigation />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="main" ref={main} tabIndex={-1} style={{ outline: "none" }}>
        <ErrorBoundary key={location}>
          <Switch>
            {pages.map(({ path, page }) => (
              <Route key={path} path={path} component={page} />
            ))}
            <Route component={NotFoundPage} />
          </Switch>
        </ErrorBoundary>
      </AppShell.Main>
    </AppShell>
  );
}
