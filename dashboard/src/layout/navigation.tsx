import { NavLink, Text } from "@mantine/core";
import { Link, useLocation } from "wouter";

import { groups, pages } from "../pages/registry";
import { Icon } from "../parts/icon";

export function Navigation() {
  const [location] = useLocation();
  const filled = groups.filter((group) => pages.some((page) => page.group === group));
  return filled.map((group) => (
    <div key={group} role="group" aria-label={group}>
      <Text size="xs" c="dimmed" fw={600} px="xs" pt="xs">
        {group}
      </Text>
      {pages
        .filter((page) => page.group === group && page.label !== undefined)
        .map(({ path, label, icon }) => {
          const isCurrent = path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
          return (
            <NavLink
              key={path}
              component={Link}
              href={path}
              label={label}
              leftSection={icon && <Icon name={icon} />}
              active={isCurrent}
              variant="filled"
              aria-current={isCurrent ? "page" : undefined}
            />
          );
        })}
    </div>
  ));
}
