
'use strict';
// Whatever a worker or a client may have written is only ever set as text.
const $ = id => document.getElementById(id);
const MINUTE = 60, SILENCE = 5000, RETRY = 1000;

let key = '';            // of the admin API; only ever in this variable
let attempt = null;      // the AbortController of the stream that is open
let paused = false;
let started = 0;         // of the router that sends
let heard = 0;           // when it last did
const past = new Map();  // of each worker, what was seen of it in each of the last seconds
const rows = new Map();

function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}
function put(e, text, className) {
  if (e.textContent !== text) e.textContent = text;
  if (className !== undefined && e.className !== className) e.className = className;
}
const time = ms => new Date(ms).toLocaleTimeString();
function duration(seconds) {
  if (seconds < 1) return Math.round(seconds * 1000) + '\u00a0ms';
  return seconds < 10 ? seconds.toFixed(2) + '\u00a0s' : Math.round(seconds) + '\u00a0s';
}

// The line that is read aloud when it changes doesn't change every second.
function fresh() { put($('link'), 'Live', 'good'); $('view').classList.remove('lost'); }
function lost(why) {
  put($('link'), (heard ? 'Stale. ' : '') + why, 'bad');
  $('view').classList.add('lost');
}

async function follow(signal) {
  const answer = await fetch('/status/events', {signal, cache: 'no-store', redirect: 'error', headers: key ? {Authorization: 'Bearer ' + key} : {}});
  if (answer.status === 401) {
    ask(key ? 'The router does not know this key.' : 'The router asks for a key.');
    return false;
  }
  if (!answer.ok) {
    let message = '';
    try { message = (await answer.json()).error.message; } catch { message = 'status ' + answer.status; }
    throw new Error(message);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const {done, value} = await reader.read();
    if (done) throw new Error('The router has ended the stream.');
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const event = text.slice(0, end);
      if (event.startsWith('data: ')) show(JSON.parse(event.slice(6)));
    }
  }
}

async function run() {
  for (;;) {
    if (paused || document.hidden) return;
    const mine = attempt = new AbortController();
    let silent = setTimeout(() => mine.abort(), SILENCE);
    mine.heard = () => { clearTimeout(silent); silent = setTimeout(() => mine.abort(), SILENCE); };
    try {
      if (await follow(mine.signal) === false) return;
    } catch (e) {
      if (attempt !== mine) return;
      lost((mine.signal.aborted ? 'Nothing comes from the router.' : e instanceof TypeError ? 'The router can’t be reached.' : e.message) + ' Trying again…');
    } finally {
      clearTimeout(silent);
      mine.abort();
      if (attempt === mine) attempt = null;
    }
    await new Promise(done => setTimeout(done, RETRY));
    if (attempt) return;
  }
}
function stop() {
  const a = attempt;
  attempt = null;
  if (a) a.abort();
}
function ask(why) {
  lost(why);
  $('login').hidden = false;
  $('view').hidden = true;
  $('key').focus();
}

function show(f) {
  if (attempt) attempt.heard();
  if (f.started !== started) { past.clear(); started = f.started; }
  heard = Date.now();
  $('login').hidden = true;
  $('view').hidden = false;
  fresh();
  put($('when'), 'as of ' + time(f.time));
  put($('state'), f.state, 'tag ' + (f.state === 'ready' ? 'good' : 'bad'));
  put($('about'), f.version + ', ' + f.policy + ', up since ' + new Date(f.started).toLocaleString());
  document.title = f.usable_workers + '/' + f.total_workers + ' Loadstar';
  put($('count'), f.usable_workers + ' of ' + f.total_workers + ' usable' + (f.hidden_workers ? '; ' + f.hidden_workers + ' more in /workers' : ''));
  showSections(f.sections);
  showWorkers(f.workers);
  showDecisions(f.decisions);
}

function showSections(sections) {
  const box = $('sections');
  while (box.children.length > sections.length) box.lastChild.remove();
  sections.forEach((s, i) => {
    let card = box.children[i];
    if (!card) {
      card = box.appendChild(make('div', 'card'));
      card.append(make('h2'), make('dl'));
    }
    put(card.children[0], s.name);
    const list = card.children[1];
    while (list.children.length > 2 * s.facts.length) list.lastChild.remove();
    s.facts.forEach((fact, j) => {
      if (!list.children[2 * j]) list.append(make('dt'), make('dd'));
      put(list.children[2 * j], fact.name);
      put(list.children[2 * j + 1], fact.value, fact.bad ? 'bad' : '');
    });
  });
}

function stateOf(w) {
  const a = w.worker, words = [];
  let look = 'good';
  if (a.removed) { words.push('removed, finishing'); look = 'soft'; }
  else if (a.draining) { words.push('draining'); look = 'warn'; }
  else if (!a.is_healthy) { words.push('unhealthy'); look = 'bad'; }
  else words.push('healthy');
  if (w.wedged) { words.push('wedged'); look = 'bad'; }
  if (a.breaker !== 'closed') { words.push('breaker ' + a.breaker); look = a.breaker === 'open' ? 'bad' : 'warn'; }
  if (w.slow_start) words.push('slow start');
  return [words.join(', '), look];
}

// What /workers tells and no column here does is shown as it is.
const KNOWN = ['url', 'model_id', 'worker_type', 'is_healthy', 'load', 'connection_mode', 'breaker', 'phases', 'draining', 'removed', 'reason', 'processed', 'labels'];
function restOf(a) {
  const rest = [];
  for (const [name, value] of Object.entries({...a, ...a.labels})) {
    if (KNOWN.includes(name) || value === null || value === '' || value === 0) continue;
    if (name === 'priority' && value === 50 || name === 'cost' && value === 1) continue;
    rest.push(name.replaceAll('_', ' ') + ' ' + (typeof value === 'object' ? JSON.stringify(value) : value));
  }
  return rest.join(' · ');
}

