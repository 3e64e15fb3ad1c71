import { Button, type ButtonProps, Tooltip } from "@mantine/core";

interface BarredButtonProps extends Pick<ButtonProps, "variant" | "size" | "color" | "leftSection" | "loading"> {
  children: string;
  /** What it acts on, for screen readers, where several buttons read alike. */
  subject?: string | undefined;
  /** Why it cannot be used now. */
  barrier: string | undefined;
  onClick: () => void;
  isPressed?: boolean;
}

/** A button that says why, where it cannot be used. */
export function BarredButton({ children, subject, barrier, onClick, isPressed, ...button }: BarredButtonProps) {
  return (
    <Tooltip label={barrier} disabled={barrier === undefined}>
      <Button
        variant="default"
        size="xs"
        {...button}
        onClick={() => barrier === undefined && onClick()}
        data-disabled={barrier === undefined ? undefined : true}
        aria-disabled={barrier === undefined ? undefined : true}
        aria-label={subject === undefined ? children : `${children} ${subject}`}
        aria-description={barrier}
        aria-expanded={isPressed}
      >
        {children}
      </Button>
    </Tooltip>
  );
}
