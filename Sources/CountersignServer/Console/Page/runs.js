// Runs: the last ones, the progress of the one that is under way, and the start of another.

import {byID, count, el, several, time, words} from './elements.js'
import {confirmed, onSubmit, poster, showMessage, watchedList, work} from './forms.js'
import {ask} from './service.js'

const form = byID('run-form')
const within = byID('run-within')
let post = poster()

const list = watchedList({form, note: byID('runs-note'), shown: byID('runs-list'), path: 'v1/revalidations', member: 'runs',
  none: 'There was none yet. The form above starts one.', item, isUnderWay: (run) => run.state === 'running', pause: 2000})

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

onSubmit(form, async () => {
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
    const run = await post('v1/revalidations', order)
    if (!isCurrent()) return
    showMessage(form, `Run ${run.id} is under way.`, 'good')
    await list.look()
  })
})

function clear() {
  list.clear()
  post = poster()
}

export const runs = {name: 'runs', ...list, clear}
