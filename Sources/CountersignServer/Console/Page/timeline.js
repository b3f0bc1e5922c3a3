// The picture of a user: what was decided, what was paid for, and what people did, over time.

import {productName} from './catalog.js'
import {at, date, el, svg} from './elements.js'
import {isGiven} from './verdict.js'

/// How a verdict is drawn.
function look(verdict) {
  if (verdict.reason === 'billing_grace') return 'grace'
  if (verdict.reason === 'billing_retry') return 'retry'
  if (isGiven(verdict)) return 'given'
  if (!verdict.original_transaction_id || verdict.status === 'expired') return 'none'
  return verdict.reason === 'renewal_off' ? 'cancelled' : 'active'
}

const looks = {
  active: 'access', cancelled: 'access, renewal off', given: 'access that was given', grace: 'grace period',
  trial: 'trial', retry: 'billing retry', none: 'no access', held: 'ended, not confirmed by Apple',
}

/// The service's decisions over time: each verdict holds until the next one, its access until it ends.
function decided(entries, now) {
  const verdicts = entries.filter((entry) => entry.kind === 'verdict').reverse()
    .map((entry) => ({...entry, from: at(entry.recorded_at)}))
  const parts = []
  verdicts.forEach((verdict, index) => {
    const following = verdicts[index + 1]
    const until = following ? following.from : Math.max(now, verdict.from)
    const end = verdict.access_until ? at(verdict.access_until) : null
    const state = look(verdict)
    const held = end !== null && end < until
    parts.push({from: verdict.from, until: held ? Math.max(end, verdict.from) : until, state, words: verdict.explanation})
    if (held) {
      // The end of what was given needs no word of Apple's.
      const after = state === 'given' ? 'none' : 'held'
      parts.push({from: Math.max(end, verdict.from), until, state: after, words: looks[after]})
    }
    if (!following && end !== null && end > until) {
      parts.push({from: until, until: end, state, isFuture: true, words: verdict.explanation})
    }
  })
  // Adjoining parts of one state are one bar.
  const whole = []
  for (const part of parts.filter((part) => part.until > part.from)) {
    const former = whole.at(-1)
    if (former && former.state === part.state && !part.isFuture && former.until === part.from) former.until = part.until
    else whole.push(part)
  }
  return whole
}

/// Transactions that Apple's last answer left out, as checks of that time named them. Of these the end is known; each begins
/// where the one before it ended, or when it was seen first.
function former(entries, periods) {
  const known = new Set(periods.map((period) => period.transaction_id))
  const found = new Map()
  for (const entry of entries) {
    const id = entry.kind === 'verdict' && entry.decision ? entry.decision.transaction_id : null
    if (!id || known.has(id) || !entry.expires_at || !entry.product_id) continue
    const isTakenBack = entry.reason === 'refunded' || entry.reason === 'revoked'
    found.set(id, {taken_back_at: isTakenBack ? entry.expires_at : null, ...found.get(id), ...entry,
      transaction_id: id, ends_at: entry.expires_at, starts_at: entry.recorded_at, is_kept_end: true})
  }
  const sorted = [...found.values()].sort((a, b) => at(a.ends_at) - at(b.ends_at))
  sorted.forEach((period, index) => {
    const before = sorted.slice(0, index).findLast((one) => one.original_transaction_id === period.original_transaction_id)
    // An upgrade begins before what it replaces ends.
    if (before && at(before.ends_at) < at(period.starts_at)) period.starts_at = before.ends_at
  })
  return sorted.reverse()
}

/// The most rows of products: those that were paid for last.
const mostRows = 8

/// Each product of a subscription with its transactions, the oldest first.
function rowsOf(periods) {
  const rows = new Map()
  for (const period of periods) {
    const key = `${period.environment} ${period.original_transaction_id} ${period.product_id}`
    const name = `${productName(period.product_id)}${period.environment === 'sandbox' ? ' (sandbox)' : ''}`
    rows.set(key, {name, parts: [period, ...(rows.get(key)?.parts || [])]})
  }
  return [...rows.values()].slice(0, mostRows)
}

