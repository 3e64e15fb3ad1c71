import type { AgentView } from "@circadia/client";
import { Modal } from "@mantine/core";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { ActButton } from "./act-button";
import { NewToken } from "./new-token";

export function RotateToken({ agent }: { agent: AgentView }) {
  const [token, setToken] = useState<string>();
  const rotate = async () => {
    const created = await circadia.rotateToken({ path: { session: agent.session, agent: agent.name } });
    setToken(created.token);
  };
  return (
    <>
      <ActButton
        act={rotate}
        success={`${agent.reference} has a new token.`}
        warning="The present token becomes invalid at once. The new one is shown once."
      >
        New token
      </ActButton>
      {token !== undefined && (
        <Modal opened onClose={() => setToken(undefined)} title="The new token" centered>
          <NewToken agent={agent.reference} token={token} onClose={() => setToken(undefined)} />
        </Modal>
      )}
    </>
  );
}
