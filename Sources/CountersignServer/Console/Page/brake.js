// The downgrade brake: a banner while it holds somebody back, and the word of a person that releases it.

import {byID, date} from './elements.js'
import {buttonOf, confirmed, onSubmit, showMessage, work} from './forms.js'
import {ask, currentSession, hasKey} from './service.js'

const banner = byID('brake')
const form = byID('brake-form')
const heading = byID('brake-title')
const text = byID('brake-text')

/// Whether the brake holds somebody back; the brake as `GET /v1/brake` answers it.
const holds = (brake) => brake.engaged === true || brake.withheld_by_rules > 0

async function look() {
  const mine = currentSession()
  let state
  try { state = await ask('GET', 'v1/brake') } catch { return }
  if (!hasKey() || mine !== currentSession()) return
  banner.hidden = !holds(state)
  if (banner.hidden) return
  const byRules = state.withheld_by_rules
  const parts = []
  if (state.engaged === true) parts.push('The service downgrades nobody on its own until somebody releases the brake.')
  if (state.since) parts.push(`It was engaged on ${date(state.since)}.`)
  if (typeof state.looked_at === 'number' && typeof state.lowered === 'number') {
    parts.push(`Of the ${state.looked_at} verdicts of the day before, ${state.lowered} downgraded somebody.`)
  }
  if (typeof state.withheld === 'number') parts.push(`Verdicts held back since: ${state.withheld}.`)
  if (byRules > 0) {
    parts.push(`A changed catalog or policy would downgrade ${byRules} of the users. They keep what they have until ` +
      'somebody fixes the configuration, or releases the brake.')
  }
  heading.textContent =
    state.engaged === true ? 'The downgrade brake is engaged' : 'A changed configuration is held back'
  text.textContent = parts.join(' ')
  showMessage(form, '')
  buttonOf(form).hidden = false
}

onSubmit(form, async () => {
  if (!await confirmed('Release the brake?', 'Nothing is held back any longer: for an hour every verdict counts, and ' +
    'users who are downgraded lose access. Release it only when you know why so many subscriptions end at once.',
  'Release it')) return
  work(form, 'Releasing…', async (isCurrent) => {
    await ask('DELETE', 'v1/brake')
    if (!isCurrent()) return
    heading.textContent = 'The downgrade brake is released'
    text.textContent = ''
    buttonOf(form).hidden = true
    showMessage(form, 'Every verdict counts for an hour. After that the brake works again.', 'good')
  })
})

function clear() {
  banner.hidden = true
  showMessage(form, '')
}

export const brake = {look, clear}