export function draw(box, history, entries) {
  const now = at(history.now.decision.judged_at || new Date().toISOString())
  const access = decided(entries, now)
  const periods = [...history.periods, ...former(entries, history.periods)].filter((one) => one.starts_at || one.ends_at)
  const products = rowsOf(periods)
  const events = entries.filter((entry) => entry.kind !== 'verdict')
  const moments = [now, ...access.flatMap((part) => [part.from, part.until]), ...events.map((e) => at(e.recorded_at)),
    ...periods.flatMap((period) => [period.starts_at, period.ends_at, period.taken_back_at, period.grace_until,
      period.retry_until].filter(Boolean).map(at))]
  if (entries.length === 0 && periods.length === 0) {
    box.replaceChildren(el('p', {class: 'soft'}, 'Nothing to draw yet.'))
    return
  }
  const span = Math.max(Math.max(...moments) - Math.min(...moments), 86400000)
  const first = Math.min(...moments) - span * 0.03
  const last = Math.max(...moments) + span * 0.04
  const width = Math.max(280, box.clientWidth || 700)
  const x = (moment) => Math.round((Math.min(Math.max(moment, first), last) - first) / (last - first) * width * 10) / 10
  const bars = []
  const used = new Set()
  let y = 22

  const names = []
  const lane = (name) => { names.push(svg('text', {class: 'lane', x: 0, y: y + 12}, name)); y += 18 }
  /// - Parameter gap: between this bar and the next.
  const bar = (from, until, state, title, isFuture, gap = 0) => {
    used.add(state)
    const left = x(from)
    const size = {x: left, y, width: Math.max(2, x(until) - left - gap), height: 16, rx: 3}
    bars.push(svg('rect', {...size, class: `s-${state}${isFuture ? ' future' : ''}`}, svg('title', null, title)))
    if (state === 'grace' || state === 'retry') {
      bars.push(svg('rect', {...size, fill: `url(#${state}-hatch)`, 'pointer-events': 'none'}))
    }
  }

  if (access.length > 0) {
    lane('Access, as decided')
    for (const part of access) bar(part.from, part.until, part.state, part.words, part.isFuture)
    y += 26
  }
  for (const {name, parts} of products) {
    lane(name)
    for (const period of parts) drawPeriod(period)
    y += 26
  }

  /// One transaction: what was paid, its grace and retries, and the end that Apple put to it.
  function drawPeriod(period) {
    const begin = at(period.starts_at || period.ends_at)
    const paid = period.ends_at ? at(period.ends_at) : last
    const end = period.taken_back_at ? Math.min(paid, Math.max(at(period.taken_back_at), begin)) : paid
    const kind = period.is_trial ? 'Trial' : period.is_upgraded ? 'Upgraded; paid' : 'Paid'
    const from = period.is_kept_end ? '' : ` from ${date(period.starts_at || period.ends_at)}`
    const title = `${period.ends_at ? `${kind}${from} to ${date(period.ends_at)}` : 'Bought for life'}, transaction ${period.transaction_id}`
    const state = period.is_upgraded ? 'none' : period.is_trial ? 'trial' : 'active'
    bar(begin, end, state, title, end > now && begin > now, 1)
    if (period.grace_until) bar(paid, at(period.grace_until), 'grace', `Grace period to ${date(period.grace_until)}`)
    if (period.retry_until) bar(paid, at(period.retry_until), 'retry', `Billing retry to ${date(period.retry_until)}`)
    if (period.taken_back_at) {
      used.add('refund')
      const cross = x(at(period.taken_back_at))
      bars.push(svg('path', {class: 'refund', d: `M${cross - 6} ${y + 2}l12 12m0 -12l-12 12`},
        svg('title', null, `Apple took it back on ${date(period.taken_back_at)}`)))
    }
  }
  if (events.length > 0) {
    lane('Requests and changes of owner')
    for (const entry of events) {
      const middle = x(at(entry.recorded_at))
      const title = svg('title', null, `${date(entry.recorded_at)}: ${entry.note || entry.explanation}`)
      if (entry.kind === 'revalidation') {
        used.add('note')
        bars.push(svg('circle', {class: 'm-note', cx: middle, cy: y + 8, r: 6}, title))
      } else {
        used.add('owner')
        bars.push(svg('path', {class: 'm-owner', d: `M${middle} ${y}l8 8l-8 8l-8 -8z`}, title))
      }
    }
    y += 24
  }

  const grid = ticks(first, last, width).map(({moment, text}) => [
    svg('line', {class: 'grid', x1: x(moment), y1: 18, x2: x(moment), y2: y}),
    svg('text', {x: Math.min(Math.max(x(moment), 32), width - 32), y: y + 14, 'text-anchor': 'middle'}, text),
  ])
  const here = x(now)
  const summary = [...access].reverse().map((part) =>
    `${looks[part.state]} from ${date(new Date(part.from).toISOString())} to ${date(new Date(part.until).toISOString())}`)
  box.replaceChildren(
    svg('svg', {viewBox: `0 0 ${width} ${y + 22}`, role: 'img', 'aria-labelledby': 'drawing-title drawing-text'},
      svg('title', {id: 'drawing-title'}, 'Timeline of access and purchases'),
      svg('desc', {id: 'drawing-text'}, `${summary.join('; ')}. The history below says the same in words.`),
      svg('defs', null, hatch('grace', 45), hatch('retry', -45)),
      grid, bars,
      svg('line', {class: 'now', x1: here, y1: 14, x2: here, y2: y}),
      svg('text', {class: 'now-label', x: Math.min(Math.max(here, 16), width - 16), y: 11, 'text-anchor': 'middle'},
        'now'), names),
    el('ul', {class: 'legend', 'aria-hidden': 'true'}, legend(used)))
}

