// Later renewal dates: of one customer, and of all active subscribers of a product.

import {bdi, byID, count, date, el, time, words} from './elements.js'
import {complain, confirmed, field, message, needed, noteBox, onSubmit, poster, select, showMessage, watchedList,
  work} from './forms.js'
import {noteOf, refreshed} from './verdict.js'

const reasons = [['customer_satisfaction', 'customer satisfaction'], ['service_issue', 'service issue or outage'],
  ['other', 'other'], ['undeclared', 'undeclared']]
const daysBox = (id) => el('input', {id, type: 'text', maxlength: 2, inputmode: 'numeric', autocomplete: 'off',
  'aria-required': 'true'})

/// The number in a field of days; `null`, and the field complains, where Apple takes none.
function neededDays(box) {
  const days = Number(box.value)
  const isGood = Number.isInteger(days) && days >= 1 && days <= 90
  complain(box, isGood ? '' : 'Give a whole number of days, from 1 to 90.')
  return isGood ? days : null
}

// MARK: One customer

/// The form that extends a subscription of a customer.
export function extendForm(refresh) {
  const [days, note, purchase, reason] =
    [daysBox('extend-days'), noteBox('extend-note'), select('extend-purchase', []), select('extend-reason', reasons)]
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'extend-title'},
    el('h3', {id: 'extend-title'}, 'Extend the paid period'),
    el('p', {class: 'soft'}, 'Apple moves the renewal date, tells the customer by mail, and charges later. Apple allows 90 ' +
      'days at most, twice in 365 days, for a subscription that runs and was paid for: not in a free offer, in a grace ' +
      'period or after its end. The note is kept in the history.'),
    el('div', {class: 'fields'}, field(purchase, 'Subscription'), field(days, 'Days'), field(reason, 'Reason, for Apple')),
    field(note, 'Note: why is it extended?'), el('button', {type: 'submit'}, 'Extend it'), message())
  const post = poster()

  onSubmit(form, () => {
    const number = neededDays(days)
    const text = number === null ? null : needed(note, 'Say in the note why it is extended.')
    if (text === null) return
    const [environment, id] = purchase.value.split(' ')
    const order = {days: number, reason: reason.value, note: text, environment}
    work(form, 'Asking Apple…', async (isCurrent) => {
      const found = await post(`v1/purchases/${encodeURIComponent(id)}/extensions`, order)
      if (!isCurrent()) return
      if (found.state === 'done') {
        for (const box of [days, note]) box.value = ''
        await refreshed(form, refresh, isCurrent, `Extended until ${date(found.expires_at)}.`, 'good')
      } else if (found.state === 'due') {
        showMessage(form, 'Apple has not answered yet. It is asked again until it does, and extends it once.', 'warn')
      } else showMessage(form, found.problem, 'bad')
    })
  })

  /// - Returns: whether there is a subscription to extend.
  function show({periods}) {
    const subscriptions = new Map()
    for (const {original_transaction_id: id, environment, product_id: product, ends_at: end} of periods) {
      if (end && !subscriptions.has(`${environment} ${id}`)) subscriptions.set(`${environment} ${id}`, `${product} (${id})`)
    }
    const chosen = purchase.value
    purchase.replaceChildren(...[...subscriptions].map(([value, text]) => el('option', {value}, text)))
    if (subscriptions.has(chosen)) purchase.value = chosen
    return subscriptions.size > 0
  }

  return {form, show}
}

// MARK: All active subscribers of a product

const form = byID('extensions-form')
const [product, again, days, note, reason, storefronts] =
  ['product', 'again', 'days', 'note', 'reason', 'storefronts'].map((name) => byID(`extensions-${name}`))
let post = poster()

for (const box of [product, again, days, note, storefronts]) box.addEventListener('input', () => complain(box, ''))
reason.replaceChildren(...reasons.map(([value, text]) => el('option', {value}, text)))
reason.value = 'service_issue'

const list = watchedList({form, note: byID('extensions-note-list'), shown: byID('extensions-list'), path: 'v1/extensions',
  member: 'extensions', none: 'There was none yet.', item, isUnderWay: (one) => one.closed_at === null, pause: 5000})

const states = {due: ['waits for Apple', 'warn'], running: ['running', 'warn'], done: ['done', 'good'],
  refused: ['refused', 'bad'], failed: ['given up', 'bad']}

function item(one) {
  const {expected, extended, failed} = one.progress
  const [state, tone] = states[one.state] || [words(one.state), '']
  const settled = extended + failed
  const isDone = one.state === 'done'
  const of = isDone ? '' : ` of about ${count(Math.max(expected, settled))}`
  return el('li', null,
    el('p', {class: 'when'}, el('strong', null, bdi(one.product_id)), el('span', {class: `pill ${tone}`}, state),
      time(one.asked_at)),
    el('progress', {max: isDone ? 1 : Math.max(expected, settled, 1), value: isDone ? 1 : settled,
      'aria-label': `${one.product_id}: extended`}),
    el('p', null, `${count(extended)}${of} extended by ${one.days} days, ${count(failed)} not.`,
      one.storefronts ? ` In ${one.storefronts.join(', ')}.` : null),
    one.problem ? el('p', {class: `notice ${one.closed_at ? 'bad' : 'warn'}`}, one.problem) : null,
    el('p', {class: 'soft'}, `${words(one.reason)}, ${one.environment}, by `, bdi(one.author), '.',
      one.closed_at ? [' Ended ', time(one.closed_at), '.'] : null),
    noteOf({note: one.note, asked_by: one.author}))
}

onSubmit(form, async () => {
  const name = needed(product, 'Name the product.')
  if (name === null) return
  const isSame = again.value.trim() === name
  complain(again, isSame ? '' : 'Type the product ID once more: this is not the same.')
  const number = isSame ? neededDays(days) : null
  const text = number === null ? null : needed(note, 'Say in the note why.')
  if (text === null) return
  const codes = storefronts.value.toUpperCase().split(/[\s,]+/).filter(Boolean)
  const order = {days: number, reason: reason.value, note: text, ...(codes.length > 0 ? {storefronts: codes} : {})}
  if (!await confirmed('Extend them all?', `Apple extends every active subscription of ${name} by ${number} days` +
    `${codes.length > 0 ? ` in ${codes.join(', ')}` : ''}, and charges that much later. It cannot be taken back.`,
  'Extend them all')) return
  work(form, 'Asking Apple…', async (isCurrent) => {
    await post(`v1/products/${encodeURIComponent(name)}/extensions`, order)
    if (!isCurrent()) return
    for (const box of [again, days, note]) box.value = ''
    showMessage(form, 'Apple is asked. It takes hours or days.', 'good')
    await list.look()
  })
})

function clear() {
  list.clear()
  post = poster()
  for (const box of [product, again, days, note, storefronts]) {
    box.value = ''
    complain(box, '')
  }
}

export const extensions = {name: 'extensions', ...list, clear}
