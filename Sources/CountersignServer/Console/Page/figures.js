// Figures: how many pay and how much, as large numbers, charts and tables.

import {chart} from './chart.js'
import {byID, count, el, several, table, words} from './elements.js'
import {experimentCards} from './experiments.js'
import {idle, select, showMessage, work} from './forms.js'
import {dated, identifier, money, percent, period, shorts, signed, wholePercent} from './numbers.js'
import {ask} from './service.js'

const form = byID('figures-form')
const result = byID('figures-result')
// What draws each chart that is shown.
let charts = []
// The last day of the service's, as its answers say.
let today = null
// The currency that was chosen.
let currency = null

/// The question for a span. Without a known day of the service's it is that of the last thirty days.
function question(span) {
  if (today === null || span === '30') return 'v1/figures'
  const [year, month, date] = today.split('-').map(Number)
  const first = span === '12' ? Date.UTC(year, month - 12, 1) : Date.UTC(year, month - 1, date - 89)
  const from = new Date(first).toISOString().slice(0, 10)
  return `v1/figures?from=${from}&to=${today}${span === '12' ? '&interval=month' : ''}`
}

function read() {
  work(form, 'Reading…', async (isCurrent) => {
    // Another span may have been chosen in the meantime.
    for (let span = null; span !== form.elements.span.value;) {
      span = form.elements.span.value
      if (today === null && span !== '30') today = (await ask('GET', question('30'))).periods.at(-1).to
      const [answer, experiments] = await Promise.all([ask('GET', question(span)), ask('GET', 'v1/experiments')])
      if (!isCurrent()) return
      if (span === '30') today = answer.periods.at(-1).to
      show(answer, span === '12', experiments)
    }
    showMessage(form, '')
  })
}

const tile = (name, value, note) => el('div', {class: 'tile'}, el('dt', null, name), el('dd', {class: 'large'}, value),
  note ? el('dd', {class: 'soft'}, note) : null)

function show(figures, isByMonth, experiments) {
  const {periods} = figures
  const last = periods.at(-1)
  const total = (member) => periods.reduce((sum, one) => sum + one[member], 0)
  const dates = periods.map((one) => dated(one, isByMonth))
  const by = isByMonth ? 'by month' : 'by day'
  charts = []

  function card(id, heading, ...drawn) {
    const parts = drawn.map((options) => {
      const {element, draw} = chart({periods: dates, format: count, axis: shorts.format, ...options})
      charts.push(draw)
      return element
    })
    return el('section', {class: 'card', 'aria-labelledby': id}, el('h2', {id}, heading), parts)
  }
  const line = (member, name, tone, kind = 'line') => ({name, tone, kind, values: periods.map((one) => one[member])})
  const gain = last.active - figures.active_before
  result.replaceChildren(
    figures.pending > 0 ? el('p', {class: 'notice'}, figures.pending >= 1000
      ? 'A thousand purchases or more changed and are not counted yet.'
      : `${several(figures.pending, 'purchase')} changed, not counted yet.`) : '',
    el('dl', {class: 'tiles'},
      tile('Active subscriptions', count(last.active), `${signed.format(gain)} in this span`),
      tile('Trials', count(last.trials), 'running'),
      tile('Grace', count(last.grace), 'a payment failed'),
      tile('Churn', percent(figures.churn),
        `${count(total('ended'))} ended, ${count(total('resubscribed'))} came back, of ${count(figures.active_before)}`),
      tile('Trial conversion', percent(figures.trial_conversion),
        `${count(total('trial_conversions'))} of ${several(total('trial_starts'), 'trial')}`),
      tile('Refund rate', percent(figures.refund_rate),
        `${count(total('refunded_payments'))} of ${several(total('payments'), 'payment')}`),
      tile('Conversion', percent(figures.conversion), `${count(total('conversions'))} of ${several(total('users'), 'new user')}`),
      tile('Paywall conversion', percent(figures.paywall_conversion),
        `${count(total('purchasers'))} of ${several(total('viewers'), 'viewer')}`),
      tile('Webhooks delivered', percent(figures.webhook_success),
        `of ${several(figures.webhooks.reduce((sum, one) => sum + one.attempts, 0), 'attempt')}`)),
    card('active-title', 'Active subscriptions', {name: `Active subscriptions, ${by}`,
      series: [line('active', 'Active', 'accent')]}),
    card('changes-title', 'New and ended', {name: `New and ended subscriptions, ${by}`, series: [
      line('new', 'New', 'good', 'bar'), line('resubscribed', 'Came back', 'given', 'bar'),
      ...(total('existing') > 0 ? [line('existing', 'First seen at a renewal', 'accent', 'bar')] : []),
      line('ended', 'Ended', 'bad', 'below')]}),
    card('trials-chart-title', 'Trials and grace periods', {name: `Trials and grace periods, ${by}`,
      series: [line('trials', 'Trials', 'given'), line('grace', 'Grace', 'warn')]}),
    moneyCard(periods, by, card),
    ...tables(figures), ...experimentCards(experiments))
  paint()
}

