// Runs: the last ones, the progress of the one that is under way, and the start of another.

import {byID, count, el, several, time, words} from './elements.js'
import {confirmed, fail, idle, randomKey, showMessage, work} from './forms.js'
import {ask, askRepeatably, currentSession} from './service.js'

const form = byID('run-form')
const within = byID('run-within')
const note = byID('runs-note')
const shown = byID('runs-list')

/// How often a run that is under way is looked at, in milliseconds.
const pause = 2000
let timer = null
let isOpen = false
// The key of the start that was not answered yet, under which it starts once, however often it is sent.
let starting = {}

/// Reads the last runs, and goes on while one is under way.
async function look() {
  clearTimeout(timer)
  const mine = currentSession()
  const isCurrent = () => isOpen && mine === currentSession()
  let runs
  try { runs = (await ask('GET', 'v1/revalidations')).runs } catch (error) {
    if (isCurrent()) fail(form, error)
    return
  }
  if (!isCurrent()) return
  note.textContent = runs.length === 0 ? 'There was none yet. The form above starts one.' : ''
  shown.replaceChildren(...runs.map(item))
  clearTimeout(timer)
  if (runs.some((run) => run.state === 'running')) timer = setTimeout(look, pause)
}

const states = {running: ['running', 'warn'], finished: ['finished', 'good'], stopped: ['stopped', 'bad']}
const lengths = Object.fromEntries([...within.options].map((option) => [option.value, option.textContent]))

function item(run) {
  const settled = run.due - run.remaining
  const [state, tone] = states[run.state] || [words(run.state), '']
  const counts = [`${count(settled)} of ${several(run.due, 'subscription')}`, `${count(run.changed)} changed`,
    `${count(run.failed)} failed`, run.held_back > 0 ? `${count(run.held_back)} held back by the brake` : null,
    run.rate ? `${run.rate} a second` : null].filter(Boolean)
  const name = `Run ${run.id}`
  return el('li', null,
    el('p', {class: 'when'}, el('strong', null, name), el('span', {class: `pill ${tone}`}, state), time(run.started_at)),
    el('progress', {max: Math.max(run.due, 1), value: run.due === 0 ? 1 : settled, 'aria-label': `${name}: settled`}),
    el('p', null, `${counts.join(', ')}.`),
    run.waiting_for ? el('p', {class: 'notice warn'}, `It waits for ${words(run.waiting_for)}, and goes on by itself.`) : null,
    run.stopped_reason ? el('p', {class: 'notice bad'}, run.stopped_reason === 'downgrade_brake'
      ? 'The downgrade brake stopped it. Find out why so many subscriptions end before you release the brake.'
      : words(run.stopped_reason)) : null,
    el('p', {class: 'soft'}, `Paid time ends within ${lengths[run.expiring_within] || run.expiring_within}.`,
      run.finished_at ? [' Ended ', time(run.finished_at), '.'] : null))
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  const order = {expiring_within: within.value}
  let due = 0
  await work(form, 'Counting…', async (isCurrent) => {
    const counted = await ask('POST', 'v1/revalidations', {...order, dry_run: true})
    if (!isCurrent()) return
    due = counted.due
    if (due === 0) showMessage(form, 'No subscription is due: there is nothing to ask Apple about.')
  })
  if (due === 0 || !await confirmed('Start a run?', `Apple is asked about ${several(due, 'subscription')}, and their ` +
    'verdicts are brought up to date.', 'Start it')) return
  work(form, 'Starting…', async (isCurrent) => {
    if (starting.within !== order.expiring_within) starting = {within: order.expiring_within, key: randomKey()}
    const run = await askRepeatably('POST', 'v1/revalidations', order, {'Idempotency-Key': starting.key})
    starting = {}
    if (!isCurrent()) return
    showMessage(form, `Run ${run.id} is under way.`, 'good')
    await look()
  })
})

function open() {
  isOpen = true
  showMessage(form, '')
  look()
}

function close() {
  isOpen = false
  clearTimeout(timer)
}

function clear() {
  close()
  starting = {}
  note.textContent = ''
  shown.replaceChildren()
  idle(form)
  showMessage(form, '')
}

export const runs = {name: 'runs', open, close, clear}
