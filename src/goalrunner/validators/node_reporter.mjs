// A reporter of node:test that writes what each test did: one JSON file per process that runs tests.
//
// `node_report` copies it into a folder of a check, beside `visible.mjs`, which prints what node prints by itself.
// NODE_OPTIONS are put back at once, so that node within the tests is not watched.

import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = dirname(fileURLToPath(import.meta.url));
const OWN = 'OPTIONS';

const own = process.env.NODE_OPTIONS ?? '';
const kept = own.replace(OWN, '').trim();
if (kept) process.env.NODE_OPTIONS = kept;
else delete process.env.NODE_OPTIONS;

function endingOf(type, data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped';
  const isTodo = data.todo !== undefined && data.todo !== false;
  if (type === 'test:fail') return isTodo ? 'xfailed' : 'failed';
  return isTodo ? 'xfailed' : 'passed';
}

export default async function* record(source) {
  const place = join(FOLDER, `${process.pid}`);
  writeFileSync(`${place}.begun`, '');
  const rows = [];
  const around = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') around[data.nesting] = data.name;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const names = [...around.slice(0, data.nesting), data.name];
    rows.push({
      file: data.file ?? '',
      names,
      ending: endingOf(type, data),
      suite: data.details?.type === 'suite',
      cause: data.details?.error?.failureType ?? '',
    });
  }
  writeFileSync(`${place}.part`, JSON.stringify({ rows }));
  renameSync(`${place}.part`, `${place}.node`);
}
