// Reads status.json again and again, and shows it. Names come from whoever may
// push: they only ever become text of a node, never markup.
'use strict';

const PERIOD_MS = 2000;
// Pages of keys that are read again each time.
const MAX_LIVE_PAGES = 4;

const byId = (id) => document.getElementById(id);

const view = {
  chosen: null,       // the namespace that is shown
  namespacePages: 1,  // how many pages of each list are read
  keyPages: 1,
  isPaused: false,
  isReading: false,
  isStale: false,     // something was chosen while the page was being read
  last: null,         // counters of the time before, for rates
};

function node(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Leaves nodes alone that say the same already: whoever selects or reads text
// is not disturbed.
function setText(at, text) {
  if (at.textContent !== text) at.textContent = text;
}

// Makes the children of `parent` those of `items`, in their order, and keeps
// the nodes, and with them the focus and what is unfolded, of items that stay.
function sync(parent, items, nameOf, make, update) {
  const old = parent.kept || new Map();
  const kept = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const name = nameOf(item);
    const child = old.get(name) || make(item);
    kept.set(name, child);
    old.delete(name);
    update(child, item);
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  for (const gone of old.values()) gone.remove();
  parent.kept = kept;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

const number = (count) => count.toLocaleString('en');
const plural = (count, what) => `${number(count)} ${what}${count === 1 ? '' : 's'}`;

function duration(seconds) {
  const parts = [['d', 86400], ['h', 3600], ['min', 60]];
  for (const [unit, size] of parts) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, seconds).toFixed(seconds < 10 ? 1 : 0)} s`;
}

const held = (memory) =>
    memory.values + memory.state + memory.contributions + memory.metadata;

// --- Reading -----------------------------------------------------------------

async function read(parameters) {
  const query = new URLSearchParams(parameters).toString();
  const reply = await fetch(`status.json?${query}`, {cache: 'no-store'});
  const text = await reply.text();
  if (!reply.ok) {
    const error = new Error(text.trim());
    error.isGone = reply.status === 404;
    throw error;
  }
  return JSON.parse(text);
}

// The first `count` pages of a list as one.
async function readPages(parameters, list, count) {
  const all = await read(parameters);
  for (let page = 1; page < count && all.next; ++page) {
    const more = await read({...parameters, after: all.next});
    all[list] = all[list].concat(more[list]);
    all.next = more.next;
  }
  return all;
}

// --- The server --------------------------------------------------------------

function rates(server, namespaces) {
  const now = {
    time: performance.now() / 1000,
    incarnation: server.incarnation,
    received: server.received_bytes,
    sent: server.sent_bytes,
    updates: new Map(namespaces.map((each) => [each.name, each.updates])),
  };
  const last = view.last;
  view.last = now;
  if (!last || last.incarnation !== now.incarnation) return null;
  const seconds = now.time - last.time;
  return {
    received: (now.received - last.received) / seconds,
    sent: (now.sent - last.sent) / seconds,
    updates: (name) => {
      const before = last.updates.get(name);
      if (before === undefined) return '';
      const count = now.updates.get(name) - before;
      return count < 0 ? '' : number(Math.round(count / seconds));
    },
  };
}

function showState(text, isBad) {
  setText(byId('state'), text);
  byId('state').classList.toggle('bad', isBad);
}

function showServer(server, rate) {
  showState(server.ready ? 'ready' : server.why_not_ready, !server.ready);
  const facts = [
    server.version,
    server.devices.join(', '),
    `up ${duration(Date.now() / 1000 - server.start_unix_seconds)}`,
  ];
  if (rate) {
    facts.push(`in ${bytes(rate.received)}/s`, `out ${bytes(rate.sent)}/s`);
  }
  setText(byId('facts'), facts.join(' · '));
}

// --- Cluster -----------------------------------------------------------------

function showCluster(cluster) {
  byId('cluster').hidden = cluster === null;
  if (cluster === null) return;
  sync(byId('servers'), cluster.servers, (each) => each.name, () => makeRow(5),
       (row, item) => {
         row.className = item.live ? '' : 'lost';
         setCells(row, [
           item.self ? `${item.name} (this one)` : item.name, item.address,
           item.live ? 'yes' : 'no', number(item.partitions),
           number(item.partitions_to_restore),
         ], 0);
       });
  const notes = [`${cluster.name}, placement ${cluster.placement_version}`];
  if (cluster.partitions_to_move > 0) {
    notes.push(`this server is to give ${
        plural(cluster.partitions_to_move, 'partition')} to others`);
  }
  if (cluster.num_servers > cluster.servers.length) {
    notes.push(
        `the first ${cluster.servers.length} of ${number(cluster.num_servers)}`);
  }
  setText(byId('servers-note'), notes.join(' · '));
}

// --- Memory ------------------------------------------------------------------

function makeBar() {
  const row = node('div');
  row.append(node('span', 'name'), node('div', 'bar'), node('span', 'note'));
  return row;
}

function updateBar(row, item) {
  const [name, bar, note] = row.children;
  setText(name, item.name);
  name.title = item.name;
  sync(bar, item.parts, (part) => part.use, (part) => node('i', part.use),
       (at, part) => {
         at.style.width = `${100 * part.bytes / Math.max(1, item.limit)}%`;
       });
  setText(note, `${bytes(item.used)} of ${bytes(item.limit)}`);
}

function showMemory(server, namespaces) {
  const items = [{
    name: 'server',
    used: server.used_bytes,
    limit: server.budget_bytes,
    parts: [{use: 'used', bytes: server.used_bytes}],
  }];
  for (const device of server.device_budgets) {
    items.push({
      name: device.device,
      used: device.used_bytes,
      limit: device.budget_bytes,
      parts: [{use: 'used', bytes: device.used_bytes}],
    });
  }
  // Those that hold most, on a scale of their own: budgets overlap.
  const largest = [...namespaces]
      .sort((a, b) => held(b.memory) - held(a.memory)).slice(0, 5);
  for (const each of largest) {
    items.push({
      name: `· ${each.name}`,
      used: held(each.memory),
      limit: each.budget_bytes,
      parts: Object.entries(each.memory)
          .map(([use, size]) => ({use, bytes: size})),
    });
  }
  sync(byId('memory'), items, (item) => item.name, makeBar, updateBar);
}

// --- Namespaces, workers, rounds ---------------------------------------------

function makeRow(numCells) {
  const row = node('tr');
  for (let i = 0; i < numCells; ++i) row.append(node('td'));
  return row;
}

function setCells(row, texts, first) {
  texts.forEach((text, i) => setText(row.children[first + i], text));
}

function makeNamespace(item) {
  const row = makeRow(9);
  const button = node('button');
  button.type = 'button';
  button.addEventListener('click', () => choose(item.name));
  row.firstChild.append(button);
  return row;
}

function updateNamespace(row, item, rate) {
  const button = row.firstChild.firstChild;
  setText(button, item.name);
  button.title = item.name;
  button.setAttribute('aria-current', String(item.name === view.chosen));
  const workers = item.num_workers ?
      `${item.live_workers} of ${item.num_workers}` : `${item.live_workers}`;
  setCells(row, [
    item.mode, workers, number(item.keys), bytes(held(item.memory)),
    number(item.rounds_open), number(item.calls_waiting),
    rate ? rate.updates(item.name) : '', item.rule,
  ], 1);
}

function showNamespaces(reply, rate) {
  const names = reply.namespaces.map((each) => each.name);
  if (view.chosen === null && names.length > 0) {
    const fullest = [...reply.namespaces].sort((a, b) => b.keys - a.keys)[0];
    view.chosen = fullest.name;
  }
  sync(byId('namespaces'), reply.namespaces, (each) => each.name, makeNamespace,
       (row, item) => updateNamespace(row, item, rate));
  byId('more-namespaces').hidden = !reply.next;
}

// Of a worker that is not live.
function endOf(worker) {
  return worker.left ? 'left' : 'lost';
}

function showWorkers(reply) {
  sync(byId('workers'), reply.workers, (each) => each.rank, () => makeRow(5),
       (row, item) => {
         row.className = item.live ? '' : 'lost';
         setCells(row, [
           String(item.rank), item.name, number(item.step),
           item.lag === 0 ? '' : plural(item.lag, 'step'),
           item.live ? duration(item.lease_seconds) : endOf(item),
         ], 0);
       });
  let note = '';
  if (reply.num_workers > reply.workers.length) {
    note = `the ${reply.workers.length} slowest of ${number(reply.num_workers)}`;
  } else if (reply.num_workers === 0) {
    note = 'nobody has joined';
  }
  setText(byId('workers-note'), note);
}

// Rounds of one step that wait for the same ranks are one line.
function grouped(rounds) {
  const groups = new Map();
  for (const round of rounds) {
    const name = `${round.step} ${round.missing} ${round.num_missing}`;
    if (!groups.has(name)) groups.set(name, {name, round, keys: []});
    groups.get(name).keys.push(round.key);
  }
  return [...groups.values()];
}

function roundsText(group) {
  const named = group.keys.slice(0, 3).join(', ');
  const more = group.keys.length - 3;
  return more > 0 ? `${named} and ${more} more` : named;
}

// What the ranks are called that rounds wait for, as far as that is known.
function namesOf(awaited) {
  const joined = awaited.filter((worker) => worker.name);
  return new Map(joined.map((worker) => [
    worker.rank,
    worker.live ? worker.name : `${worker.name}, ${endOf(worker)}`]));
}

function awaitedText(round, names) {
  if (round.num_missing === 0) return 'its sum is under way';
  const more = round.num_missing - round.missing.length;
  const named = round.missing.map(
      (rank) => names.has(rank) ? `${rank} (${names.get(rank)})` : rank);
  const ranks = named.join(', ') + (more > 0 ? ` and ${more} more` : '');
  return `waits for ${round.num_missing === 1 ? 'rank' : 'ranks'} ${ranks}`;
}

function showRounds(reply) {
  const names = namesOf(reply.awaited);
  sync(byId('rounds'), grouped(reply.rounds), (group) => group.name,
       () => {
         const item = node('li', 'waits');
         item.append(node('span'), node('b'), node('span', 'note'));
         return item;
       },
       (item, group) => {
         setText(item.children[0], `step ${number(group.round.step)} `);
         setText(item.children[1], awaitedText(group.round, names));
         setText(item.children[2], ` · ${roundsText(group)}`);
       });
  const total = reply.namespace.rounds_open;
  const shown = reply.rounds.length;
  setText(byId('rounds-note'),
          total > shown ? `${number(shown)} of ${number(total)}` :
              shown === 0 ? 'none' : '');
}

// --- Keys --------------------------------------------------------------------

// Groups of keys by the parts of their names; 'fc1.w' is w in the group 'fc1.'.
function treeOf(keys) {
  const root = {name: '', path: '', groups: new Map(), keys: [], count: 0, bytes: 0};
  for (const key of keys) {
    const parts = key.key.split(/(?<=[./])/);
    const leaf = parts.pop();
    let at = root;
    for (const part of parts) {
      at.count += 1;
      at.bytes += key.value_bytes + key.state_bytes;
      if (!at.groups.has(part)) {
        at.groups.set(part, {
          name: part, path: at.path + part,
          groups: new Map(), keys: [], count: 0, bytes: 0,
        });
      }
      at = at.groups.get(part);
    }
    at.count += 1;
    at.bytes += key.value_bytes + key.state_bytes;
    at.keys.push({...key, leaf});
  }
  return root;
}

function makeBranch(item) {
  const branch = node('li');
  if (!item.groups) {
    branch.className = 'key';
    for (let i = 0; i < 7; ++i) branch.append(node('span'));
    return branch;
  }
  const details = node('details');
  const summary = node('summary');
  summary.append(node('span'), node('span', 'note'));
  details.append(summary, node('ul'));
  details.open = item.isOpen;
  branch.append(details);
  return branch;
}

function updateKey(at, key) {
  [
    key.leaf || key.key, key.dtype, `[${key.shape.join(', ')}]`, key.version,
    number(key.updates), bytes(key.value_bytes + key.state_bytes), key.rule,
  ].forEach((text, i) => setText(at.children[i], text));
  at.children[0].title = key.key;
  const rate = key.learning_rate === undefined ? '' : `, learning rate ${key.learning_rate}`;
  at.children[6].title = `${key.rule}${rate}`;
}

function updateBranch(at, item) {
  if (!item.groups) return updateKey(at, item);
  const [summary, list] = at.firstChild.children;
  setText(summary.children[0], item.name);
  setText(summary.children[1],
          `${plural(item.count, 'key')}, ${bytes(item.bytes)}`);
  showGroup(list, item);
}

function showGroup(list, group) {
  // Short lists are unfolded at first.
  const groups = [...group.groups.values()];
  for (const each of groups) each.isOpen = groups.length <= 8 && each.count <= 32;
  sync(list, [...groups, ...group.keys],
       (item) => item.groups ? `group ${item.path}` : `key ${item.key}`,
       makeBranch, updateBranch);
}

function showKeys(reply) {
  showGroup(byId('tree'), treeOf(reply.keys));
  const total = reply.namespace.keys;
  setText(byId('keys-title'), `Keys of ${reply.namespace.name}`);
  setText(byId('keys-note'),
          `${number(reply.keys.length)} of ${number(total)}`);
  byId('more-keys').hidden = !reply.next || view.keyPages >= MAX_LIVE_PAGES;
}

// --- What the user does ------------------------------------------------------

// The address ends with what is chosen.
function choose(name) {
  view.keyPages = 1;
  view.chosen = name;
  history.replaceState(null, '', `#${new URLSearchParams({namespace: name})}`);
  refresh();
}

