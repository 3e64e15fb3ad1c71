/** Return the participants that a text names as `@name`: the longest name that ends where no letter of a name follows. */
export function findMentions(text: string, participants: readonly string[]): string[] {
  const words = [...text.matchAll(/(?<![\p{L}\p{N}_.@-])@([^\s@]+)/gu)].map(([, word]) => word!);
  const longestFirst = [...participants].sort((one, other) => other.length - one.length);
  const named = words.map((word) => longestFirst.find((name) => word.startsWith(name) && !/^[\p{L}\p{N}_-]/u.test(word.slice(name.length))));
  return participants.filter((name) => named.includes(name));
}
