// Asks the server again and again for what its read-only calls answer, and
// shows that in tables. Names come from whoever may push: they only ever become
// text of a node, never markup.
'use strict';

const PERIOD_MS = 2000;
const KEYS_PER_PAGE = 300;
const RANKS_SHOWN = 32;

// The address says what is shown: the `namespace`, of its keys those with
// `prefix` after `after`, of its snapshots those after `beyond`, and the
// namespaces after `from`.
const shown = Object.fromEntries(new URLSearchParams(location.search));
const namespace = shown.namespace || 'default';
const byId = (id) => document.getElementById(id);

function addressOf(changes) {
  return `?${new URLSearchParams({...shown, ...changes})}`;
}

function link(text, changes) {
  const made = document.createElement('a');
  made.href = addressOf(changes);
  made.textContent = text;
  return made;
}

// Makes the rows of a table those of `rows`, which are lists of texts, numbers
// and links; without any, hides it. Cells that say the same already stay, so
// that whoever reads or selects their text is not disturbed.
function show(id, rows) {
  const body = byId(id).tBodies[0];
  byId(id).hidden = rows.length === 0;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((items, i) => {
    const row = body.rows[i] || body.insertRow();
    while (row.cells.length > items.length) row.deleteCell(-1);
    items.forEach((item, j) => {
      const cell = row.cells[j] || row.insertCell();
      const text = item.textContent ?? String(item);
      if (cell.textContent === text && cell.firstChild?.href === item.href) return;
      cell.replaceChildren(item);
      cell.title = text;
    });
  });
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${Number(count).toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`;
}

const choice = (name) => name.replace(/^(MODE|DTYPE)_/, '').toLowerCase();

function ruleText(rule) {
  return [rule.name, ...Object.entries(rule.hyperparameters).map(
                         ([name, value]) => `${name}=${value}`)].join(' ');
}

async function ask(call, fields = {}) {
  const reply = await fetch(`status/${call}?${new URLSearchParams(fields)}`);
  const text = await reply.text();
  if (!reply.ok) throw new Error(text.trim());
  return JSON.parse(text);
}

function showServer(server) {
  const hours = (Date.now() - Date.parse(server.start_time)) / 3.6e6;
  byId('facts').textContent =
      `${server.version} on ${server.devices.join(', ')}, up ${hours.toFixed(1)} h`;
  show('memory', [{device: 'host', ...server}, ...server.device_budgets].map(
      (on) => [on.device, bytes(on.used_bytes), bytes(on.budget_bytes)]));
}

function showCluster({server_name: name, placement}) {
  const missing = placement.lost.flatMap((each) => each.partitions);
  const owned = new Array(placement.servers.length).fill(0);
  const lacking = owned.slice();
  for (const owner of placement.owners) ++owned[owner];
  for (const partition of missing) ++lacking[placement.owners[partition]];
  show('cluster', placement.servers.map((server, i) => [
    server.name === name ? `${name} (this one)` : server.name, server.address,
    server.live ? 'yes' : 'no',
    owned[i], lacking[i],
  ]));
}

function showNamespaces({namespaces, next_page_token: next}) {
  const rows = namespaces.map((each) => [
    link(each.name, {namespace: each.name, prefix: '', after: '', beyond: ''}),
    choice(each.config.mode),
    `${each.live_workers} of ${each.config.num_workers || 'any'}`,
    each.num_keys, ...Object.values(each.memory).map(bytes), each.rounds_open,
    each.calls_waiting, each.updates_applied, ruleText(each.config.rule),
  ]);
  if (next) rows.push([link('more', {from: next})]);
  show('namespaces', rows);
}

function showWorkers(workers) {
  const fastest = Math.max(...workers.map((each) => Number(each.step)));
  show('workers', workers.map((each) => [
    each.worker.rank, each.name, each.step, fastest - each.step,
    each.live ? `${parseFloat(each.lease_remaining).toFixed(1)} s` :
        each.left ? 'left' : 'lost',
  ]));
}

function showRounds(rounds, workers) {
  const names = new Map(workers.map((each) => [each.worker.rank, each.name]));
  const nameOf = (rank) => names.has(rank) ? `${rank} (${names.get(rank)})` : rank;
  show('rounds', rounds.map((each) => [
    each.step, each.key,
    each.num_missing === 0 ? 'its sum' :
        each.num_missing > each.missing.length ?
        `${each.num_missing} ranks: ${each.missing.map(nameOf).join(', ')}, ...` :
        each.missing.map(nameOf).join(', '),
  ]));
}

const few = (texts) => texts.length > RANKS_SHOWN ?
    `${texts.slice(0, RANKS_SHOWN).join(', ')}, ...` : texts.join(', ');

function contributionText({rank, carried_from: from, skipped, weight}) {
  const parts = [rank];
  if (skipped) parts.push('skipped');
  if (weight !== undefined && weight !== 1) parts.push(`weighs ${weight}`);
  if (from !== '0') parts.push(`of step ${from}`);
  return parts.join(' ');
}

function contributorsText({contributions, missing, num_keys: keys}) {
  const without = missing.length === 0 ? '' : ` without ${few(missing)}`;
  return `${keys} keys: ${few(contributions.map(contributionText))}${without}`;
}

// What a worker's counts say that are not 0.
function countsText({rank, name, ...counts}) {
  const said = Object.entries(counts)
                   .filter(([, count]) => Number(count) !== 0)
                   .map(([what, count]) => `${what.replaceAll('_', ' ')} ${count}`);
  const who = name ? `${rank} (${name})` : rank;
  return said.length === 0 ? '' : `${who}: ${said.join(', ')}`;
}

function showSteps({steps}) {
  show('steps', steps.map((each) => [
    each.step,
    each.last_end_time ? new Date(each.last_end_time).toLocaleTimeString() : '',
    each.rounds_closed, each.rounds_failed,
    each.contributors.map(contributorsText).join('; '),
    few(each.workers.map(countsText).filter((text) => text !== '')),
    each.failures.map((failure) => failure.reason).join('; '),
  ]));
}

const seconds = (text) => `${parseFloat(text).toFixed(0)} s`;

function showSnapshots({snapshots, next_page_token: next}) {
  const rows = snapshots.map(({snapshot: each, leases, retained_bytes: retained}) => [
    each.series, each.number, new Date(each.create_time).toLocaleTimeString(),
    each.num_keys ?? '', each.bytes === undefined ? '' : bytes(each.bytes),
    bytes(retained), each.time_left ? seconds(each.time_left) : '',
    leases.map((lease) => `${lease.name} (${seconds(lease.time_left)})`).join(', '),
  ]);
  if (next) rows.push([link('more', {beyond: next})]);
  show('snapshots', rows);
}

function showKeys({keys, next_page_token: next}) {
  const rows = keys.map((each) => [
    each.key, choice(each.dtype), `[${each.shape.join(', ')}]`, each.version,
    each.update_count, bytes(each.value_bytes), bytes(each.state_bytes),
    ruleText(each.rule), each.learning_rate || '',
  ]);
  if (next) rows.push([link('more', {after: next})]);
  show('keys', rows);
}

async function showNamespace() {
  const {status} = await ask('DescribeNamespace', {namespace});
  showWorkers(status.workers);
  showRounds((await ask('OpenRounds', {namespace})).rounds, status.workers);
  showKeys(await ask('List', {
    namespace, prefix: shown.prefix || '', page_token: shown.after || '',
    page_size: KEYS_PER_PAGE,
  }));
  showSnapshots(await ask('Snapshots', {namespace, page_token: shown.beyond || ''}));
  // They may be too large to be shown: the rest stays.
  showSteps(status.config.mode !== 'MODE_SYNC' ? {steps: []} :
      await ask('Steps', {namespace}).catch(() => ({steps: []})));
}

async function refresh() {
  showServer(await ask('DescribeServer'));
  showCluster(await ask('DescribeCluster'));
  // Namespaces go, and may be too large to be shown: the rest goes on.
  let problem = '';
  const tell = (error) => { problem = ` · ${error.message}`; };
  await ask('ListNamespaces', {page_token: shown.from || ''})
      .then(showNamespaces).catch(tell);
  await showNamespace().catch((error) => {
    for (const id of ['workers', 'rounds', 'steps', 'snapshots', 'keys']) show(id, []);
    tell(error);
  });
  return (await (await fetch('readyz')).text()) + problem;
}

async function keepShowing() {
  if (!document.hidden) {
    const state = await refresh().catch((error) => `no answer: ${error.message}`);
    byId('state').textContent = state;
  }
  setTimeout(keepShowing, PERIOD_MS);
}

byId('namespace').textContent = namespace;
byId('prefix').value = shown.prefix || '';
byId('prefix').addEventListener('change', (event) => {
  location.search = addressOf({prefix: event.target.value, after: ''});
});
keepShowing();
