// Webhooks: the receivers of events, what waits for each, and the events that were given up.

import {bdi, byID, count, el, list, several, time} from './elements.js'
import {message, onSubmit, reset, showMessage, work} from './forms.js'
import {ask} from './service.js'

const form = byID('webhooks-form')
const result = byID('webhooks-result')

function open() {
  work(form, 'Looking…', async (isCurrent) => {
    const {webhooks} = await ask('GET', 'v1/webhooks')
    if (!isCurrent()) return
    result.replaceChildren(...webhooks.map(receiver))
    showMessage(form, webhooks.length === 0 ? 'No receiver is configured. List one under webhooks in the configuration: name, url, secret_file.' : '')
  })
}

/// A receiver, with the events that it did not take.
function receiver(first) {
  const id = `webhook-${first.name}`
  const about = el('div')
  const letters = el('ol', {class: 'given', 'aria-label': `Events that ${first.name} did not take`})
  let more = null

  function show(webhook) {
    const [state, tone] = !webhook.enabled ? ['switched off', 'bad']
      : webhook.problem ? ['in trouble', 'warn'] : ['works', 'good']
    about.replaceChildren(
      el('p', {class: 'state'}, el('span', {class: `pill ${tone}`}, state)),
      webhook.enabled ? '' : el('p', {class: 'notice bad'},
        'The receiver answered 410, “gone”: nothing more is delivered until it is switched on again.'),
      list([
        ['Address', bdi(webhook.origin)], ['Format', webhook.format],
        ['Events', webhook.events.length === 0 ? 'all of the service’s own' : webhook.events.join(', ')],
        ['Waiting', webhook.waiting < 1000 ? count(webhook.waiting) : '1,000 or more'], ['Given up', count(webhook.dead)],
        ['Oldest', webhook.oldest_at && time(webhook.oldest_at)],
        ['Last problem', webhook.problem
          && [bdi(webhook.problem), webhook.problem_at ? [', ', time(webhook.problem_at)] : null]],
      ]))
    all.hidden = webhook.dead === 0 && webhook.enabled
    all.querySelector('button').textContent = webhook.dead > 0 ? 'Redeliver all that was given up' : 'Switch it on again'
  }

  const all = el('form', {autocomplete: 'off', 'aria-label': `Redeliver to ${first.name}`},
    el('button', {type: 'submit', class: 'quiet'}, 'Redeliver all that was given up'), message())
  onSubmit(all, () => {
    work(all, 'Redelivering…', async (isCurrent) => {
      const body = first.dead > 0 ? {webhook: first.name, dead: true} : {webhook: first.name}
      const {redelivered} = await ask('POST', 'v1/webhooks/redeliver', body)
      await again(isCurrent)
      if (isCurrent()) showMessage(all, `${several(redelivered, 'event')} on the way again.`, 'good')
      all.hidden = false
    })
  })

  const olderForm = el('form', {autocomplete: 'off'},
    el('button', {type: 'submit', class: 'quiet'}, 'More of them'), message())
  onSubmit(olderForm, () => {
    work(olderForm, 'Reading…', async (isCurrent) => {
      const page = await ask('GET', more)
      if (isCurrent()) add(page)
    })
  })

  function add(page) {
    letters.append(...page.dead.map(letter))
    more = page.next
    olderForm.hidden = !more
  }

  /// One event that was given up.
  function letter(dead) {
    const form = el('form', {autocomplete: 'off', 'aria-label': `Redeliver the event ${dead.event_id}`},
      el('button', {type: 'submit', class: 'quiet small', 'aria-label': `Redeliver the event ${dead.event_id}`},
        'Redeliver'), message())
    onSubmit(form, () => {
      work(form, 'Redelivering…', async (isCurrent) => {
        await ask('POST', 'v1/webhooks/redeliver', {webhook: first.name, event_id: dead.event_id})
        if (isCurrent()) showMessage(form, 'It is on the way again.', 'good')
      })
    })
    return el('li', null,
      el('p', {class: 'when'}, el('strong', null, dead.type), time(dead.timestamp)),
      el('p', null, dead.user_id ? ['User ', bdi(dead.user_id)] : 'Nobody’s', `, ${several(dead.attempts, 'attempt')}`,
        dead.problem ? [', last problem ', bdi(dead.problem)] : null, '.'),
      form)
  }

  async function again(isCurrent) {
    const [{webhooks}, page] = await Promise.all([ask('GET', 'v1/webhooks'),
      ask('GET', `v1/webhooks/dead?webhook=${encodeURIComponent(first.name)}`)])
    const webhook = webhooks.find((one) => one.name === first.name)
    if (!isCurrent() || !webhook) return
    first = webhook
    show(webhook)
    letters.replaceChildren()
    add(page)
  }

  show(first)
  olderForm.hidden = true
  if (first.dead > 0) work(olderForm, 'Reading…', again)
  return el('section', {class: 'card', 'aria-labelledby': id},
    el('h2', {id}, 'Receiver ', bdi(first.name)), about, all, letters, olderForm)
}

onSubmit(form, open)

function clear() {
  result.replaceChildren()
  reset(form)
}

export const webhooks = {name: 'webhooks', open, clear}
