// Figures: how many pay and how much, as large numbers, charts and tables.

import {product} from './catalog.js'
import {chart, sparkline} from './chart.js'
import {byID, count, el, several, words} from './elements.js'
import {experimentCards} from './experiments.js'
import {onSubmit, reset, showMessage, work} from './forms.js'
import {amountIn, change, dated, identifier, money, percent, period, points, shorts, wholePercent} from './numbers.js'
import {ask} from './service.js'
import {number, table} from './tables.js'
import {nextSteps} from './welcome.js'

const form = byID('figures-form')
const result = byID('figures-result')
const currency = byID('currency')
// The functions that draw the charts that are shown.
let charts = []
// The answers that are shown: figures, those of the span before, and experiments.
let shown = null

const iso = (day) => new Date(day).toISOString().slice(0, 10)
const dayLength = 86400000

/// The question for a span that ends today, as the service's answers say what day that is; and for the one before it.
function questions(span, today) {
  const [year, month, date] = today.split('-').map(Number)
  const last = Date.UTC(year, month - 1, date)
  const path = (from, to, rest = '') => `v1/figures?from=${iso(from)}&to=${iso(to)}${rest}`
  if (span === '12') {
    // As much of a year ago: a month that is not over is compared with its like.
    return [0, 1].map((ago) => path(Date.UTC(year - ago, month - 12, 1), Date.UTC(year - ago, month - 1, date),
      '&interval=month'))
  }
  const days = Number(span)
  return [0, days].map((ago) => path(last - (ago + days - 1) * dayLength, last - ago * dayLength))
}

function read() {
  work(form, 'Reading…', async (isCurrent) => {
    const usual = await ask('GET', 'v1/figures')
    // Another span may have been chosen in the meantime.
    for (let span = null; span !== form.elements.span.value;) {
      span = form.elements.span.value
      const [now, before] = questions(span, usual.periods.at(-1).to)
      const [figures, former, {experiments}] = await Promise.all(
        [span === '30' ? usual : ask('GET', now), ask('GET', before), ask('GET', 'v1/experiments')])
      if (!isCurrent()) return
      for (const one of [figures, former].flatMap(({periods, cycles, products}) => [...periods, ...cycles, ...products])) {
        if (one.converted) one.money.push({...one.converted, currency: `${one.converted.currency}, all converted`})
      }
      shown = {figures, former, experiments, isByMonth: span === '12'}
      chooseCurrency()
      show()
    }
    showMessage(form, '')
  })
}

/// Offers the sum of all currencies, if there is one, and those in which something was paid, the one with most days first.
function chooseCurrency() {
  const paid = new Map()
  for (const one of shown.figures.periods.flatMap(({money}) => money)) {
    paid.set(one.currency, (paid.get(one.currency) || 0) + (Number(one.revenue) > 0 || Number(one.mrr) > 0 ? 1 : 0))
  }
  const names = [...paid.keys()].sort((a, b) => b.length - a.length || paid.get(b) - paid.get(a) || (a < b ? -1 : 1))
  const former = currency.value
  currency.replaceChildren(...names.map((name) => el('option', {value: name}, name)))
  if (names.includes(former)) currency.value = former
  byID('currency-field').hidden = names.length < 2
}

/// A span's sums and levels, those of one currency as numbers.
function summary(figures) {
  const {periods} = figures
  const amounts = periods.map((one) => one.money.find((amount) => amount.currency === currency.value) || {})
  const total = (member) => periods.reduce((sum, one) => sum + one[member], 0)
  const values = (member) => amounts.map((amount) => Number(amount[member] || 0))
  return {figures, periods, total, values, last: periods.at(-1), revenue: values('revenue').reduce((a, b) => a + b, 0)}
}

/// The part of a sum in another, for each period with the six before it: of one day alone it says nothing.
const rolling = (periods, part, whole) => periods.map((_, index) => {
  const week = periods.slice(Math.max(0, index - 6), index + 1)
  const base = whole(week)
  return base > 0 ? week.reduce((sum, one) => sum + part(one), 0) / base : null
})

function isEmpty({figures, former}) {
  const counted = ['active', 'trials', 'new', 'existing', 'ended', 'payments', 'trial_starts']
  return figures.pending === 0 && figures.subscribers.length === 0
    && [...figures.periods, ...former.periods].every((one) => counted.every((member) => one[member] === 0))
}

