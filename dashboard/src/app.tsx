import { Center, Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Router } from "wouter";

import { Shell } from "./layout/shell";
import { SignIn } from "./layout/sign-in";
import { Failure } from "./parts/failure";
import { createLiveEvents, LiveContext, PersonContext, type Session, sessionQuery } from "./server/session";

/** The sign-in or the page, at the same address. */
export function App() {
  const session = useQuery(sessionQuery);
  if (session.isPending) {
    return (
      <Center h="100vh" component="main" aria-busy="true">
        <Loader role="status" aria-label="Loading" />
      </Center>
    );
  }
  if (session.data === undefined) {
    return (
      <main>
        <Failure error={session.error} onRetry={() => void session.refetch()} />
      </main>
    );
  }
  if (typeof session.data === "string") return <SignIn hasEnded={session.data === "ended"} />;
  return <SignedIn key={session.data.person.name} session={session.data} />;
}

function SignedIn({ session }: { session: Session }) {
  const [live] = useState(createLiveEvents);
  const [newestEvent] = useState(session.newestEvent);
  useEffect(() => {
    const leaving = new AbortController();
    void live.run(newestEvent, leaving.signal);
    return () => leaving.abort();
  }, [live, newestEvent]);
  return (
    <PersonContext value={session.person}>
      <LiveContext value={live}>
        <Router base={import.meta.env.BASE_URL.replace(/\/$/, "")}>
          <Shell />
        </Router>
      </LiveContext>
    </PersonContext>
  );
}
