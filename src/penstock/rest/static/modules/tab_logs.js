// Logs: the end of what the driver of the job wrote.

import { logView } from "./log_view.js";

export function needs() {
  return {};
}

export function view(page, job) {
  return logView(
    page,
    `jobs/${encodeURIComponent(job.jid)}/log`,
    "Under a job manager, what the program prints appears here; a program that serves its own page writes to its own terminal.",
  );
}
