// Health: what the service needs and how it fares, the rows that wait for the app's database, and the brake.

import {byID, count, el, several} from './elements.js'
import {onSubmit, reset, showMessage, work} from './forms.js'
import {ask} from './service.js'
import {notificationsURL} from './welcome.js'

const form = byID('health-form')
const result = byID('health-result')
const test = byID('test-form')
const tested = byID('test-result')

/// `3 minutes`, of a number of seconds.
function age(seconds) {
  const [size, name] = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']]
    .find(([size]) => seconds >= size) || [1, 'second']
  return several(Math.floor(seconds / size), name)
}

const row = (name, tone, state, text = '') => el('li', null,
  el('p', {class: 'when'}, el('strong', null, name), el('span', {class: `pill ${tone}`}, state)),
  text ? el('p', null, text) : null)

const appStores = {
  answering: ['good', 'OK'], unknown: ['', 'not asked in the last minute'],
  unavailable: ['warn', 'away', 'Verdicts stand as they were proven. Nothing needs to be done.'],
  shared_secret_rejected: ['bad', 'rejects the shared secret', 'No receipt can be validated: set app_store.shared_secret right.'],
  server_api_key_rejected: ['bad', 'rejects the key', 'Set app_store.server_api right.'],
}

function profileStore(text) {
  if (text === 'ok') return ['good', 'OK']
  if (text === 'unknown') return ['', 'not asked yet']
  const [state, code] = text.split(': ')
  return state === 'misconfigured'
    ? ['bad', 'refuses rows', `${code || ''}: set profile_store right. Verdicts are kept and delivered afterwards.`]
    : ['warn', 'away', `${code || ''}: verdicts are kept and delivered when it answers.`]
}

function outbox(box) {
  if (box.depth === 0) return ['good', 'nothing waits', missing(box)]
  return [box.last_error ? 'warn' : '', `${several(box.depth, 'row')} ${box.depth === 1 ? 'waits' : 'wait'}`,
    [`The oldest has waited for ${age(box.age_seconds)}.`, box.last_error ? `The last problem was ${box.last_error}.` : '',
      missing(box)].filter(Boolean).join(' ')]
}

const missing = (box) => box.missing > 0
  ? `${several(box.missing, 'user')} ${box.missing === 1 ? 'has' : 'have'} no row in the app’s table.` : ''

function userKeys(text) {
  const [state, cause] = text.split(': ')
  return state === 'ok' ? ['good', 'known'] : state === 'unknown' ? ['', 'not fetched yet']
    : [state === 'stale' ? 'warn' : 'bad', state, cause ? `The last problem was ${cause}.` : '']
}

const histories = {
  ok: ['good', 'asked for'],
  behind: ['bad', 'cannot be asked for', 'Apple has not said for two days what did not arrive: see countersign notifications.'],
  gap: ['bad', 'lost', 'What was missed is older than Apple keeps: see countersign notifications.'],
}

function consumption({due, missed}) {
  if (missed > 0) return ['bad', `${missed} missed this week`, 'Apple decided without an answer: see the log.']
  return due > 0 ? ['', `${several(due, 'request')} ${due === 1 ? 'waits' : 'wait'}`,
    'For consent or a word of your backend, or for Apple.'] : ['good', 'nothing waits']
}

function brake(state) {
  if (state.downgrade_brake === 'engaged') return ['bad', 'engaged', 'The banner above says why, and releases it.']
  if (state.withheld_by_rules > 0) {
    return ['warn', 'a changed configuration is held back', 'The banner above says how many users it is about.']
  }
  return ['good', 'released', 'It engages by itself when too many verdicts would downgrade somebody.']
}

function rows(state) {
  return [
    row('Service', ...(state.status === 'ok' ? ['good', 'OK'] : ['bad', 'not ready'])),
    row('Ledger', ...(state.ledger === 'ok' ? ['good', 'OK']
      : ['bad', state.ledger, 'Nothing can be recorded or read. See the log, and the disk or the database.'])),
    row('App Store', ...(appStores[state.app_store] || ['', state.app_store])),
    state.profile_store === 'none' ? null : row('Profile store', ...profileStore(state.profile_store)),
    state.outbox ? row('Outbox', ...outbox(state.outbox)) : null,
    typeof state.pending_receipts === 'number' ? row('Receipts that wait for Apple',
      state.pending_receipts === 0 ? 'good' : 'warn', count(state.pending_receipts)) : null,
    row('Downgrade brake', ...brake(state)),
    row('Clock', ...(state.clock === 'ok' ? ['good', 'right']
      : ['bad', 'off', 'It differs from Apple’s: set the machine’s clock by NTP.'])),
    state.notification_history ? row('Missed notifications', ...(histories[state.notification_history] || [''])) : null,
    state.consumption_requests ? row('Refund requests', ...consumption(state.consumption_requests)) : null,
    state.user_keys ? row('Keys of users’ tokens', ...userKeys(state.user_keys)) : null,
  ].filter(Boolean)
}

function open() {
  work(form, 'Looking…', async (isCurrent) => {
    const state = await ask('GET', 'v1/status')
    if (!isCurrent()) return
    result.replaceChildren(el('ol', {class: 'history'}, rows(state)))
    // Only with a key can Apple be asked.
    test.hidden = !state.notification_history
  })
}

onSubmit(form, open)

const outcomes = {
  arrived: ['good', 'arrived'],
  failed: ['bad', 'did not arrive', 'Is the URL in App Store Connect right, and does it lead here by TLS?'],
  no_url: ['warn', 'no URL', `Set it in App Store Connect: ${notificationsURL}`],
  key_rejected: ['bad', 'Apple rejects the key', 'Set app_store.server_api right.'],
  unavailable: ['warn', 'Apple does not say', 'Try again in a minute.'],
  pending: ['', 'not posted yet', 'Apple takes its time. Try again in a minute.'],
}

onSubmit(test, () => {
  work(test, 'Apple is asked…', async (isCurrent) => {
    const {tests} = await ask('POST', 'v1/notifications/test')
    if (!isCurrent()) return
    tested.replaceChildren(el('ol', {class: 'history'}, tests.map(({bundle_id: app, environment, outcome, cause}) => {
      const [tone, state, text = ''] = outcomes[outcome] || ['', outcome]
      return row(`${app}, ${environment}`, tone, state, cause ? `Apple says ${cause}. ${text}` : text)
    })))
    const failed = tests.filter((one) => one.outcome !== 'arrived').length
    showMessage(test, failed === 0 ? 'All arrived.' : `${failed} of ${tests.length} did not arrive.`,
      failed === 0 ? 'good' : 'warn')
  })
})

function clear() {
  result.replaceChildren()
  tested.replaceChildren()
  test.hidden = true
  for (const one of [form, test]) reset(one)
}

export const health = {name: 'health', open, clear}
