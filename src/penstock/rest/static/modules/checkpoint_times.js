// When a checkpoint was complete: the last acknowledgement, or reckoned when there was none to wait for.

/** Wall time of the end of a completed checkpoint; null for others. */
export function completedAt(record) {
  if (record?.status !== "COMPLETED") return null;
  return record.latest_ack_timestamp > 0
    ? record.latest_ack_timestamp
    : record.trigger_timestamp + record.end_to_end_duration;
}
