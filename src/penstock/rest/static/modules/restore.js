// The command that starts a program from a snapshot.

import { shellWord } from "./format.js";

/** For a terminal; the program is the reader's to name. */
export function restoreCommand(location) {
  return `penstock run -d -s ${shellWord(location)} <program.py>`;
}
