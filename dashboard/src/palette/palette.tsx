import { Modal, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { useLocation, useSearch } from "wouter";

import { Name } from "../parts/name";
import { forgetView, keepView, listViews } from "../server/kept-views";
import { searchAllQuery } from "../server/queries";
import { useActBarrier } from "../server/session";
import { type Choice, choicesOf, fits, listActs, listPlaces } from "./choices";

const MOST_SHOWN = 60;

/** One search: pages, kept views, acts of the open page, and whatever the server finds. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [wanted] = useDebouncedValue(text.trim(), 200);
  const [place, setPlace] = useState(0);
  const [location, navigate] = useLocation();
  const search = useSearch();
  const barrier = useActBarrier();
  const client = useQueryClient();
  const bank = /^\/banks\/([^/]+)$/.exec(location)?.[1];
  const found = useQuery({ ...searchAllQuery(wanted, bank && decodeURIComponent(bank)), enabled: wanted !== "", placeholderData: keepPreviousData });
  const choices = useMemo(() => {
    const typed = text.trim();
    const own = [...listPlaces(), ...listActs()].filter((choice) => fits(choice, typed)); // the page may have come since
    const matches = typed === "" ? [] : (found.data?.matches ?? []).flatMap(choicesOf);
    const hits = typed === "" ? [] : (found.data?.hits ?? []).map(hitChoice);
    const address = search ? `${location}?${search}` : location;
    return [...own, ...matches.filter(({ act }) => !(act && barrier)), ...hits, ...viewChoices(typed, address)].slice(0, MOST_SHOWN);
  }, [found.data, text, location, search, barrier]);
  const chosen = Math.min(place, choices.length - 1);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const choose = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    onClose();
    if (choice.address !== undefined) navigate(choice.address);
    if (choice.element !== undefined) setTimeout(() => choice.element?.click()); // once the palette is gone
    if (choice.act !== undefined) {
      choice.act().then(
        () => {
          notifications.show({ color: "teal", message: choice.success ?? "Done." });
          return client.invalidateQueries();
        },
        (error: Error) => notifications.show({ color: "red", title: `${choice.name} failed`, message: error.message }),
      );
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && choices.length > 0) setPlace((chosen + step + choices.length) % choices.length);
    else if (event.key === "Enter") choose(choices[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Modal opened onClose={onClose} title="Find and act" size="lg" yOffset="8vh">
      <TextInput
        label="Name, id, page or act"
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setPlace(0);
        }}
        onKeyDown={onKeyDown}
        data-autofocus
        role="combobox"
        aria-expanded={choices.length > 0}
        aria-controls={choices.length > 0 ? "palette-choices" : undefined}
        aria-activedescendant={choices[chosen] && `palette-${chosen}`}
        autoComplete="off"
      />
      {choices.length > 0 && (
      <div id="palette-choices" role="listbox" aria-label="Choices" ref={list} className="palette-list" tabIndex={0}>
        {choices.map((choice, index) => (
          <UnstyledButton
            key={choice.key}
            id={`palette-${index}`}
            component="div"
            role="option"
            aria-selected={index === chosen}
            className="palette-choice"
            tabIndex={-1}
            onClick={() => choose(choice)}
          >
            <Text span size="xs" c="dimmed" className="palette-kind">
              {choice.kind}
            </Text>
            <Name text={choice.name} />
            {choice.about && (
              <Text span size="xs" c="dimmed" className="palette-about">
                <Name text={choice.about} />
              </Text>
            )}
          </UnstyledButton>
        ))}
      </div>
      )}
      <Text size="xs" c="dimmed" role="status" mt="xs">
        {found.isError ? `Only pages and acts: ${found.error.message}` : choices.length === 0 ? "Nothing has this name." : "↑ ↓ to choose, Enter to open, Esc to leave"}
      </Text>
    </Modal>
  );
}

function hitChoice({ layer, id, text, bank }: { layer: string; id: string; text: string; bank: string }): Choice {
  const isNote = layer === "notes";
  const address = `/banks/${encodeURIComponent(bank)}?${isNote ? `note=${id}` : `tab=episodes&episode=${id}`}`;
  return { key: `hit ${id} ${text}`, kind: isNote ? "note" : "episode", name: text, address };
}

/** Return the choices that keep the open view under the typed name, or forget one. */
function viewChoices(name: string, address: string): Choice[] {
  if (name === "") return [];
  const isKept = listViews().some((view) => view.name === name);
  const keep: Choice = {
    key: "keep", kind: "act", name: `Keep this view as “${name}”`, success: `The view is kept as “${name}”.`,
    act: async () => keepView({ name, address }),
  }; // prettier-ignore
  const forget: Choice = {
    key: "forget", kind: "act", name: `Forget the view “${name}”`, success: "The view is forgotten.",
    act: async () => forgetView(name),
  }; // prettier-ignore
  return isKept ? [keep, forget] : [keep];
}