function show() {
  charts = []
  if (isEmpty(shown)) {
    result.replaceChildren(nextSteps())
    return
  }
  const {figures, former, experiments, isByMonth} = shown
  const [now, before] = [summary(figures), summary(former)]
  const {periods, total} = now
  const dates = periods.map((one) => dated(one, isByMonth))
  const by = isByMonth ? 'by month' : 'by day'

  function card(id, heading, ...drawn) {
    const parts = drawn.map((options) => {
      const {element, draw} = chart({periods: dates, format: count, axis: shorts.format, ...options})
      charts.push(draw)
      return element
    })
    return el('section', {class: 'card', 'aria-labelledby': id}, el('h2', {id}, heading), parts)
  }
  const line = (member, name, tone, kind = 'line') => ({name, tone, kind, values: periods.map((one) => one[member])})
  result.replaceChildren(
    figures.pending > 0 ? el('p', {class: 'notice'}, figures.pending >= 1000
      ? 'A thousand purchases or more changed and are not counted yet.'
      : `${several(figures.pending, 'purchase')} changed, not counted yet.`) : '',
    el('dl', {class: 'tiles'}, mainTiles(now, before, isByMonth)),
    ...moneyCards(now, by, card),
    card('active-title', 'Active subscriptions', {name: `Active subscriptions, ${by}`,
      series: [line('active', 'Active', 'accent')]}),
    card('changes-title', 'New and ended', {name: `New and ended subscriptions, ${by}`, series: [
      line('new', 'New', 'good', 'bar'), line('resubscribed', 'Came back', 'given', 'bar'),
      ...(total('existing') > 0 ? [line('existing', 'First seen at a renewal', 'accent', 'bar')] : []),
      line('ended', 'Ended', 'bad', 'below')]}),
    isByMonth ? card('churn-title', 'Churn', {name: 'Churn, by month', format: percent, axis: wholePercent, isWhole: false,
      series: [{...line('churn', 'Churn', 'bad'), at: 'this month'}]}) : '',
    card('trials-chart-title', 'Trials and grace periods', {name: `Trials and grace periods, ${by}`,
      series: [line('trials', 'Trials', 'given'), line('grace', 'Grace', 'warn')]}),
    el('dl', {class: 'tiles more'}, otherTiles(now)),
    ...tables(figures, isByMonth), ...experimentCards(experiments, currency.value))
  paint()
}

// MARK: Tiles

/// - Parameters:
///   - change: the change against the span before, as `numbers.js` makes it.
///   - values: of each period, for a small line.
const tile = (name, value, note, change = null, values = null) => el('div', {class: 'tile'}, el('dt', null, name),
  el('dd', {class: 'large'}, value), change ? el('dd', {class: 'change'}, change) : null,
  note ? el('dd', {class: 'soft'}, note) : null, values ? el('dd', null, sparkline(values)) : null)

function mainTiles(now, before, isByMonth) {
  const {figures, periods, total, last} = now
  const amount = currency.value ? money(currency.value) : null
  const mrr = [now, before].map((one) => one.values('mrr').at(-1))
  const sums = (member) => [now, before].map((one) => one.total(member))
  const flow = (name, member, note) => tile(name, count(total(member)), note, change(...sums(member), count),
    periods.map((one) => one[member]))
  const active = (week) => {
    const first = periods.indexOf(week[0])
    return first === 0 ? figures.active_before : periods[first - 1].active
  }
  return [
    tile('MRR', amount ? amount(mrr[0]) : '–', amount ? `ARR ${amount(mrr[0] * 12)}` : 'no payment with a price yet',
      amount && change(...mrr, amount), now.values('mrr')),
    tile('Revenue', amount ? amount(now.revenue) : '–', amount ? `${several(total('payments'), 'payment')}` : null,
      amount && change(now.revenue, before.revenue, amount), now.values('revenue')),
    tile('Active subscriptions', count(last.active), `${count(last.trials)} on trial, ${count(last.grace)} in grace`,
      change(last.active, before.last.active, count), periods.map((one) => one.active)),
    flow('New', 'new', total('resubscribed') > 0 ? `and ${count(total('resubscribed'))} came back` : 'paid for the first time'),
    isByMonth ? monthsChurn(now)
      : tile('Churn', percent(figures.churn), churnNote(total('ended'), total('resubscribed'), figures.active_before),
        points(figures.churn, before.figures.churn, false), rolling(periods, (one) => one.ended - one.resubscribed, active)),
    tile('Trial conversion', percent(figures.trial_conversion),
      `${count(total('trial_conversions'))} of ${several(total('trial_starts'), 'trial')}`,
      points(figures.trial_conversion, before.figures.trial_conversion, true),
      rolling(periods, (one) => one.trial_conversions, (week) => week.reduce((sum, one) => sum + one.trial_starts, 0))),
  ]
}

const churnNote = (ended, back, base) => `${count(ended)} ended, ${count(back)} came back, of ${count(base)}`