function rowOf(url) {
  let r = rows.get(url);
  if (r) return r;
  const tr = make('tr'), cell = (label, ...inner) => {
    const td = make(label ? 'td' : 'th');
    if (label) td.dataset.label = label; else td.scope = 'row';
    td.setAttribute('role', label ? 'cell' : 'rowheader');
    td.append(...inner);
    tr.append(td);
  };
  tr.setAttribute('role', 'row');
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), line = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'polyline'));
  svg.setAttribute('viewBox', '0 0 ' + (MINUTE - 1) + ' 20');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  r = {tr, svg, line, name: make('div', 'name', url), facts: make('div', 'small'), rest: make('div', 'small'), state: make('div'), reason: make('div', 'small'),
    load: make('span', 'num'), phases: make('span', 'small'), bar: make('i'), done: make('div', 'small'), hits: make('div'), ttft: make('div')};
  const bar = make('div', 'bar'), load = make('div');
  bar.append(r.bar);
  load.append(r.load, r.phases);
  cell('', r.name, r.facts, r.rest);
  cell('State', r.state, r.reason);
  cell('Load', load, bar, r.done);
  cell('Hits', r.hits);
  cell('First byte', r.ttft, r.svg);
  rows.set(url, r);
  return r;
}

function remember(w) {
  let p = past.get(w.url);
  if (!p) past.set(w.url, p = []);
  p.push({n: w.answers || 0, mean: w.ttft_mean || 0, worst: w.ttft_worst || 0, blocks: w.blocks || 0, matched: w.matched || 0});
  if (p.length > MINUTE) p.shift();
  return p;
}

function showWorkers(workers) {
  const body = $('workers'), words = $('filter').value.toLowerCase().trim(), alive = new Set(), most = Math.max(1, ...workers.map(w => w.worker.load));
  let place = body.firstChild, shown = 0;
  for (const w of workers) {
    const a = w.worker, r = rowOf(w.url), p = remember(w), [state, look] = stateOf(w), rest = restOf(a);
    alive.add(w.url);
    if (r.tr === place) place = place.nextSibling; else body.insertBefore(r.tr, place);
    r.tr.hidden = words !== '' && ![w.url, a.model_id, a.worker_type, state, rest].join(' ').toLowerCase().includes(words);
    if (!r.tr.hidden) shown++;
    put(r.facts, [a.worker_type === 'regular' ? '' : a.worker_type, a.model_id === 'unknown' ? '' : a.model_id].filter(Boolean).join(' · '));
    put(r.rest, rest);
    put(r.state, state, look);
    put(r.reason, a.reason && look === 'bad' ? a.reason : '');
    put(r.load, String(a.load));
    const phases = Object.entries(a.phases).filter(([name]) => name !== 'plain').map(([name, n]) => n + ' ' + name);
    put(r.phases, phases.length ? ' ' + phases.join(', ') : '');
    r.bar.style.width = 100 * a.load / most + '%';
    put(r.done, a.processed + ' granted' + (w.pending_blocks ? ', ' + w.pending_blocks + ' blocks pending' : ''));
    const blocks = p.reduce((n, s) => n + s.blocks, 0), matched = p.reduce((n, s) => n + s.matched, 0);
    put(r.hits, blocks ? Math.round(100 * matched / blocks) + ' %' : '–', blocks ? '' : 'soft');
    sparkline(r, p);
  }
  for (const [url, r] of rows) if (!alive.has(url)) { r.tr.remove(); rows.delete(url); past.delete(url); }
  $('none').hidden = shown > 0;
}

function sparkline(r, p) {
  const n = p.reduce((n, s) => n + s.n, 0), worst = Math.max(...p.map(s => s.worst));
  if (!n) {
    put(r.ttft, '–', 'soft');
    r.svg.style.display = 'none';
    return;
  }
  const mean = p.reduce((sum, s) => sum + s.mean * s.n, 0) / n, top = Math.max(...p.map(s => s.mean)) || 1;
  put(r.ttft, duration(mean) + ', worst ' + duration(worst), '');
  const points = [];
  p.forEach((s, i) => { if (s.n) points.push((MINUTE - p.length + i) + ',' + (19 - 18 * s.mean / top).toFixed(1)); });
  if (points.length === 1) points.push(points[0].replace(/^\d+/, x => x - 1));
  r.line.setAttribute('points', points.join(' '));
  r.svg.setAttribute('aria-label', 'first byte in each of the last ' + p.length + ' seconds: mean ' + duration(mean) + ', worst ' + duration(worst));
  r.svg.style.display = '';
}

function showDecisions(decisions) {
  const body = $('decisions');
  while (body.children.length > decisions.length) body.lastChild.remove();
  decisions.forEach((d, i) => {
    let tr = body.children[i];
    if (!tr) {
      tr = body.appendChild(make('tr'));
      tr.setAttribute('role', 'row');
      for (let n = 0; n < 6; n++) tr.appendChild(make('td', n === 1 ? 'name' : '')).setAttribute('role', 'cell');
    }
    const c = tr.children;
    put(c[0], time(d.time));
    put(c[1], d.url);
    put(c[2], d.reason.replaceAll('_', ' '));
    put(c[3], d.blocks ? d.match + ' of ' + d.blocks : '–');
    put(c[4], 'of ' + d.candidates);
    put(c[5], d.path + ' ' + d.id);
  });
}

$('login').addEventListener('submit', e => {
  e.preventDefault();
  key = $('key').value;
  $('key').value = '';
  stop();
  run();
});
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  if (paused) { stop(); lost('Paused.'); } else run();
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden) stop();
  else if (!attempt && $('login').hidden) run();
});
run();
