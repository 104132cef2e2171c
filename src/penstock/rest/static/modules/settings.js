// Settings as the service tells them: rows `{key, value, source}`.

/** Rows of a document of settings, sorted by key. */
export function settingRows(found) {
  const rows = Array.isArray(found) ? found : (found?.settings ?? []);
  return rows
    .filter((row) => typeof row?.key === "string")
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
}
