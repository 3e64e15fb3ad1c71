import { NavLink, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";

import { groups, pages } from "../pages/registry";
import { CountBadge } from "../parts/count-badge";
import { Icon } from "../parts/icon";
import { forYouQuery } from "../server/queries";

export function Navigation() {
  const [location] = useLocation();
  const counts = useQuery(forYouQuery).data;
  const filled = groups.filter((group) => pages.some((page) => page.group === group));
  return filled.map((group) => (
    <div key={group} role="group" aria-label={group}>
      <Text className="navigation-group">
        {group}
      </Text>
      {pages
        .filter((page) => page.group === group && page.label !== undefined)
        .map(({ path, label, icon, waiting = [] }) => {
          const count = waiting.reduce((sum, each) => sum + (counts?.[each] ?? 0), 0);
          const isCurrent = path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
          return (
            <NavLink
              key={path}
              component={Link}
              href={path}
              label={label}
              leftSection={icon && <Icon name={icon} />}
              rightSection={<CountBadge count={count} />}
              active={isCurrent}
              variant="filled"
              aria-current={isCurrent ? "page" : undefined}
            />
          );
        })}
    </div>
  ));
}
