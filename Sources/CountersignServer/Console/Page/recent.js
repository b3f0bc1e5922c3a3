// Recent: the newest purchases, renewals, failed payments and refunds, each with its customer.

import {product} from './catalog.js'
import {byID, el, shortTime, words} from './elements.js'
import {message, onSubmit, reset, showMessage, work} from './forms.js'
import {money} from './numbers.js'
import {ask, userLink} from './service.js'
import {number, table} from './tables.js'
import {nextSteps} from './welcome.js'

const form = byID('recent-form')
const result = byID('recent-result')

const kinds = {
  purchases: ['subscription.started', 'trial.started', 'trial.converted'],
  renewals: ['subscription.renewed', 'subscription.product_changed'],
  failed: ['subscription.billing_issue', 'subscription.grace_ended'],
  refunds: ['subscription.refunded'],
  ended: ['subscription.renewal_off', 'subscription.expired', 'trial.expired'],
}
const names = {
  'subscription.started': 'Purchase', 'trial.started': 'Trial', 'trial.converted': 'Trial paid for',
  'subscription.renewed': 'Renewal', 'subscription.product_changed': 'Product changed',
  'subscription.billing_issue': 'Payment failed', 'subscription.grace_ended': 'Grace period ended',
  'subscription.refunded': 'Refund', 'subscription.renewal_off': 'Renewal off', 'subscription.expired': 'Ended',
  'trial.expired': 'Trial ended',
}
const titles = {purchases: 'Purchases', renewals: 'Renewals', failed: 'Failed payments', refunds: 'Refunds',
  ended: 'Turned off, ended'}

const path = (kind, rest = '') => `v1/events/newest?types=${kinds[kind].join(',')}${rest}`

function read() {
  work(form, 'Reading…', async (isCurrent) => {
    for (let kind = null; kind !== form.elements.kind.value;) {
      kind = form.elements.kind.value
      const page = await ask('GET', path(kind))
      const isNothing = page.events.length === 0 && page.before === null && await isEmpty()
      if (!isCurrent()) return
      result.replaceChildren(isNothing ? nextSteps() : list(kind, page))
    }
    showMessage(form, '')
  })
}

/// Whether there is no purchase at all.
const isEmpty = async () => {
  const {events, before} = await ask('GET', `${path('purchases')}&limit=1`)
  return events.length === 0 && before === null
}

/// - Parameter first: the newest page; older ones come on demand.
function list(kind, first) {
  const events = [...first.events]
  let {before} = first
  const place = el('div')
  const older = el('form', {autocomplete: 'off', 'aria-label': 'Older'},
    el('button', {type: 'submit', class: 'quiet'}, 'Older'), message())

  function show() {
    const hasAmounts = events.some((event) => event.data.price !== undefined && event.data.price !== null)
    place.replaceChildren(...table(titles[kind], ['When', 'What', 'Customer', 'Product', ...(hasAmounts ? ['Amount'] : [])],
      events.map((event) => row(event, hasAmounts)), before === null ? 'There was none yet.'
        : 'There was none among the newest events.'))
    older.hidden = before === null
  }

  onSubmit(older, () => {
    work(older, 'Reading…', async (isCurrent) => {
      const page = await ask('GET', path(kind, `&before=${before}`))
      if (!isCurrent()) return
      events.push(...page.events)
      before = page.before
      show()
      showMessage(older, page.events.length > 0 ? '' : before === null ? 'There is nothing older.'
        : 'None among the older ones that were looked at. Go on with “Older”.')
    })
  })
  show()
  return el('section', {class: 'card', 'aria-label': titles[kind]}, place, older)
}

function row({type, timestamp, user_id: user, data}, hasAmounts) {
  const amount = data.price === undefined || data.price === null || !data.currency ? ''
    : number(data.price, money(data.currency)(Number(data.price)))
  const what = data.environment === 'sandbox' ? `${names[type] || words(type)} (sandbox)` : names[type] || words(type)
  return [shortTime(timestamp), what, el('a', {href: userLink(user), class: 'id'}, user),
    data.product_id ? product(data.product_id) : data.trial ? `trial ${data.trial}` : data.tier || '',
    ...(hasAmounts ? [amount] : [])]
}

onSubmit(form, read)
form.addEventListener('change', read)

function clear() {
  result.replaceChildren()
  form.reset()
  reset(form)
}

export const recent = {name: 'recent', open: read, clear}