/// The charts of one currency, which is chosen where there are several.
function moneyCard(periods, by, card) {
  const paid = new Map()
  for (const one of periods.flatMap(({money}) => money)) {
    paid.set(one.currency, (paid.get(one.currency) || 0) + (Number(one.revenue) > 0 || Number(one.mrr) > 0 ? 1 : 0))
  }
  // The one with most days first.
  const currencies = [...paid.keys()].sort((a, b) => paid.get(b) - paid.get(a) || (a < b ? -1 : 1))
  if (currencies.length === 0) return ''
  const place = el('div')
  const choice = select('currency', currencies.map((name) => [name, name]))
  if (currencies.includes(currency)) choice.value = currency
  const others = charts

  function show() {
    currency = choice.value
    const amounts = periods.map((one) => one.money.find((amount) => amount.currency === currency) || {})
    const values = (member) => amounts.map((amount) => Number(amount[member] || 0))
    const common = {format: money(currency), isWhole: false}
    charts = [...others]
    place.replaceChildren(
      card('mrr-title', `Monthly recurring revenue in ${currency}`, {...common,
        name: `Monthly recurring revenue in ${currency}, ${by}`,
        series: [{name: 'MRR', tone: 'accent', kind: 'line', values: values('mrr')},
          {name: 'from new subscriptions', tone: 'good', kind: 'bar', values: values('new_mrr')}]}),
      card('revenue-title', `Revenue in ${currency}`, {...common, name: `Revenue in ${currency}, ${by}`,
        series: [{name: 'Paid', tone: 'good', kind: 'bar', values: values('revenue')},
          {name: 'Refunded', tone: 'bad', kind: 'below', values: values('refunds')}]}))
    paint()
  }

  choice.addEventListener('change', show)
  show()
  return el('div', null, currencies.length === 1 ? null : el('div', {class: 'card field'},
    el('label', {for: 'currency'}, 'Currency'), choice), place)
}

/// The subscriptions that were first paid for in one month: the part of them that is paid for after some months.
function retention(cohorts) {
  const ages = [0, 1, 2, 3, 6, 11].filter((age) => cohorts.some(({active}) => active.length > age))
  return [cohorts, 'Still paid for after months, by the month of the first payment', ['Month', 'New', ...ages.map(String)],
    ({month, subscriptions, active}) => [dated({from: `${month}-01`}, true).short, count(subscriptions),
      ...ages.map((age) => active.length > age && subscriptions > 0 ? wholePercent(active[age] / subscriptions) : '')]]
}

/// What is told as of the last day, or of the span as a whole.
function tables(figures) {
  const amounts = (one, member) => one.money.filter((money) => Number(money[member]) !== 0)
    .map((part) => el('span', null, money(part.currency)(Number(part[member]))))
  const rows = [
    [figures.subscribers, 'Users now, by tier and status', ['Tier', 'Status', 'Users'],
      (one) => [one.tier, words(one.status), count(one.users)]],
    [figures.products, 'Products', ['Product', 'Active', 'MRR', 'Revenue'],
      (one) => [[identifier(one.product_id), el('span', {class: 'soft'}, period(one.period))], count(one.active),
        amounts(one, 'mrr'), amounts(one, 'revenue')]],
    retention(figures.cohorts),
    [figures.near_limits, 'Users near a limit, now', ['Feature', 'Tier', 'Users'],
      (one) => [identifier(one.feature), one.tier, count(one.users)]],
    [figures.webhooks, 'Attempts to deliver events', ['Receiver', 'Attempts', 'Delivered'],
      (one) => [one.webhook, count(one.attempts), count(one.delivered)]],
    [figures.cycles, 'Billing', ['Paid', 'Active', 'MRR', 'Revenue'],
      (one) => [period(one.period), count(one.active), amounts(one, 'mrr'), amounts(one, 'revenue')]],
  ]
  return rows.filter(([items]) => items && items.length > 0).map(([items, caption, heads, cells]) =>
    el('section', {class: 'card', 'aria-label': caption}, table(caption, heads, items.map(cells))))
}

function paint() { for (const draw of charts) draw() }

form.addEventListener('submit', (event) => {
  event.preventDefault()
  read()
})
form.addEventListener('change', read)

function clear() {
  charts = []
  today = null
  currency = null
  result.replaceChildren()
  form.reset()
  idle(form)
  showMessage(form, '')
}

export const figures = {name: 'figures', open: read, clear, paint}
