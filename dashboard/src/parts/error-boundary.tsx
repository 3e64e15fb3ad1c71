import { Component, type ReactNode } from "react";

import { Failure } from "./failure";

interface State {
  error: Error | null;
}

/** Shows a failure in place of what could not be drawn; everything around stays. */
export class ErrorBoundary extends Component<{ children: ReactNode }, State> {
  override state: State = { error: null };

  static getDerivedStateFromError(error: unknown): State {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render() {
    const { error } = this.state;
    return error === null ? this.props.children : <Failure error={error} onRetry={() => this.setState({ error: null })} />;
  }
}
