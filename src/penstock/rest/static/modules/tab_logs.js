// Logs: the end of what the driver of the job wrote.

import { logView } from "./log_view.js";

export function needs() {
  return {};
}

export function view(page, job) {
  return logView(
    page,
    `jobs/${encodeURIComponent(job.jid)}/log`,
    "The driver of the job writes here, and whatever the program prints.",
  );
}
