// The refunds of a user, by Apple's own list.

import {bdi, day, el, several, time} from './elements.js'
import {message, onSubmit, showMessage, work} from './forms.js'
import {ask, isErased, userPath} from './service.js'
import {table} from './tables.js'
import {userButton} from './verdict.js'

const kinds = {REFUND_FULL: 'whole', REFUND_PRORATED: 'part'}

function part({revocation_type: type, revocation_percentage: share}) {
  const text = [kinds[type] || type, share === null || share === 100000 ? null : `${share / 1000} %`].filter(Boolean).join(', ')
  return text || 'not told'
}

const outcomes = {
  unavailable: ['Apple did not answer about every purchase: refunds may be missing here.', 'warn'],
  not_asked: ['There is no purchase at Apple’s to ask about.', ''],
  not_configured: ['There is no key of the App Store Server API (app_store.server_api): Apple cannot be asked.', 'warn'],
}

export function refundsForm(user, refresh) {
  const found = el('div')
  const form = el('form', {autocomplete: 'off', 'aria-labelledby': 'refunds-title'},
    el('h3', {id: 'refunds-title'}, 'Refunds'),
    el('p', {class: 'soft'}, 'Apple is asked for every refund of this customer. What nothing had told of counts at once.'),
    el('button', {type: 'submit'}, 'Ask Apple for refunds'), message(), found)

  function row(refund) {
    const isTheirs = refund.user_id === user
    return [
      [bdi(refund.product_id), el('br'), bdi(refund.transaction_id)],
      refund.purchased_at ? el('time', {datetime: refund.purchased_at}, day.format(new Date(refund.purchased_at))) : '–',
      [time(refund.refunded_at), refund.new ? [' ', el('span', {class: 'pill warn'}, 'new')] : null], part(refund),
      isTheirs ? 'this user' : !refund.user_id ? 'nobody' : isErased(refund.user_id) ? 'an erased user' : userButton(refund.user_id),
    ]
  }

  onSubmit(form, () => {
    work(form, 'Asking…', async (isCurrent) => {
      const answer = await ask('GET', userPath(user, 'refunds'))
      if (!isCurrent()) return
      const news = answer.refunds.filter((refund) => refund.new).length
      if (news > 0) await refresh(isCurrent)
      if (!isCurrent()) return
      found.replaceChildren(...(answer.refunds.length === 0 ? []
        : [table('Refunds', ['Transaction', 'Bought', 'Refunded', 'Part', 'Belongs to'], answer.refunds.map(row))].flat()))
      const [text, tone] = outcomes[answer.app_store]
        || [`${answer.refunds.length === 0 ? 'Apple knows no refund.' : `${several(answer.refunds.length, 'refund')}, ${news} new.`}`,
          'good']
      showMessage(form, text, tone)
    })
  })
  return form
}