async function showChosen() {
  if (view.chosen === null) return;
  const chosen = view.chosen;
  const prefix = byId('prefix').value;
  const reply =
      await readPages({namespace: chosen, prefix}, 'keys', view.keyPages);
  if (chosen !== view.chosen || prefix !== byId('prefix').value) return;
  showWorkers(reply);
  showRounds(reply);
  showKeys(reply);
}

async function showAll() {
  const reply = await readPages({}, 'namespaces', view.namespacePages);
  const rate = rates(reply.server, reply.namespaces);
  showServer(reply.server, rate);
  showCluster(reply.cluster);
  showMemory(reply.server, reply.namespaces);
  showNamespaces(reply, rate);
  try {
    await showChosen();
  } catch (error) {
    if (!error.isGone) throw error;
    view.chosen = null;  // it was deleted
  }
}

async function refresh() {
  if (view.isReading) {
    view.isStale = true;
    return;
  }
  view.isReading = true;
  try {
    do {
      view.isStale = false;
      await showAll();
    } while (view.isStale);
  } catch (error) {
    showState(`no answer: ${error.message}`, true);
    view.last = null;
  }
  view.isReading = false;
}

function start() {
  const asked = new URLSearchParams(location.hash.slice(1));
  view.chosen = asked.get('namespace');
  byId('pause').addEventListener('click', () => {
    view.isPaused = !view.isPaused;
    byId('pause').setAttribute('aria-pressed', String(view.isPaused));
    setText(byId('pause'), view.isPaused ? 'Go on' : 'Pause');
    refresh();
  });
  byId('prefix').addEventListener('input', () => {
    view.keyPages = 1;
    refresh();
  });
  byId('more-keys').addEventListener('click', () => {
    ++view.keyPages;
    refresh();
  });
  byId('more-namespaces').addEventListener('click', () => {
    ++view.namespacePages;
    refresh();
  });
  refresh();
  setInterval(() => {
    if (!view.isPaused && !document.hidden) refresh();
  }, PERIOD_MS);
}

start();