function hatch(name, angle) {
  return svg('pattern', {id: `${name}-hatch`, width: 7, height: 7, patternUnits: 'userSpaceOnUse',
    patternTransform: `rotate(${angle})`}, svg('line', {class: 'hatch', x1: 0, y1: 0, x2: 0, y2: 7}))
}

function legend(used) {
  const swatch = (...shapes) => svg('svg', {viewBox: '0 0 22 12'}, shapes)
  const box = {x: 1, y: 1, width: 20, height: 10, rx: 2}
  const items = Object.entries(looks).filter(([state]) => used.has(state)).map(([state, text]) =>
    [swatch(svg('rect', {...box, class: `s-${state}`}), state === 'grace' || state === 'retry'
      ? svg('rect', {...box, fill: `url(#${state}-hatch)`}) : null), text])
  if (used.has('refund')) items.push([swatch(svg('path', {class: 'refund', d: 'M6 2l8 8m0 -8l-8 8'})), 'taken back'])
  if (used.has('note')) items.push([swatch(svg('circle', {class: 'm-note', cx: 11, cy: 6, r: 5})), 'Apple asked again'])
  if (used.has('owner')) {
    items.push([swatch(svg('path', {class: 'm-owner', d: 'M11 0l6 6l-6 6l-6 -6z'})), 'change of owner'])
  }
  return items.map(([shape, text]) => el('li', null, shape, text))
}

/// The first days of months (or single days), as many as there is room for.
function ticks(first, last, width) {
  const room = Math.max(2, Math.floor(width / 90))
  const days = (last - first) / 86400000
  const found = []
  if (days <= 45) {
    const step = Math.max(1, Math.ceil(days / room))
    const short = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', day: 'numeric', month: 'short'})
    for (let moment = Math.ceil(first / 86400000) * 86400000; moment <= last; moment += step * 86400000) {
      found.push({moment, text: short.format(moment)})
    }
    return found
  }
  const months = days / 30.4
  const step = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((size) => months / size <= room) || 600
  const short = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', month: 'short', year: 'numeric'})
  const start = new Date(first)
  let month = start.getUTCFullYear() * 12 + start.getUTCMonth() + 1
  month = Math.ceil(month / step) * step
  for (; found.length <= room + 1; month += step) {
    const moment = Date.UTC(Math.floor(month / 12), month % 12, 1)
    if (moment > last) break
    found.push({moment, text: short.format(moment)})
  }
  return found
}
