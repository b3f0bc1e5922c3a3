// Access that is given and not bought, and the app's own trials.

import {at, bdi, date, el, time, words, zone} from './elements.js'
import {complain, field, message, nameBox, needed, noteBox, onSubmit, poster, select, showMessage, work} from './forms.js'
import {askRepeatably, userPath} from './service.js'
import {noteOf, refreshed} from './verdict.js'

const lengths = [['1d', '1 day'], ['7d', '7 days'], ['30d', '30 days'], ['365d', '1 year'], ['', 'until a date']]
const grantKinds = ['support', 'promotion', 'tester', 'migration'].map((name) => [name, name])

/// The periods given to a user, and apart from them the form that gives more.
export function givenCard(user, tiers, refresh) {
  const items = new Map()
  const list = el('ol', {class: 'given', 'aria-labelledby': 'given-title'})
  const tier = tiers.length > 0
    ? select('grant-tier', tiers.map(({tier, name}) => [tier, name && name !== tier ? `${name} (${tier})` : tier]))
    : nameBox('grant-tier')
  const length = select('grant-length', lengths)
  const until = el('input', {id: 'grant-until', type: 'datetime-local', max: '9999-12-31T23:59',
    'aria-required': 'true'})
  const untilField = field(until, `Until (${zone})`)
  const why = select('grant-kind', grantKinds)
  const note = noteBox('grant-note')
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'give-title'},
    el('h3', {id: 'give-title'}, 'Give access'),
    el('p', {class: 'soft'}, 'For a time, beside what was bought. The note is kept in the history.'),
    el('div', {class: 'fields'}, field(tier, 'Tier'), field(length, 'How long'), untilField, field(why, 'Kind')),
    field(note, 'Note: why is it given?'), el('button', {type: 'submit'}, 'Give access'), message())
  const post = poster()

  untilField.hidden = true
  length.addEventListener('change', () => { untilField.hidden = length.value !== '' })
  onSubmit(form, () => {
    const name = needed(tier, 'Name the tier.')
    const end = length.value === '' && name !== null ? needed(until, 'Say until when: a date and a time.') : ''
    const text = name === null || end === null ? null : needed(note, 'Say in the note why it is given.')
    if (text === null) return
    const grant = {tier: name, kind: why.value, note: text,
      ...(end ? {ends_at: new Date(end).toISOString()} : {for: length.value})}
    work(form, 'Giving…', async (isCurrent) => {
      const given = await post(userPath(user, 'grants'), grant)
      if (!isCurrent()) return
      note.value = ''
      await refreshed(form, refresh, isCurrent, `Given: ${given.tier} until ${date(given.ends_at)}.`, 'good')
    })
  })

  function show({grants, now}) {
    const moment = at(now.decision.judged_at || new Date().toISOString())
    const isRunning = (grant) => !grant.ended_early && moment < at(grant.ends_at)
    for (const grant of grants) {
      if (!items.has(grant.id)) items.set(grant.id, givenItem(user, grant, refresh))
      items.get(grant.id).show(grant, isRunning(grant))
    }
    const sorted = [...grants.filter(isRunning), ...grants.filter((grant) => !isRunning(grant))]
    list.replaceChildren(...sorted.map((grant) => items.get(grant.id).item))
    card.hidden = grants.length === 0
  }

  const card = el('section', {class: 'card', 'aria-labelledby': 'given-title'},
    el('h2', {id: 'given-title'}, 'Access that was given'), list)
  return {card, form, show}
}

/// One grant, with what ends it.
function givenItem(user, {id, tier}, refresh) {
  const about = el('div')
  const note = noteBox(`end-note-${id}`)
  const open = el('button', {type: 'button', class: 'quiet small', 'aria-label': `End now: the grant of ${tier}`},
    'End now')
  const leave = el('button', {type: 'button', class: 'quiet'}, 'Cancel')
  const fields = el('div', {class: 'ending', hidden: true}, field(note, 'Note: why is it ended?'),
    el('div', {class: 'row'}, el('button', {type: 'submit', class: 'danger'}, 'End it'), leave))
  const said = message()
  said.tabIndex = -1
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-label': `End the grant of ${tier}`},
    open, fields, said)

  function unfold(isOpen) {
    open.hidden = isOpen
    fields.hidden = !isOpen
  }

  open.addEventListener('click', () => {
    unfold(true)
    showMessage(form, '')
    note.focus()
  })
  leave.addEventListener('click', () => {
    unfold(false)
    complain(note, '')
    showMessage(form, '')
    open.focus()
  })
  onSubmit(form, () => {
    const text = needed(note, 'Say in the note why it is ended.')
    if (text === null) return
    work(form, 'Ending…', async (isCurrent) => {
      const ended = await askRepeatably('DELETE', userPath(user, `grants/${encodeURIComponent(id)}`), {note: text})
      if (!isCurrent()) return
      note.value = ''
      await refreshed(form, refresh, isCurrent, `Ended on ${date(ended.ends_at)}.`, 'good')
      if (isCurrent()) said.focus()
    })
  })

  function show(grant, isRunning) {
    const [state, tone] = isRunning ? ['running', 'good'] : [grant.ended_early ? 'ended early' : 'over', '']
    about.replaceChildren(
      el('p', {class: 'when'}, el('strong', null, grant.tier), el('span', {class: `pill ${tone}`}, state),
        el('span', {class: 'soft'}, words(grant.kind))),
      el('p', null, 'From ', time(grant.starts_at), ' until ', time(grant.ends_at), ', by ', bdi(grant.author), '.'),
      ...[noteOf({note: grant.note, asked_by: grant.author})].filter(Boolean))
    if (isRunning) return
    open.hidden = true
    fields.hidden = true
  }

  return {item: el('li', null, about, form), show}
}

const trialStates = {running: ['running', 'good'], used_up: ['sessions used up', ''], over: ['over', ''],
  converted: ['bought since', 'good']}

/// The app's own trials of a user. Their periods are among what was given.
export function trialsCard() {
  const items = el('ol', {class: 'given', 'aria-labelledby': 'trials-title'})
  const card = el('section', {class: 'card', 'aria-labelledby': 'trials-title'}, el('h2', {id: 'trials-title'}, 'Trials'),
    items)

  function show({trials}) {
    card.hidden = trials.length === 0
    items.replaceChildren(...trials.map((trial) => {
      const [state, tone] = trialStates[trial.state] || [words(trial.state), '']
      return el('li', null,
        el('p', {class: 'when'}, el('strong', null, `${trial.trial}: ${trial.tier}`),
          el('span', {class: `pill ${tone}`}, state)),
        el('p', null, 'From ', time(trial.started_at), ' until ', time(trial.expires_at), '.',
          trial.sessions_total === null ? null : ` Sessions used: ${trial.sessions_used} of ${trial.sessions_total}.`),
        el('p', null, 'Begun on the device ', bdi(trial.device_id)))
    }))
  }

  return {card, show}
}