/// Churn of the last whole month, against the one before it.
function monthsChurn({figures, periods}) {
  const at = periods.length - 2
  const [month, former] = [periods[at], periods[at - 1]]
  return tile('Churn', percent(month.churn), `${churnNote(month.ended, month.resubscribed, former.active)} in ${
    dated(month, true).long}`, points(month.churn, former.churn, false, 'the month before'),
  periods.slice(0, -1).map((one) => one.churn))
}

function otherTiles({figures, total}) {
  return [
    tile('Refund rate', percent(figures.refund_rate),
      `${count(total('refunded_payments'))} of ${several(total('payments'), 'payment')}`),
    tile('Conversion', percent(figures.conversion), `${count(total('conversions'))} of ${several(total('users'), 'new user')}`),
    tile('Paywall conversion', percent(figures.paywall_conversion),
      `${count(total('purchasers'))} of ${several(total('viewers'), 'viewer')}`),
  ]
}

function moneyCards({values}, by, card) {
  const name = currency.value
  if (!name) return []
  const common = {format: money(name), isWhole: false}
  return [
    card('mrr-title', `Monthly recurring revenue in ${name}`, {...common,
      name: `Monthly recurring revenue in ${name}, ${by}`,
      series: [{name: 'MRR', tone: 'accent', kind: 'line', values: values('mrr')},
        {name: 'from new subscriptions', tone: 'good', kind: 'bar', values: values('new_mrr')}]}),
    card('revenue-title', `Revenue in ${name}`, {...common, name: `Revenue in ${name}, ${by}`,
      series: [{name: 'Paid', tone: 'good', kind: 'bar', values: values('revenue')},
        {name: 'Refunded', tone: 'bad', kind: 'below', values: values('refunds')}]}),
  ]
}

// MARK: Tables

/// The subscriptions that were first paid for in one month: the part of them that is paid for after some months.
function retention(cohorts) {
  const ages = [0, 1, 2, 3, 6, 11].filter((age) => cohorts.some(({active}) => active.length > age))
  return [cohorts, 'Still paid for after months, by the month of the first payment', ['Month', 'New', ...ages.map(String)],
    ({month, subscriptions, active}) => [dated({from: `${month}-01`}, true).short, number(subscriptions),
      ...ages.map((age) => active.length > age && subscriptions > 0
        ? number(active[age] / subscriptions, wholePercent(active[age] / subscriptions)) : '')],
    'No month with a first payment is over yet.']
}

/// The tables of figures as of the last day, or of the span as a whole.
function tables(figures, isByMonth) {
  const amount = (one, member) => amountIn(one.money, member, currency.value)
  const moneyHeads = ['MRR', 'Revenue'].map((head) => currency.value ? `${head} in ${currency.value}` : head)
  const unpaid = 'Nothing was paid for in this span.'
  const rows = [
    [figures.subscribers, 'Users now, by tier and status', ['Tier', 'Status', 'Users'],
      (one) => [one.tier, words(one.status), number(one.users)], 'No user has a purchase yet: POST /v1/validations.'],
    [figures.products, 'Products', ['Product', 'Active', ...moneyHeads],
      (one) => [[product(one.product_id), el('span', {class: 'soft'}, period(one.period))], number(one.active),
        amount(one, 'mrr'), amount(one, 'revenue')], unpaid],
    ...(isByMonth ? [retention(figures.cohorts)] : []),
    [figures.near_limits, 'Users near a limit, now', ['Feature', 'Tier', 'Users'],
      (one) => [identifier(one.feature), one.tier, number(one.users)],
      'Nobody is near a limit. Limits are features of the catalog: catalog.features in the configuration.'],
    [figures.webhooks, 'Attempts to deliver events', ['Receiver', 'Attempts', 'Delivered'],
      (one) => [one.webhook, number(one.attempts),
        [el('span', null, number(one.delivered)), one.attempts > 0
          ? el('span', {class: 'soft'}, percent(one.delivered / one.attempts)) : null]],
      'Nothing was sent in this span. Receivers are listed under webhooks in the configuration.'],
    [figures.cycles, 'Billing', ['Paid', 'Active', ...moneyHeads],
      (one) => [period(one.period), number(one.active), amount(one, 'mrr'), amount(one, 'revenue')], unpaid],
  ]
  return rows.map(([items, caption, heads, cells, empty]) =>
    el('section', {class: 'card', 'aria-label': caption}, table(caption, heads, items.map(cells), empty)))
}

function paint() { for (const draw of charts) draw() }

onSubmit(form, read)
form.addEventListener('change', (event) => event.target === currency ? show() : read())

function clear() {
  charts = []
  shown = null
  currency.replaceChildren()
  byID('currency-field').hidden = true
  result.replaceChildren()
  form.reset()
  reset(form)
}

export const figures = {name: 'figures', open: read, clear, paint}
