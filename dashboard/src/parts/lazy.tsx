import { Loader } from "@mantine/core";
import { type ComponentType, type ReactNode, useEffect, useState } from "react";

/**
 * A component in a file of its own, which is loaded when it is first shown; a failure goes to the error boundary, and a
 * retry loads again.
 *
 * React's own `lazy` shows what has come no sooner than 300 ms after its placeholder, and keeps a failure for ever.
 */
export function lazy<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
  placeholder: ReactNode = <Loader role="status" aria-label="Loading" />,
): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  return function Lazy(props: Props) {
    const [Loaded, setLoaded] = useState(() => loaded);
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (file) => setLoaded(() => (loaded = file.default)),
        (error: unknown) =>
          setLoaded(() => {
            throw error;
          }),
      );
    }, [Loaded]);
    return Loaded ? <Loaded {...props} /> : placeholder;
  };
}
