// Customers: the field that finds whatever a customer can read out, and what was found.

import {readTiers} from './catalog.js'
import {bdi, byID, el} from './elements.js'
import {busy, fail, idle, onSubmit, reset, showMessage} from './forms.js'
import {purchaseCard, unownedCard} from './purchases.js'
import {ask, hasKey, transactionPath, userLink} from './service.js'
import {readUser, showUser} from './user.js'
import {nextSteps} from './welcome.js'

const form = byID('search-form')
const query = byID('query')
const result = byID('result')
// Counts look-ups: an answer to one that was followed by another is dropped.
let turn = 0
let paint = null

function show(...children) {
  paint = null
  result.replaceChildren(...children)
  const heading = result.querySelector('h2')
  if (heading) heading.focus()
}

/// Takes the last customer off the page.
function clear() {
  turn += 1
  show()
  query.value = ''
  reset(form)
}

function leave(text, tone) {
  clear()
  link(null)
  showMessage(form, text, tone)
  query.focus()
}

// MARK: The link to a user: `#user=ID`. It is never sent to anybody, and holds no key.

function link(user) {
  window.history.replaceState(null, '', user === null ? location.pathname + location.search : userLink(user))
}

function linkedUser() {
  const match = /^#user=(.{1,400})$/.exec(location.hash)
  try { return match && decodeURIComponent(match[1]) } catch { return null }
}

function open() {
  const linked = linkedUser()
  if (linked) lookUp(linked)
  else {
    query.focus()
    if (!result.firstChild) welcome()
  }
}

/// Says what to do next where no purchase is recorded at all.
async function welcome() {
  const mine = turn
  let newest
  try { newest = await ask('GET', 'v1/events/newest?types=subscription.started,trial.started&limit=1') } catch { return }
  if (mine === turn && hasKey() && newest.events.length === 0 && newest.before === null) result.replaceChildren(nextSteps())
}

// MARK: Looking up

onSubmit(form, () => {
  const id = query.value.trim()
  if (id) lookUp(id)
})

result.addEventListener('click', (event) => {
  const {user, transaction} = (event.target.closest('[data-user], [data-transaction]') || {dataset: {}}).dataset
  if (user !== undefined) lookUpUser(user)
  if (transaction !== undefined) lookUpTransaction(transaction)
})

/// Takes the last customer off the page, whatever comes of it.
async function showFor(id, action) {
  clear()
  const mine = turn
  link(null)
  query.value = id
  busy(form, 'Looking…')
  try {
    await action(() => mine === turn)
    if (mine === turn) document.dispatchEvent(new Event('looked-up'))
  } catch (error) {
    if (mine !== turn) return
    fail(form, error)
    if (hasKey()) query.focus()
  } finally {
    if (mine === turn) idle(form)
  }
}

function lookUp(id) {
  return showFor(id, async (isCurrent) => {
    const found = await ask('GET', `v1/lookup/${encodeURIComponent(id)}`)
    if (!isCurrent()) return
    const [history, tiers] = found.user_id === null ? [null, []]
      : await Promise.all([readUser(found.user_id), tiersToGive()])
    if (!isCurrent()) return
    const cards = [
      ...found.purchases.map((purchase) => purchaseCard(purchase)),
      ...found.unowned.map((purchase) => unownedCard(purchase, found.app_store !== 'not_configured')),
    ]
    if (history) showFound(history, tiers, cards)
    else if (cards.length > 0) show(...cards)
    else if (found.found_as.length === 0) show(neverSeenCard(found))
    const [text, tone] = foundText(found, history)
    showMessage(form, text, tone)
  })
}

function showFound(history, tiers, cards) {
  paint = showUser(history, tiers, cards, show, leave)
  link(history.user_id)
}

function lookUpUser(id) {
  return showFor(id, async (isCurrent) => {
    const [history, tiers] = await Promise.all([readUser(id), tiersToGive()])
    if (isCurrent()) showFound(history, tiers, [])
  })
}

/// Every tier but the lowest.
const tiersToGive = async () => (await readTiers()).slice(1)

function lookUpTransaction(id) {
  return showFor(id, async (isCurrent) => {
    const found = await ask('GET', transactionPath(id))
    if (!isCurrent()) return
    show(...found.purchases.map((purchase) => purchaseCard(purchase)))
    showMessage(form, `The purchase belongs to ${found.purchases.map((one) => one.user_id).join(' and ')}.`)
  })
}

const ways = {
  original_transaction_id: 'Found by its original transaction ID', transaction_id: 'Found by a later transaction of it',
  order_id: 'Found by its order ID', web_order_line_item_id: 'Found by the web order line item of a payment',
}

function foundText(found, history) {
  if (history) {
    const also = found.found_as.length > 1
      ? 'The same number is also the ID of a purchase: see below the history.' : ''
    const device = found.found_as[0] === 'device_id' ? 'Found by the device of a trial. ' : ''
    return [device + also, also ? 'warn' : '']
  }
  const [first] = found.found_as
  if (first === undefined) return ['Never seen here.', 'warn']
  if (first === 'device_id') return ['Found as the device of a trial. Its user was erased.', 'warn']
  const owners = [...new Set(found.purchases.map((one) => one.user_id))]
  return owners.length > 0
    ? [`${ways[first]}: the purchase belongs to ${owners.join(' and ')}.`, '']
    : [`${ways[first]}: no user has this purchase here.`, 'warn']
}

/// Nobody's: there is nothing to judge, to ask about or to move.
function neverSeenCard(found) {
  const isNumber = /^[0-9]+$/.test(found.id)
  const asked = ['users, the original transaction IDs of purchases, and the devices of trials']
  if (isNumber) asked.push('the later transactions and web order line items of purchases, as far as they are kept')
  // A text that is neither all digits nor about as long as an order ID is a name.
  const mayBeApples = isNumber || /^[0-9A-Za-z]{7,16}$/.test(found.id)
  const apple = !mayBeApples ? ['', ''] : {
    not_configured: ['There is no key of the App Store Server API (app_store.server_api): without one, order IDs and ' +
      'transactions that are not kept cannot be looked up.', 'warn'],
    answered: [`Apple was asked, and knows no such ${isNumber ? 'transaction' : 'order'} of this app.`, ''],
    unavailable: ['Apple could not be asked. Try again in a minute.', 'warn'],
  }[found.app_store] || ['', '']
  return el('section', {class: 'card', 'aria-labelledby': 'never-title'},
    el('h2', {id: 'never-title', tabindex: -1}, 'Never seen here: ', bdi(found.id)),
    el('p', null, 'No user and no purchase of this service has this ID. Is it typed correctly?'),
    el('p', {class: 'soft'}, `Searched: ${asked.join('; ')}.`),
    found.id.includes('@') ? el('p', {class: 'notice'}, 'This service knows no email addresses, unless the app uses them as ' +
      'user IDs. Look for the user ID in the app’s own accounts, or ask for the order ID in Apple’s email.') : null,
    found.searched_all ? null : el('p', {class: 'notice warn'},
      'The search took too long and ended before everything was searched. An original transaction ID is found at once.'),
    apple[0] ? el('p', {class: `notice ${apple[1]}`}, apple[0]) : null)
}

export const customers = {name: 'customers', open, clear, paint: () => { if (paint) paint() }}
